"""TFLite: what is said about a model is what the interpreter says, and what it asks for from elsewhere is found."""

import io
import json
import zipfile
from importlib import import_module

import numpy as np
import pytest
from samples import graph_files

from vitrify.core.errors import MalformedError
from vitrify.formats._tflite import schema
from vitrify.formats.tflite import TFLite
from vitrify.reading.files import HeldFiles

FORMAT = TFLite()
ENTRY = {"file": "model.tflite"}


def held(content):
    return HeldFiles({"model.tflite": memoryview(content)})


def made(name):
    return graph_files.basic_pitch() if name == "basic-pitch" else graph_files.written(graph_files.TFLITE)[name]


def rules(content):
    return {(one.rule, one.subject): one.verdict for one in FORMAT.hazards(held(content), ENTRY)}


@pytest.fixture(scope="module")
def library():
    """The generated schema of the interpreter's own package."""
    return import_module("ai_edge_litert.schema_py_generated")


def details_of(interpreter, graph):
    count = interpreter._interpreter.NumTensors(graph)
    return [interpreter._get_tensor_details(place, graph) for place in range(count)]


@pytest.mark.parametrize("name", ["basic-pitch", "quantised", "signatures"])
def test_inputs_outputs_and_tensors_are_those_of_the_interpreter(name):
    interpreter = import_module("ai_edge_litert.interpreter").Interpreter(model_content=made(name))
    found = FORMAT.describe(held(made(name)), ENTRY)
    for kind, details in (("inputs", interpreter.get_input_details()), ("outputs", interpreter.get_output_details())):
        for ours, theirs in zip(found[kind], details, strict=True):
            shape = [None if size < 0 else size for size in theirs["shape_signature"].tolist()]
            assert (ours["name"], ours["type"], ours["shape"]) == (
                theirs["name"],
                theirs["dtype"].__name__,
                shape,
            )
    known = {one["name"]: one for graph, _ in enumerate(found["graphs"]) for one in details_of(interpreter, graph)}
    for ours in found["tensors"]:
        theirs = known[ours["name"]]
        assert ours["shape"] == theirs["shape"].tolist()
        assert ours["bytes"] == theirs["dtype"]().itemsize * int(np.prod(theirs["shape"]))
        scales = theirs["quantization_parameters"]["scales"]
        assert ours.get("scales", 1 if "scale" in ours else 0) == len(scales)
        if "scale" in ours:
            assert ours["scale"] == pytest.approx(float(scales[0]))
    signatures = interpreter.get_signature_list()
    assert {key: sorted(one["inputs"]) for key, one in signatures.items()} == {
        key: one["inputs"] for key, one in found["signatures"].items()
    }


def test_operators_are_counted_as_the_interpreter_lists_them():
    interpreter = import_module("ai_edge_litert.interpreter").Interpreter(model_content=made("quantised"))
    names = [one["op_name"] for one in interpreter._get_ops_details() if one["op_name"] != "DELEGATE"]
    assert set(FORMAT.describe(held(made("quantised")), ENTRY)["operators"]) == set(names)


def test_versions_and_quantisation_are_told():
    whole = FORMAT.describe(held(made("quantised")), ENTRY)
    assert whole["quantisation"]["scheme"] == "partly whole numbers"
    assert whole["quantisation"]["types"]["int8"] >= 2
    plain = FORMAT.describe(held(made("basic-pitch")), ENTRY)
    assert plain["versions"] == {"schema": 3, "min_runtime": "2.2.0", "tensorflow": "2.13.0"}
    assert "quantisation" not in plain


def test_the_graph_has_the_loop_inside_and_a_node_for_each_signature():
    drawn = FORMAT.graph(held(made("signatures")), ENTRY)
    graphs = [inner for node in drawn.nodes for inner in node.graphs.values()]
    assert len(graphs) == 2
    (loop,) = (node for graph in graphs for node in graph.nodes if node.operator == "WHILE")
    assert set(loop.graphs) == {"condition", "body"}
    assert [node.operator for node in loop.graphs["condition"].nodes] == ["LESS"]


def test_every_edge_of_a_drawn_graph_is_a_tensor():
    drawn = FORMAT.graph(held(made("basic-pitch")), ENTRY)
    named = {name for node in drawn.nodes for name in (*node.inputs, *node.outputs) if name}
    assert named <= set(drawn.tensors)
    assert sum(tensor.weight for tensor in drawn.tensors.values()) >= 20


def test_the_tables_are_those_of_the_schema(library):
    assert list(vars(library.TensorType))[1 : 1 + len(schema.TYPES)] == schema.TYPES
    operators = {name: value for name, value in vars(library.BuiltinOperator).items() if isinstance(value, int)}
    assert operators == {name: number for number, name in enumerate(schema.OPERATORS)}


def custom(library, name, *, external=None):
    """Return a model with one custom operator, as the generated code packs it."""
    flatbuffers = import_module("flatbuffers")
    model, graph, code, operator = library.ModelT(), library.SubGraphT(), library.OperatorCodeT(), library.OperatorT()
    tensor = library.TensorT()
    tensor.name, tensor.shape, tensor.buffer = "x", [2], 0
    code.builtinCode, code.deprecatedBuiltinCode, code.customCode = 32, 32, name
    operator.opcodeIndex, operator.inputs, operator.outputs = 0, [0], [0]
    graph.tensors, graph.inputs, graph.outputs, graph.operators = [tensor], [0], [0], [operator]
    model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, [code], [graph], [library.BufferT()]
    if external:
        group, outside = library.ExternalBufferGroupT(), library.ExternalBufferT()
        group.name, outside.id, tensor.externalBuffer = external, 1, 1
        model.externalBufferGroups, model.externalBuffers = [group], [outside]
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Evil", {("custom-operator", "Evil"): "found"}),
        ("FlexReadFile", {("file-operator", "FlexReadFile"): "found"}),
        ("FlexEagerPyFunc", {("python-operator", "FlexEagerPyFunc"): "found"}),
        ("FlexNobodyKnows", {("custom-operator", "FlexNobodyKnows"): "found"}),
        ("FlexMatrixInverse", {}),
        ("TFLite_Detection_PostProcess", {}),
    ],
)
def test_custom_operators_are_found_by_what_they_do(library, name, found):
    content = custom(library, name)
    assert rules(content) == found
    assert FORMAT.describe(held(content), ENTRY)["operators"] == {f"custom.{name}": 1}


def test_tensors_in_other_files_are_found(library):
    found = rules(custom(library, "Mfcc", external="../../weights.bin"))
    assert found == {("external-data", "../../weights.bin"): "found"}


def test_files_behind_the_model_are_parts_of_it():
    content = graph_files.with_files()
    assert rules(content) == {}
    assert FORMAT.describe(held(content), ENTRY)["files"] == ["labels.txt"]
    ((place, files),) = FORMAT.parts(held(content), ENTRY)
    assert place == "model.tflite: labels.txt"
    assert files.read("labels.txt") == b"cat\ndog\n"


def test_a_zip_behind_the_model_that_is_not_honest_is_found():
    held_open = io.BytesIO(graph_files.basic_pitch())
    with zipfile.ZipFile(held_open, "a") as archive:
        archive.writestr("../labels.txt", b"cat")
    assert ("zip-name", "") in rules(held_open.getvalue())


def test_bytes_that_nothing_leads_to_are_found():
    assert rules(made("basic-pitch") + bytes(100)) == {}
    assert rules(made("basic-pitch") + b"payload") == {("hidden-bytes", ""): "found"}


def test_what_a_model_points_to_that_is_not_there_is_refused(library):
    content = bytearray(custom(library, "Mfcc"))
    for at in range(0, len(content), 4):
        changed = content.copy()
        changed[at : at + 4] = b"\xff\xff\xff\x7f"
        try:
            json.dumps(FORMAT.describe(held(bytes(changed)), ENTRY))
        except MalformedError as error:
            assert "model.tflite" in error.message  # noqa: PT017 (not every change is refused)
    with pytest.raises(MalformedError, match="identifier"):
        FORMAT.describe(held(b"\0" * 64), ENTRY)
