from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper, numpy_helper

from vitrify import containers
from vitrify.core.document import Document
from vitrify.core.errors import MalformedError, ModelError, SignatureError, UnsupportedModelError, UsageError
from vitrify.core.protocols import Allow
from vitrify.core.signature import Field, Signature
from vitrify.formats import _onnx_external
from vitrify.formats.onnx import Onnx
from vitrify.reading.files import HeldFiles
from vitrify.runtimes import onnxruntime as onnxruntime_module
from vitrify.runtimes._ports import _fed
from vitrify.runtimes.onnxruntime import OnnxRuntime

TYPES = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "string": TensorProto.STRING,
    "bool": TensorProto.BOOL,
    "uint8": TensorProto.UINT8,
    "float16": TensorProto.FLOAT16,
}


def identity(dtype, shape=("N",), out_shape=None, names=("x", "y")):
    """A graph that gives back what it gets, so that what is fed can be seen."""
    given_, taken = names
    graph = helper.make_graph(
        [helper.make_node("Identity", [given_], [taken])],
        "identity",
        [helper.make_tensor_value_info(given_, TYPES[dtype], shape)],
        [helper.make_tensor_value_info(taken, TYPES[dtype], out_shape or shape)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def document(field, returned=(), **entry):
    fields = field if isinstance(field, tuple) else (field,)
    signature = Signature(inputs=fields, outputs=tuple(returned), container="dict")
    return Document(schema=1, format="onnx", runtime="onnxruntime", entry=entry, signature=signature)


def run(model, array, field=None, returned=(), **entry):
    field = field or Field(name="x", dtype=str(array.dtype).replace("object", "string"), nullable=True)
    return OnnxRuntime().wrap(model, document(field, returned, **entry)).run({field.name: array})


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "bool", "uint8", "float16"])
def test_numbers_go_through_unchanged(dtype):
    array = np.array([0, 1, 1]).astype(dtype)
    result = run(identity(dtype), array)["y"]
    assert result.dtype == dtype
    assert np.array_equal(result, array)


def test_text_goes_through_unchanged():
    array = np.array(["a", "", "nan", "日本", "e\u0301"], object)
    assert run(identity("string"), array)["y"].tolist() == array.tolist()


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_text_is_what_the_converter_said_or_refused(missing):
    array = np.array(["a", missing], object)
    assert run(identity("string"), array, missing_text="?")["y"].tolist() == ["a", None], "one text stands for both"
    assert array[1] is missing, "the caller's array was changed"
    with pytest.raises(SignatureError, match="cannot be missing"):
        run(identity("string"), array)


def test_missing_integers_become_nan_in_floats_and_are_refused_in_integers():
    array = np.ma.MaskedArray(np.array([1, 2**60 + 1, 3]), mask=[False, True, False])
    result = run(identity("float32"), array)["y"]
    assert np.array_equal(result, np.float32([1, np.nan, 3]), equal_nan=True)
    with pytest.raises(SignatureError, match="missing values"):
        run(identity("int64"), array)


def test_a_masked_array_without_missing_values_is_an_array():
    array = np.ma.MaskedArray(np.array([1, 2]), mask=False)
    assert run(identity("int64"), array)["y"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.array([2**63], np.uint64), "int64"),
        (np.array([-1], np.int8), "uint8"),
        (np.array([2**31]), "int32"),
        (np.array([0.1]), "float32"),
        (np.array([1e300]), "float32"),
        (np.array([1.5]), "int64"),
        (np.array([np.nan]), "int64"),
        (np.array([np.inf]), "int64"),
        (np.array([2.0**63]), "int64"),
        (np.array([2]), "bool"),
    ],
)
def test_a_value_that_would_change_is_refused(array, dtype):
    with pytest.raises(SignatureError, match="graph takes"):
        run(identity(dtype), array)


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.array([2**53 + 1, -(2**53) - 1]), "float64"),
        (np.array([2**63 - 1]), "float64"),
        (np.array([2**24 + 1]), "float32"),
        (np.array([2**64 - 1], np.uint64), "float64"),
    ],
)
def test_an_integer_rounds_where_the_graph_takes_floats_as_numpy_rounds_it(array, dtype):
    np.testing.assert_array_equal(run(identity(dtype), array)["y"], array.astype(dtype))


@given(
    array=hnp.arrays(
        st.sampled_from(["int8", "uint8", "int32", "int64", "uint64", "float32", "float64", "bool"]),
        st.integers(1, 4),
        elements=None,
    ),
    dtype=st.sampled_from(["float32", "float64", "int64", "int32", "uint8", "bool", "float16"]),
)
def test_a_fed_value_is_the_given_value_or_its_rounding_or_an_error(array, dtype):
    try:
        fed = _fed(array, dtype, name="x", missing_text=None)
    except SignatureError:
        return
    assert fed.dtype == dtype
    for before, after in zip(array.tolist(), fed.tolist(), strict=True):
        with np.errstate(over="ignore"):  # 65,520 and more is infinite in float16
            rounded = array.dtype.kind in "iu" and fed.dtype.kind == "f" and after == fed.dtype.type(before)
        assert before == after or rounded or (np.isnan(before) and np.isnan(after))


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.array(["a"], object), "float32"),
        (np.array([1]), "string"),
        (np.array(["2020-01-01"], "M8[ns]"), "int64"),
        (np.array([b"a"], object), "string"),
    ],
)
def test_another_kind_of_value_is_refused(array, dtype):
    with pytest.raises(SignatureError, match="graph takes"):
        _fed(array, {"string": "object"}.get(dtype, dtype), name="x", missing_text=None)


def test_a_vector_is_fed_as_a_column_and_a_column_as_a_vector():
    assert run(identity("int64", ("N", 1)), np.arange(3))["y"].shape == (3, 1)
    field = Field(name="x", dtype="int64", shape=("batch", 1))
    assert run(identity("int64"), np.arange(3).reshape(3, 1), field)["y"].shape == (3,)


def test_an_output_column_becomes_the_vector_that_the_signature_has():
    wanted = Field(name="y", dtype="int64")
    assert run(identity("int64", ("N", 1)), np.arange(3), returned=[wanted])["y"].shape == (3,)


def test_outputs_have_the_signatures_names_and_their_own_types():
    entry = {"inputs": {"x": "in"}, "outputs": {"label": "out"}, "casts": {"label": "bool"}}
    result = run(identity("int64", names=("in", "out")), np.array([0, 1]), **entry)
    assert result["label"].dtype == bool
    assert result["label"].tolist() == [False, True]


def test_inputs_without_an_entry_match_by_name_or_by_position():
    assert run(identity("int64"), np.arange(2))["y"].tolist() == [0, 1]
    other = Field(name="other", dtype="int64")
    assert run(identity("int64"), np.arange(2), other)["y"].tolist() == [0, 1]


@pytest.mark.parametrize(
    "entry",
    [
        {"inputs": {"x": "absent"}},
        {"inputs": {"other": "x"}},
        {"inputs": {}, "outputs": {"y": "absent"}},
        {"outputs": {"label": "absent"}},
    ],
)
def test_an_entry_that_does_not_fit_the_graph_is_malformed(entry):
    with pytest.raises(MalformedError):
        run(identity("int64"), np.arange(2), **entry)


def test_an_input_that_nobody_feeds_is_malformed():
    model = identity("int64")
    model.graph.input.append(helper.make_tensor_value_info("more", TensorProto.INT64, ["N"]))
    with pytest.raises(MalformedError, match="more"):
        run(model, np.arange(2))


def ends(model):
    """The model's own signature, with the arrays that it gives for rows of its own."""
    return OnnxRuntime().signature(model)


def zipped(labels, value_type=TensorProto.FLOAT):
    keys = "classlabels_strings" if isinstance(labels[0], str) else "classlabels_int64s"
    key_type = TensorProto.STRING if isinstance(labels[0], str) else TensorProto.INT64
    maps = helper.make_map_type_proto(key_type, helper.make_tensor_type_proto(value_type, []))
    graph = helper.make_graph(
        [helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", **{keys: labels})],
        "zip",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", len(labels)])],
        [helper.make_value_info("y", helper.make_sequence_type_proto(maps))],
    )
    domains = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=10)


@pytest.mark.parametrize("labels", [["b", "a", "ä"], [3, -1, 0]])
def test_a_sequence_of_maps_is_a_matrix_and_its_keys_are_the_classes(labels):
    model, rows = zipped(labels), np.float32([[1, 2, 3], [4, 5, 6]])
    signature = ends(model)
    (field,) = signature.outputs
    assert (field.classes, field.dtype, field.shape) == (tuple(sorted(labels)), "float32", ("batch", 3))
    expected = rows[:, np.argsort(labels)]
    for outputs in ((), signature.outputs):
        result = run(model, rows, signature.inputs[0], returned=outputs)["y"]
        np.testing.assert_array_equal(result, expected)
    turned = field.replace(classes=tuple(labels))
    np.testing.assert_array_equal(run(model, rows, signature.inputs[0], returned=[turned])["y"], rows)
    other = field.replace(classes=("other", "z", "q"))
    with pytest.raises(ModelError, match="keys"):
        run(model, rows, signature.inputs[0], returned=[other])


def listed(*nodes, outputs):
    graph = helper.make_graph(
        list(nodes), "lists", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"])], outputs
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


VECTOR = helper.make_tensor_type_proto(TensorProto.FLOAT, ["N"])


def test_a_sequence_of_tensors_is_a_vector_of_arrays_even_where_all_have_one_size():
    split = helper.make_node("SplitToSequence", ["x"], ["s"], axis=0)
    model = listed(split, outputs=[helper.make_value_info("s", helper.make_sequence_type_proto(VECTOR))])
    assert [(one.dtype, one.shape) for one in ends(model).outputs] == [("object", ("s_0",))]
    result = run(model, np.float32([1, 2, 3]), returned=ends(model).outputs)["s"]
    assert (result.shape, result.dtype) == ((3,), object)
    assert [part.tolist() for part in result] == [[1], [2], [3]]


def test_an_optional_value_is_one_object_that_holds_it_or_none():
    nodes = [helper.make_node("Optional", ["x"], ["full"]), helper.make_node("Optional", [], ["none"], type=VECTOR)]
    kind = helper.make_optional_type_proto(VECTOR)
    model = listed(*nodes, outputs=[helper.make_value_info(name, kind) for name in ("full", "none")])
    assert [(one.dtype, one.shape) for one in ends(model).outputs] == [("object", ()), ("object", ())]
    result = run(model, np.float32([1, 2]), returned=ends(model).outputs)
    assert result["full"].shape == ()
    assert result["full"].item().tolist() == [1, 2]
    assert result["none"].item() is None


def test_described_outputs_are_the_declared_ones_for_what_is_no_tensor(store):
    import vitrify

    saved = vitrify.save(zipped(["b", "a"]), "zipped", example={"x": np.float32([[1, 2], [3, 4]])})
    (field,) = saved.signature.outputs
    assert (field.classes, field.shape) == (("a", "b"), ("batch", 2))
    with vitrify.load("zipped") as session:
        assert session.run({"x": np.float32([[1, 2]])})["y"].tolist() == [[2, 1]]


def test_inputs_that_are_no_tensors_and_types_that_numpy_lacks_are_refused_together():
    model = identity("float32")
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.BFLOAT16
    sequence = helper.make_value_info("more", helper.make_sequence_type_proto(VECTOR))
    model.graph.input.append(sequence)
    with pytest.raises(UnsupportedModelError) as caught:
        OnnxRuntime().signature(model)
    assert [problem.place for problem in caught.value.problems] == ["more", "y"]


def test_sizes_that_were_baked_in_are_listed_when_the_signature_lets_them_change():
    model = identity("float32", (1, 3))
    field = Field(name="x", dtype="float32", shape=("batch", "width"))
    with pytest.raises(UnsupportedModelError, match="baked") as caught:
        run(model, np.zeros((1, 3), np.float32), field)
    assert "dynamic={'x': {0: 1}}" in caught.value.problems[0].remedy
    assert len(caught.value.problems) == 2
    fixed = Field(name="x", dtype="float32", shape=(1, 3))
    assert run(model, np.zeros((1, 3), np.float32), fixed)["y"].shape == (1, 3)


def test_an_operator_without_a_kernel_is_refused_with_the_way_out(capfd):
    model = identity("float64")
    model.graph.node[0].op_type = "Erf"
    with pytest.raises(UnsupportedModelError, match="Erf") as caught:
        run(model, np.zeros(2))
    assert "float32" in caught.value.remedy
    assert capfd.readouterr() == ("", "")


def test_a_graph_that_fails_is_the_models_own_error(capfd):
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "x"], ["y"])],
        "gather",
        [helper.make_tensor_value_info("x", TensorProto.INT64, ["N"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N"])],
        [numpy_helper.from_array(np.float32([1, 2]), "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    with pytest.raises(ModelError, match="indices"):
        run(model, np.array([7]))
    assert capfd.readouterr() == ("", "")


def test_output_fields_take_the_batch_and_other_dimensions_from_the_graph():
    value = helper.make_tensor_value_info
    inputs = [value("x", TensorProto.FLOAT, ["N", 3])]
    cases = {"a": ["N", 2], "b": [None, 4], "c": ["M"], "d": [5], "e": None, "f": ["2*N", None]}
    graph = helper.make_graph([], "g", inputs, [value(name, TensorProto.FLOAT, s) for name, s in cases.items()])
    arrays = {
        "a": np.zeros((7, 2)),
        "b": np.zeros((7, 4)),
        "c": np.zeros(3),
        "d": np.zeros(5),
        "e": np.zeros((7, 1)),
        "f": np.zeros((14, 2)),
    }
    fields = OnnxRuntime().describe_outputs(helper.make_model(graph), arrays, {})
    assert {field.name: field.shape for field in fields} == {
        "a": ("batch", 2),
        "b": ("batch", 4),
        "c": ("M",),
        "d": (5,),
        "e": ("batch", 1),
        "f": ("2*N", "f_1"),
    }


def test_a_model_without_a_signature_cannot_be_opened():
    with pytest.raises(UsageError, match="signature"):
        OnnxRuntime().wrap(identity("int64"), Document(schema=1, format="onnx", runtime="onnxruntime"))


@pytest.mark.parametrize("limit", [10**9, 1000])
def test_a_saved_model_predicts_the_same_with_and_without_external_data(limit, monkeypatch, store):
    monkeypatch.setattr(_onnx_external, "LIMIT", limit)
    weight = np.random.default_rng(0).normal(size=(3, 300)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weight"], ["y"])],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 300])],
        [numpy_helper.from_array(weight, "weight")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    example = containers.example({"x": np.ones((2, 3), np.float32)})
    with store.stage() as stage:
        written = Onnx().write(model, stage, example)
        assert len(stage.files().names()) == (2 if limit == 1000 else 1)
        document = Document(
            schema=1, format="onnx", runtime="onnxruntime", entry=written.entry, signature=example.signature
        )
        with OnnxRuntime().open(stage.files(), document, Allow()) as session:
            for rows in (1, 2, 5, 33):
                data = np.random.default_rng(rows).normal(size=(rows, 3)).astype(np.float32)
                result = session.run({"x": data})["y"]
                assert np.allclose(result, data @ weight, atol=1e-5)
                assert np.array_equal(result, OnnxRuntime().wrap(model, document).run({"x": data})["y"])


def opened(content):
    about = document(Field(name="x", dtype="float32"), file="m.onnx")
    return OnnxRuntime().open(HeldFiles({"m.onnx": memoryview(content)}), about, Allow())


def test_a_model_that_holds_its_tensors_is_opened_without_the_library_of_onnx_and_one_that_may_not_with_it(monkeypatch):
    parsed = []
    monkeypatch.setattr(
        onnxruntime_module, "parse", lambda *about: parsed.append(about) or Onnx().read(*about, Allow())
    )
    x = np.ones(2, np.float32)
    assert np.array_equal(opened(identity("float32").SerializeToString()).run({"x": x})["y"], x)
    assert parsed == []
    named = identity("float32", names=("location", "y")).SerializeToString()
    assert np.array_equal(opened(named).run({"x": x})["y"], x)
    assert len(parsed) == 1


@pytest.mark.parametrize("content", [b"", b"no model", identity("float32").SerializeToString()[:-7]])
def test_what_is_no_model_is_malformed_and_not_what_the_runtime_makes_of_it(content):
    with pytest.raises(MalformedError, match="not an ONNX model"):
        opened(content)


def test_all_operators_that_nobody_here_knows_are_named_at_once():
    nodes = [
        helper.make_node("Foo", ["x"], ["a"], domain="my.ops"),
        helper.make_node("Own", ["a"], ["b"], domain="local"),
        helper.make_node("Bar", ["b"], ["y"], domain="other.ops"),
    ]
    ids = [helper.make_opsetid(domain, version) for domain, version in (("", 20), ("my.ops", 1), ("other.ops", 1))]
    own = helper.make_function("local", "Own", ["p"], ["q"], [helper.make_node("Relu", ["p"], ["q"])], ids[:1])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N"]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    ids.append(helper.make_opsetid("local", 1))
    model = helper.make_model(graph, opset_imports=ids, ir_version=10, functions=[own])
    with pytest.raises(UnsupportedModelError, match=r"in it: my\.ops\.Foo, other\.ops\.Bar\)"):
        run(model, np.zeros(1, np.float32))
