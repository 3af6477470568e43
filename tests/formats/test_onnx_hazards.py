"""What an honest ONNX file says, and what hostile ones are caught at: recipes 86 to 92, and more."""

from __future__ import annotations

import json
import os
from itertools import pairwise

import numpy as np
import onnx
import pytest
import wire
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from samples import protobufs as made

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.formats.onnx import Onnx
from vitrify.inspection.identify import files_at
from vitrify.reading.files import HeldFiles


def held(model, **more):
    data = model if isinstance(model, bytes) else model.SerializeToString()
    return HeldFiles({"model.onnx": memoryview(data), **{name: memoryview(value) for name, value in more.items()}})


def hazards(model, **more):
    return list(Onnx().hazards(held(model, **more), {"file": "model.onnx"}))


def describe(model, **more):
    return Onnx().describe(held(model, **more), {"file": "model.onnx"})


def rules(found):
    return [finding.rule for finding in found]


def pointing(**facts):
    """Return a model with an external tensor of 12 floats, and what its external data says."""
    model = made.linear()
    tensor = TensorProto(name="far", data_type=TensorProto.FLOAT, dims=[12], data_location=TensorProto.EXTERNAL)
    for key, value in facts.items():
        tensor.external_data.add(key=key, value=str(value))
    model.graph.initializer.append(tensor)
    return model


def local(folder, model):
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return list(Onnx().hazards(files_at(path), {"file": "model.onnx"}))


@pytest.mark.parametrize("name", [name for name in made.SAMPLES if name.startswith("onnx/")])
def test_honest_models_are_clean_and_say_what_the_library_reads(name, tmp_path):
    path = made.SAMPLES[name](tmp_path)
    files = files_at(path)
    entry = {"file": path.name} if path.is_file() else {}
    assert Onnx().detect(files)
    assert list(Onnx().hazards(files, entry)) == []
    described = json.loads(json.dumps(Onnx().describe(files, entry)))
    theirs = onnx.load(path if path.is_file() else path / "model.onnx", load_external_data=False)
    weights = {one["name"]: one["shape"] for one in described["tensors"]}
    assert {one.name: list(one.dims) for one in theirs.graph.initializer}.items() <= weights.items()
    assert [one["name"] for one in described["outputs"]] == [value.name for value in theirs.graph.output]
    assert described["versions"]["ir"] == theirs.ir_version
    graph = Onnx().graph(files, entry)
    assert graph.nodes[0].operator.rpartition(".")[2] == theirs.graph.node[0].op_type
    assert len(graph.nodes) == len(theirs.graph.node)


def test_describing_needs_no_library_but_the_parser(tmp_path):
    import subprocess
    import sys

    path = made.SAMPLES["onnx/nested"](tmp_path)
    script = (
        "import sys; from pathlib import Path; from vitrify.formats.onnx import Onnx;"
        "from vitrify.inspection.identify import files_at;"
        f"files = files_at(Path({str(path)!r})); Onnx().describe(files, {{'file': 'model.onnx'}});"
        "assert 'onnx' not in sys.modules and 'onnxruntime' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_graphs_inside_nodes_and_functions_are_counted_and_folded():
    assert describe(made.nested())["operators"] == {"Add": 1, "Identity": 1, "If": 1, "Loop": 1, "Neg": 1}
    graph = Onnx().graph(held(made.nested()), {"file": "model.onnx"})
    (branch,) = graph.nodes
    (loop,) = branch.graphs["then_branch"].nodes
    assert [node.operator for node in loop.graphs["body"].nodes] == ["Identity", "Add"]
    described = describe(made.with_functions())
    assert described["functions"] == ["ours.ReluAdd"]
    assert described["operators"] == {"Add": 2, "MatMul": 1, "Relu": 1, "ours.ReluAdd": 1}
    called = Onnx().graph(held(made.with_functions()), {"file": "model.onnx"}).nodes[-1]
    assert [node.operator for node in called.graphs["function"].nodes] == ["Relu", "Add"]


def test_what_else_a_model_says():
    described = describe(made.classifier())
    assert described["license"] == "Apache-2.0"
    assert described["outputs"] == [{"name": "y", "type": "sequence", "shape": None}]
    small = describe(made.quantised())
    assert small["quantisation"] == {"operators": ["DequantizeLinear"], "types": ["int8"]}
    assert small["precision"] == {"int8": 600, "float32": 2}
    graph = Onnx().graph(held(made.linear()), {"file": "model.onnx"})
    assert (graph.inputs, graph.outputs) == (("x",), ("y",))
    assert graph.tensors["weight"].weight
    assert graph.tensors["x"].shape == ("N", 3)


@given(st.permutations([field.name for field in onnx.ModelProto.DESCRIPTOR.fields]))
def test_the_order_of_fields_does_not_matter(order):
    model = made.linear()
    parts = []
    for name in order:
        part = onnx.ModelProto()
        if name in {field.name for field, _ in model.ListFields()}:
            value = getattr(model, name)
            if hasattr(value, "MergeFrom"):
                getattr(part, name).MergeFrom(value)
            else:
                setattr(part, name, value)
        parts.append(part.SerializeToString())
    files = held(b"".join(parts))
    assert Onnx().detect(files)
    assert Onnx().describe(files, {"file": "model.onnx"}) == describe(model)


@pytest.mark.parametrize(
    "location",
    [
        "../secret",
        "a/../../secret",
        "/etc/passwd",
        "C:\\secret",
        "c:secret",
        "\\\\host\\share",
        "a\\..\\..\\x",
        "",
        "\0",
    ],
)
def test_data_outside_the_directory_is_found(location):
    (found,) = hazards(pointing(location=location))
    assert (found.rule, found.subject) == ("external-data-path", location)
    assert "initializer" not in found.message


def test_data_beside_the_model_is_clean_and_data_that_is_not_there_is_not_checked(tmp_path):
    model = pointing(location="w/data", offset=8, length=48)
    assert rules(hazards(model, **{"w/data": bytes(56)})) == []
    (found,) = hazards(model)
    assert (found.rule, found.verdict) == ("external-data-missing", "not checked")
    assert rules(local(tmp_path, model)) == ["external-data-missing"]
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "data").write_bytes(bytes(56))
    assert local(tmp_path, model) == []


def test_data_behind_a_link_is_found(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(48))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "data").symlink_to(tmp_path / "secret")
    (found,) = local(folder, pointing(location="data"))
    assert found.rule == "external-data-link"
    (found,) = Onnx().hazards(files_at(folder), {})
    assert found.rule == "external-data-link"
    (folder / "inner").symlink_to(tmp_path)
    assert rules(local(folder, pointing(location="inner/secret"))) == ["external-data-link"]


def test_data_with_a_second_name_is_found(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(48))
    folder = tmp_path / "model"
    folder.mkdir()
    os.link(tmp_path / "secret", folder / "data")
    assert rules(local(folder, pointing(location="data"))) == ["external-data-link"]
    assert rules(Onnx().hazards(files_at(folder), {})) == ["external-data-link"]


@pytest.mark.parametrize(
    ("offset", "length"), [(0, 49), (8, 48), (-8, 48), (0, -1), (2**70, 48), ("x", 48), (0, "1e3"), (49, 0), (0, 4)]
)
def test_data_that_leaves_its_file_is_found(offset, length):
    assert rules(hazards(pointing(location="data", offset=offset, length=length), data=bytes(48))) == [
        "external-data-range"
    ]


def test_keys_that_the_standard_does_not_have_are_found():
    (found,) = hazards(pointing(location="data", __class__="x"), data=bytes(48))
    assert (found.rule, found.subject) == ("external-data-key", "__class__")
    assert hazards(pointing(location="data", checksum="x"), data=bytes(48)) == []


def test_a_key_that_stands_twice_is_malformed():
    model = pointing(location="data")
    model.graph.initializer[-1].external_data.add(key="location", value="../secret")
    with pytest.raises(MalformedError, match="twice"):
        hazards(model, data=bytes(48))


def test_tensors_may_share_all_of_their_bytes_but_not_some():
    model = pointing(location="data", offset=0, length=48)
    model.graph.initializer.append(model.graph.initializer[-1])
    assert hazards(model, data=bytes(96)) == []
    model.graph.initializer.append(pointing(location="data", offset=40, length=48).graph.initializer[-1])
    assert rules(hazards(model, data=bytes(96))) == ["external-data-overlap"]


def calling(*names):
    """Return a model whose functions each call the next, twice."""
    model = made.linear()
    for name, called in pairwise(names):
        nodes = [helper.make_node(called, ["a"], ["b"], domain="f"), helper.make_node(called, ["b"], ["c"], domain="f")]
        model.functions.append(helper.make_function("f", name, ["a"], ["c"], nodes, [helper.make_opsetid("f", 1)]))
    model.graph.node.append(helper.make_node(names[0], ["y"], ["z"], domain="f"))
    return model


@pytest.mark.parametrize("names", [("a", "a"), ("a", "b", "a"), ("a", "b", "c", "d", "b")])
def test_functions_in_a_circle_are_found_and_drawn_once(names):
    assert rules(hazards(calling(*names))) == ["recursive-function"]
    node = Onnx().graph(held(calling(*names)), {"file": "model.onnx"}).nodes[-1]
    for _ in set(names):
        node = node.graphs["function"].nodes[0]
    assert node.graphs == {}


def test_a_tower_of_doublings_is_found_and_drawn_once():
    names = [f"f{index}" for index in range(40)]
    model = calling(*names, "end")
    model.functions.append(helper.make_function("f", "end", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], []))
    assert rules(hazards(model)) == ["function-bomb"]
    assert len(repr(Onnx().graph(held(model), {"file": "model.onnx"}))) < 50_000


def test_graphs_nested_too_deep_are_a_limit():
    graph = helper.make_graph([], "g", [], [])
    for _ in range(30):
        graph = helper.make_graph([helper.make_node("If", ["c"], ["y"], then_branch=graph)], "g", [], [])
    model = made.linear()
    model.graph.CopyFrom(graph)
    assert describe(model)["operators"] == {"If": 30}
    data = model.graph.SerializeToString()
    for _ in range(200):
        attribute = wire.message((1, "then_branch"), (6, data))
        data = wire.message((1, wire.message((4, "If"), (5, attribute))))
    deep = wire.message((1, 8), (7, data))
    for look in (hazards, describe, lambda given: Onnx().graph(held(given), {"file": "model.onnx"})):
        with pytest.raises(LimitExceededError, match="deep"):
            look(deep)


def with_node(operator, domain="", **attributes):
    model = made.linear()
    model.graph.node.append(helper.make_node(operator, ["y"], ["z"], domain=domain, **attributes))
    return model


@pytest.mark.parametrize(
    ("operator", "domain", "subject"),
    [
        ("PyCustomOp", "ai.onnx.contrib", "ai.onnx.contrib.PyCustomOp"),
        ("PyOp", "com.microsoft", "com.microsoft.PyOp"),
        ("PythonOp", "com.microsoft", "com.microsoft.PythonOp"),
        ("Anything", "acme", "acme.Anything"),
        ("NotRelu", "", "ai.onnx.NotRelu"),
        ("Anything", "ai.onnx", "ai.onnx.Anything"),
        ("Anything", "ai.onnx.ml", "ai.onnx.ml.Anything"),
    ],
)
@pytest.mark.parametrize("deep", [False, True])
def test_operators_of_libraries_are_found_wherever_they_stand(operator, domain, subject, deep):
    model = with_node(operator, domain)
    if deep:
        inner = helper.make_graph([model.graph.node.pop()], "inner", [], [])
        model.graph.node.append(helper.make_node("If", ["y"], ["w"], then_branch=inner, else_branch=inner))
    (found,) = hazards(model)
    assert (found.rule, found.subject, found.verdict) == ("custom-operator", subject, "found")
    assert any(domain in need for need in describe(model)["needs"])


def test_operators_of_the_runtime_itself_are_known_but_not_those_that_run_something_else():
    assert hazards(with_node("FusedMatMul", "com.microsoft")) == []
    assert hazards(with_node("Relu", "ai.onnx")) == []
    assert rules(hazards(with_node("EPContext", "com.microsoft", ep_cache_context=b"x" * 9999))) == ["native-operator"]


def test_an_operator_of_a_standard_to_come_is_not_checked():
    model = with_node("Tomorrow")
    model.opset_import[0].version = 999
    (found,) = hazards(model)
    assert (found.rule, found.verdict) == ("unknown-operator", "not checked")


@pytest.mark.parametrize("dims", [[-1], [2**40, 2**40], [1] * 65, [2**63 - 1]])
def test_a_shape_that_no_tensor_has_is_malformed(dims):
    model = made.linear()
    model.graph.initializer.append(TensorProto(name="huge", data_type=1, dims=dims))
    for look in (hazards, describe):
        with pytest.raises(MalformedError, match="shape"):
            look(model)


def test_data_of_another_size_than_the_shape_is_found():
    model = made.linear()
    model.graph.initializer.append(TensorProto(name="w", data_type=1, dims=[1000], raw_data=bytes(8)))
    assert rules(hazards(model)) == ["tensor-size"]
    model.graph.initializer[-1].CopyFrom(TensorProto(name="w", data_type=22, dims=[3], raw_data=bytes(2)))
    assert hazards(model) == []


def test_metadata_that_names_libraries_or_configures_the_session_is_found():
    model = made.linear()
    helper.set_model_props(model, {"custom_ops": "./evil.so", "ort_config": "{}", "so": "fine.so.txt"})
    assert sorted(rules(hazards(model))) == ["native-library", "session-config"]


def test_external_tensors_in_attributes_and_sparse_initialisers_are_found():
    tensor = pointing(location="../x").graph.initializer[-1]
    constant = made.linear()
    constant.graph.node.append(helper.make_node("Constant", [], ["c"], value=tensor))
    assert rules(hazards(constant)) == ["external-data-path"]
    sparse = made.linear()
    indices = numpy_helper.from_array(np.arange(12), "i")
    sparse.graph.sparse_initializer.append(helper.make_sparse_tensor(tensor, indices, [99]))
    assert rules(hazards(sparse)) == ["external-data-path"]


@given(st.data())
def test_a_file_that_is_cut_off_or_changed_raises_nothing_else(data):
    whole = made.reordered(made.nested()) + pointing(location="data").SerializeToString()
    at = data.draw(st.integers(0, len(whole) - 1))
    broken = data.draw(st.sampled_from([whole[:at], whole[:at] + bytes([whole[at] ^ 64]) + whole[at + 1 :]]))
    Onnx().detect(held(broken))
    for look in (hazards, describe, lambda model: Onnx().graph(held(model), {"file": "model.onnx"})):
        try:
            look(broken)
        except MalformedError:
            continue
