"""The runtime of the ``onnx`` package's own evaluator: what it takes and gives, and what a model cannot do with it."""

from __future__ import annotations

import locale

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import vitrify
from vitrify.artifacts.pack import pack
from vitrify.core.catalog import catalog
from vitrify.core.document import Document
from vitrify.core.errors import (
    LimitExceededError,
    MalformedError,
    ModelError,
    SignatureError,
    UnsupportedModelError,
    UsageError,
)
from vitrify.core.protocols import Allow
from vitrify.reading.files import HeldFiles
from vitrify.runtimes.onnx_reference import OnnxReference, evaluator
from vitrify.runtimes.onnxruntime import OnnxRuntime

value = helper.make_tensor_value_info
VECTOR = helper.make_tensor_type_proto(TensorProto.FLOAT, ["N"])
INT = TensorProto.INT64


def graph(*nodes, takes=(), gives=(), held=(), opset=20, **more):
    built = helper.make_graph(list(nodes), "g", list(takes), list(gives), list(held))
    return helper.make_model(built, opset_imports=[helper.make_opsetid("", opset)], ir_version=10, **more)


def one(name, kind, **attributes):
    """One operator of a vector."""
    node = helper.make_node(name, ["x"], ["y"], **attributes)
    return graph(node, takes=[value("x", kind, ["N"])], gives=[value("y", kind, ["N"])])


def opened(model, signature=None):
    about = Document(schema=1, format="onnx", runtime="", signature=signature or OnnxReference().signature(model))
    return OnnxReference().wrap(model, about)


def looped(*nodes, body, more, most="", collected=()):
    """A loop that carries ``x`` and collects what its body gives besides."""
    ends = [value("turn", INT, []), value("again", TensorProto.BOOL, []), value("a", INT, [])]
    gives = [value(more, TensorProto.BOOL, []), value("b", INT, []), *collected]
    inside = helper.make_graph(list(body), "body", ends, gives)
    outputs = ["y", *(f"c_{each.name}" for each in collected)]
    loop = helper.make_node("Loop", [most, "", "x"], outputs, body=inside)
    given = [value("y", INT, None), *(value(f"c_{each.name}", INT, None) for each in collected)]
    return graph(*nodes, loop, takes=[value("x", INT, [])], gives=given)


def test_it_is_never_chosen_by_itself():
    assert catalog().runtime_of("onnx").name == "onnxruntime"


def test_what_onnx_runtime_has_no_kernel_for_is_run_where_the_refusal_says(store):
    model = one("Erf", TensorProto.DOUBLE)
    with pytest.raises(UnsupportedModelError) as caught:
        OnnxRuntime().wrap(model, Document(schema=1, format="onnx", runtime="", signature=None))
    assert "onnx-reference" in caught.value.remedy
    x = np.array([0.5, -1.0])
    artifact = vitrify.save(model, "erf", example={"x": x}, runtime="onnx-reference")
    assert artifact.document.runtime == "onnx-reference"
    with vitrify.load("erf") as session:
        np.testing.assert_allclose(session.run({"x": x})["y"], [0.5204998778130465, -0.8427007929497149], rtol=1e-6)
    with pytest.raises(UnsupportedModelError, match="Erf"):
        artifact.session(runtime="onnxruntime")


def test_a_refusal_does_not_send_to_where_the_operator_is_not_either():
    node = helper.make_node("Foo", ["x"], ["y"], domain="my.ops")
    model = graph(node, takes=[value("x", 1, ["N"])], gives=[value("y", 1, ["N"])])
    model.opset_import.append(helper.make_opsetid("my.ops", 1))
    with pytest.raises(UnsupportedModelError) as caught:
        OnnxRuntime().wrap(model, Document(schema=1, format="onnx", runtime="", signature=None))
    assert "onnx-reference" not in caught.value.remedy


def test_a_file_is_packed_for_it_where_it_is_named(store, tmp_path):
    path = tmp_path / "erf.onnx"
    path.write_bytes(one("Erf", TensorProto.DOUBLE).SerializeToString())
    assert pack(path, "erf", runtime="onnx-reference").document.runtime == "onnx-reference"
    with pytest.raises(UsageError, match="opens xgboost, not onnx") as caught:
        pack(path, "erf", runtime="xgboost")
    assert "leave the runtime out" in caught.value.remedy


@pytest.mark.parametrize(
    ("kind", "held", "exact", "other"),
    [
        (TensorProto.BFLOAT16, "float32", [1.5, -2.0, np.nan], 1.001),
        (TensorProto.FLOAT8E4M3FN, "float32", [1.5, -448.0], 449.0),
        (TensorProto.FLOAT8E5M2, "float32", [0.25, 57344.0], 1.1),
        (TensorProto.FLOAT4E2M1, "float32", [0.5, -6.0], 5.0),
        (TensorProto.INT4, "int8", [-8, 7], 8),
        (TensorProto.UINT4, "uint8", [0, 15], 16),
        (TensorProto.INT2, "int8", [-2, 1], 2),
        (TensorProto.UINT2, "uint8", [0, 3], 4),
    ],
)
def test_a_type_that_numpy_lacks_is_held_in_a_wider_one_and_no_value_changes(kind, held, exact, other):
    node = helper.make_node("Identity", ["x"], ["y"])
    model = graph(node, takes=[value("x", kind, ["N"])], gives=[value("y", kind, ["N"])], opset=25)
    session = opened(model)
    (field,) = session.signature.inputs
    assert field.dtype == ("bfloat16" if kind == TensorProto.BFLOAT16 else held)
    result = session.run({"x": np.array(exact, held)})["y"]
    assert result.dtype == held
    np.testing.assert_array_equal(result, np.array(exact, held))
    with pytest.raises(SignatureError):
        session.run({"x": np.array([other], held)})


def test_a_narrow_type_that_the_signature_does_not_know_of_changes_no_value_either():
    model = one("Relu", TensorProto.BFLOAT16)
    signature = OnnxReference().signature(model)
    wide = signature.replace(inputs=tuple(field.replace(dtype="float32") for field in signature.inputs))
    with pytest.raises(SignatureError, match=r"1\.001.* as bfloat16"):
        opened(model, wide).run({"x": np.float32([1.001])})


def test_what_is_no_tensor_becomes_an_array_as_elsewhere():
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["s"], axis=0),
        helper.make_node("Optional", ["x"], ["full"]),
        helper.make_node("Optional", [], ["none"], type=VECTOR),
    ]
    kinds = [helper.make_optional_type_proto(VECTOR)] * 2
    gives = [helper.make_value_info("s", helper.make_sequence_type_proto(VECTOR))]
    gives += [helper.make_value_info(*named) for named in zip(("full", "none"), kinds, strict=True)]
    result = opened(graph(*nodes, takes=[value("x", 1, ["N"])], gives=gives)).run({"x": np.float32([1, 2])})
    assert [part.tolist() for part in result["s"]] == [[1], [2]]
    assert result["full"].item().tolist() == [1, 2]
    assert result["none"].item() is None


def test_an_optional_value_is_taken_out_again():
    nodes = [
        helper.make_node("Optional", ["x"], ["o"]),
        helper.make_node("OptionalGetElement", ["o"], ["y"]),
        helper.make_node("Optional", [], ["none"], type=VECTOR),
        helper.make_node("OptionalHasElement", ["none"], ["has"]),
    ]
    gives = [value("y", 1, ["N"]), value("has", TensorProto.BOOL, [])]
    result = opened(graph(*nodes, takes=[value("x", 1, ["N"])], gives=gives)).run({"x": np.float32([3])})
    assert result["y"].tolist() == [3]
    assert not result["has"]


def test_a_sequence_that_a_session_cannot_take_is_refused():
    model = graph(
        helper.make_node("SequenceLength", ["x"], ["y"]),
        takes=[helper.make_value_info("x", helper.make_sequence_type_proto(VECTOR))],
        gives=[value("y", INT, [])],
    )
    with pytest.raises(UnsupportedModelError, match="seq"):
        OnnxReference().signature(model)


def test_an_answer_of_another_type_than_was_declared_is_the_models_error():
    model = one("Identity", TensorProto.FLOAT)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    with pytest.raises(ModelError, match="float32, declared is float64"):
        opened(model).run({"x": np.float32([1])})


def test_an_answer_is_the_callers_own():
    held = numpy_helper.from_array(np.float32([1, 2]), "w")
    constant = helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.float32([3, 4])))
    gives = [value(name, 1, None) for name in ("w", "k", "x")]
    session = opened(graph(constant, takes=[value("x", 1, [2])], gives=gives, held=[held]))
    x = np.float32([5, 6])
    for _ in range(2):
        answers = session.run({"x": x})
        assert [array.tolist() for array in answers.values()] == [[1, 2], [3, 4], [5, 6]]
        for array in answers.values():
            np.add(array, 10, out=array)
    assert x.tolist() == [5, 6]


def test_no_operator_can_write_to_what_the_model_holds():
    held = helper.make_tensor("w", TensorProto.FLOAT, [2], [1, 2])  # not raw data, which cannot be written to anyway
    node = helper.make_node("Add", ["x", "w"], ["y"])
    engine = evaluator(graph(node, takes=[value("x", 1, [2])], gives=[value("y", 1, [2])], held=[held]))
    assert not engine.rt_inits_["w"].flags.writeable


AGAIN = helper.make_node("Identity", ["again"], ["same"])
KEEP = helper.make_node("Identity", ["a"], ["b"])


def test_a_loop_that_never_ends_is_stopped_and_the_next_call_starts_anew():
    engine = evaluator(looped(body=[AGAIN, KEEP], more="same"))
    for _ in range(2):
        with pytest.raises(LimitExceededError, match="more than 1,000 nodes") as caught:
            engine.evaluate(["y"], {"x": np.int64(1)}, steps=1000)
        assert "never end" in caught.value.remedy


def test_a_session_stops_a_loop_that_never_ends(monkeypatch):
    monkeypatch.setattr("vitrify.runtimes._onnx_evaluator.Evaluator.evaluate.__kwdefaults__", {"steps": 1000})
    with pytest.raises(LimitExceededError, match="more than 1,000"):
        opened(looped(body=[AGAIN, KEEP], more="same")).run({"x": np.int64(1)})


def test_functions_that_multiply_are_counted():
    sets, functions = [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)], []
    for level in range(12):
        inner = (f"F{level - 1}", "f") if level else ("Identity", "")
        nodes = [helper.make_node(inner[0], [f"v{k}"], [f"v{k + 1}"], domain=inner[1]) for k in range(10)]
        functions.append(helper.make_function("f", f"F{level}", ["v0"], ["v10"], nodes, sets))
    node = helper.make_node("F11", ["x"], ["y"], domain="f")
    model = graph(node, takes=[value("x", 1, ["N"])], gives=[value("y", 1, ["N"])], functions=functions)
    model.opset_import.append(sets[1])
    with pytest.raises(LimitExceededError):
        evaluator(model).evaluate(["y"], {"x": np.float32([1])}, steps=5000)


def test_a_function_that_calls_itself_is_refused():
    sets = [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)]
    own = helper.make_function("f", "F", ["p"], ["q"], [helper.make_node("F", ["p"], ["q"], domain="f")], sets)
    node = helper.make_node("F", ["x"], ["y"], domain="f")
    model = graph(node, takes=[value("x", 1, ["N"])], gives=[value("y", 1, ["N"])], functions=[own])
    model.opset_import.append(sets[1])
    with pytest.raises(UnsupportedModelError, match="'F'"):
        evaluator(model)


@pytest.mark.parametrize("turns", [3, 0])
def test_a_loop_stacks_what_it_collects_whatever_its_rank(turns):
    table = numpy_helper.from_array(np.arange(6).reshape(2, 3), "table")
    body = [
        AGAIN,
        helper.make_node("Add", ["a", "turn"], ["b"]),
        helper.make_node("Identity", ["turn"], ["number"]),
        helper.make_node("Constant", [], ["t"], value=table),
        helper.make_node("Add", ["t", "turn"], ["matrix"]),
    ]
    most = helper.make_node("Constant", [], ["most"], value=numpy_helper.from_array(np.int64(turns)))
    collected = [value("number", INT, []), value("matrix", INT, [2, 3])]
    model = looped(most, body=body, more="same", most="most", collected=collected)
    total, numbers, matrices = evaluator(model).evaluate(["y", "c_number", "c_matrix"], {"x": np.int64(10)})
    assert total == 10 + sum(range(turns))
    assert numbers.tolist() == list(range(turns))
    assert matrices.dtype == np.int64
    assert matrices.shape == (turns, 2, 3)
    assert matrices.tolist() == [(np.arange(6).reshape(2, 3) + turn).tolist() for turn in range(turns)]


def test_a_model_does_not_set_the_locale_of_the_process():
    before = locale.setlocale(locale.LC_ALL)
    other = "C.utf8" if before == "C" else "C"
    model = one("StringNormalizer", TensorProto.STRING, case_change_action="UPPER", locale=other)
    assert opened(model).run({"x": np.array(["a", "ä"], object)})["y"].tolist() == ["A", "A"]
    assert locale.setlocale(locale.LC_ALL) == before


def test_an_image_of_a_format_that_another_program_would_be_started_for_is_refused():
    model = graph(
        helper.make_node("ImageDecoder", ["x"], ["y"]),
        takes=[value("x", TensorProto.UINT8, ["N"])],
        gives=[value("y", TensorProto.UINT8, ["H", "W", 3])],
    )
    session = opened(model)
    pixel = b"P6 1 1 255\n\x01\x02\x03"
    assert session.run({"x": np.frombuffer(pixel, np.uint8)})["y"].tolist() == [[[1, 2, 3]]]
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1 1\n%%EndComments\nshowpage\n"
    with pytest.raises(ModelError, match="cannot identify image"):
        session.run({"x": np.frombuffer(eps, np.uint8)})


def elsewhere(name, where):
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=where)
    return tensor


def sparse(tensor):
    indices = numpy_helper.from_array(np.array([0, 1]), "indices")
    tensor.name = "values"
    return helper.make_node("Constant", [], ["w"], sparse_value=helper.make_sparse_tensor(tensor, indices, [2]))


@pytest.mark.parametrize("kind", ["initializer", "constant", "sparse"])
def test_data_comes_from_the_artifact_and_from_nowhere_else(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.bin").write_bytes(np.float32([7, 8]).tobytes())
    tensor = elsewhere("w", "w.bin")
    make = {
        "initializer": lambda: ([], [tensor]),
        "constant": lambda: ([helper.make_node("Constant", [], ["w"], value=tensor)], []),
        "sparse": lambda: ([sparse(tensor)], []),
    }
    nodes, held = make[kind]()
    add = helper.make_node("Add", ["x", "w"], ["y"])
    model = graph(*nodes, add, takes=[value("x", 1, [2])], gives=[value("y", 1, [2])], held=held)
    about = Document(schema=1, format="onnx", runtime="", signature=OnnxReference().signature(model))
    with pytest.raises(UnsupportedModelError, match=r"w\.bin"):
        OnnxReference().wrap(model, about)
    content = {"model.onnx": memoryview(model.SerializeToString())}
    with pytest.raises(MalformedError, match=r"w\.bin"):
        OnnxReference().open(HeldFiles(content), about, Allow())
    if kind != "sparse":  # whose values the evaluator gives as they are, which Add does not take
        inside = HeldFiles(content | {"w.bin": memoryview(np.float32([1, 2]).tobytes())})
        result = OnnxReference().open(inside, about, Allow()).run({"x": np.float32([10, 20])})
        assert result["y"].tolist() == [11, 22]
