from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from vitrify import containers
from vitrify.core.errors import MalformedError, UnsupportedModelError
from vitrify.core.protocols import Allow
from vitrify.formats import _onnx_external
from vitrify.formats.onnx import DATA, FILE, Onnx, element_type, parse, shape
from vitrify.inspection.identify import files_at

WEIGHT = np.arange(600, dtype=np.float32).reshape(3, 200)


def linear(*, weight=WEIGHT, inputs=("x",), opset=20):
    """``x @ weight + bias`` with a branch that holds a tensor of its own."""
    nodes = [
        helper.make_node("MatMul", [inputs[0], "weight"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3]) for name in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", weight.shape[1]])],
        [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(np.float32([1]), "bias")],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10, producer_name="test"
    )
    helper.set_model_props(model, {"key": "value"})
    return model


def save(model, files_and_sink, example=None):
    place = files_and_sink()
    shown = None if example is None else containers.example(example)
    return Onnx().write(model, place.sink, shown), place


def test_a_model_comes_back_equal_and_its_bytes_are_the_same_each_time(files_and_sink):
    written, place = save(linear(), files_and_sink)
    assert written.entry == {"file": FILE, "opset": 20, "ir": 10}
    assert Onnx().read(place.files(), json.loads(json.dumps(written.entry)), Allow()) == linear()
    assert save(linear(), files_and_sink)[1].files().read(FILE) == place.files().read(FILE)


def test_a_model_in_a_file_is_read_with_its_external_data(tmp_path, files_and_sink):
    onnx.save(linear(), tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=100)
    written, place = save(tmp_path / "m.onnx", files_and_sink)
    [weight, _] = Onnx().read(place.files(), written.entry, Allow()).graph.initializer
    assert np.array_equal(numpy_helper.to_array(weight), WEIGHT)


@pytest.fixture
def small_limit(monkeypatch):
    monkeypatch.setattr(_onnx_external, "LIMIT", 1000)


def test_above_the_limit_large_tensors_lie_in_a_file_of_their_own(small_limit, files_and_sink, tmp_path):
    model = linear()
    written, place = save(model, files_and_sink)
    assert written.entry["data"] == [DATA]
    assert place.files().names() == (FILE, DATA)
    assert len(place.files().read(FILE)) < 1000
    assert model == linear(), "the caller's model was changed"
    assert Onnx().read(place.files(), written.entry, Allow()) == model
    for name in place.files().names():
        (tmp_path / name).write_bytes(place.files().read(name))
    [theirs, _] = onnx.load(tmp_path / FILE).graph.initializer
    assert np.array_equal(numpy_helper.to_array(theirs), WEIGHT)


def test_external_tensors_are_aligned(small_limit, files_and_sink):
    _, place = save(linear(weight=np.ones((3, 333), np.float32)), files_and_sink)
    model = onnx.ModelProto.FromString(place.files().read(FILE))
    offsets = [int(e.value) for t in model.graph.initializer for e in t.external_data if e.key == "offset"]
    assert offsets
    assert all(offset % 64 == 0 for offset in offsets)


def test_a_model_whose_data_was_not_loaded_is_refused(tmp_path, files_and_sink):
    onnx.save(linear(), tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=100)
    with pytest.raises(UnsupportedModelError, match=r"m\.data"):
        save(onnx.load(tmp_path / "m.onnx", load_external_data=False), files_and_sink)


@pytest.mark.parametrize(
    ("inputs", "example", "expected"),
    [
        (("x",), {"x": WEIGHT[:, :3]}, {"x": "x"}),
        (("x",), WEIGHT[:, :3], {"X": "x"}),
        (("a", "b"), {"b": WEIGHT[:, :3], "a": WEIGHT[:, :3]}, {"a": "a", "b": "b"}),
        (("a", "b"), (WEIGHT[:, :3], WEIGHT[:, :3]), {"input_0": "a", "input_1": "b"}),
    ],
)
def test_the_signature_is_matched_by_name_or_else_by_position(inputs, example, expected, files_and_sink):
    written, _ = save(linear(inputs=inputs), files_and_sink, example)
    assert written.entry["inputs"] == expected
    assert written.entry["outputs"] == {"y": "y"}


def test_another_number_of_inputs_is_refused(files_and_sink):
    with pytest.raises(UnsupportedModelError, match=r"2 inputs \['a', 'b'\]"):
        save(linear(inputs=("a", "b")), files_and_sink, WEIGHT[:, :3])


@pytest.mark.parametrize("limit", [10**9, 1000])
def test_describing_says_what_is_inside(limit, monkeypatch, files_and_sink):
    monkeypatch.setattr(_onnx_external, "LIMIT", limit)
    written, place = save(linear(), files_and_sink)
    described = Onnx().describe(place.files(), written.entry)
    for one in described["tensors"]:
        assert (one.pop("file", DATA), one.pop("offset", 0)) == (DATA, 0)
    assert described == {
        "name": "linear",
        "versions": {"ir": 10, "ai.onnx": 20},
        "producer": "test",
        "inputs": [{"name": "x", "type": "float32", "shape": ["N", 3]}],
        "outputs": [{"name": "y", "type": "float32", "shape": ["N", 200]}],
        "tensors": [
            {"name": "weight", "type": "float32", "shape": [3, 200], "bytes": 2400},
            {"name": "bias", "type": "float32", "shape": [1], "bytes": 4},
        ],
        "parameters": 601,
        "bytes": 2404,
        "precision": {"float32": 601},
        "operators": {"Add": 1, "MatMul": 1},
        "quantisation": {},
        "metadata": {"key": "value"},
        "needs": [],
    }


def test_a_shape_that_nobody_gave_is_told_from_a_scalar():
    free = helper.make_tensor_value_info("x", TensorProto.STRING, None)
    assert (shape(free), element_type(free)) == (None, "string")
    assert shape(helper.make_tensor_value_info("x", TensorProto.FLOAT, [])) == []
    assert shape(helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, "n", 3])) == [None, "n", 3]
    listed = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None)
    assert element_type(listed) == "sequence"
    free.type.tensor_type.elem_type = 999
    assert element_type(free) == "999"


def test_detection_goes_by_content(tmp_path, files_and_sink):
    _, place = save(linear(), files_and_sink)
    good = place.files().path(FILE)
    assert Onnx().detect(files_at(good))
    for name, data in {"text": b"hello", "zip": b"PK\x03\x04", "empty": b"", "cut": good.read_bytes()[:-5]}.items():
        (tmp_path / f"{name}.onnx").write_bytes(data)
        assert not Onnx().detect(files_at(tmp_path / f"{name}.onnx"))
    assert not Onnx().detect(files_at(tmp_path))
    (tmp_path / "model.onnx").write_bytes(good.read_bytes())
    assert Onnx().detect(files_at(tmp_path))


def external(location="data", offset=None, length=None, where="initializer"):
    """A model with one external tensor, in an initializer or deep inside."""
    tensor = TensorProto(name="weight", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, "offset": offset, "length": length}.items():
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    model = linear()
    if where == "initializer":
        model.graph.initializer.append(tensor)
    elif where == "attribute":
        model.graph.node.append(helper.make_node("Constant", [], ["c"], value=tensor))
    elif where == "subgraph":
        inner = helper.make_graph([helper.make_node("Constant", [], ["c"], value=tensor)], "inner", [], [])
        model.graph.node.append(helper.make_node("If", ["y"], ["z"], then_branch=inner, else_branch=inner))
    else:
        node = helper.make_node("Constant", [], ["c"], value=tensor)
        model.functions.append(helper.make_function("d", "f", [], ["c"], [node], [helper.make_opsetid("", 20)]))
    return model.SerializeToString()


@pytest.mark.parametrize("where", ["initializer", "attribute", "subgraph", "function"])
@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "absent", "", "./data"])
def test_a_tensor_outside_the_artifact_is_malformed(location, where, files_and_sink):
    place = files_and_sink()
    place.put(FILE, external(location, where=where))
    place.put("data", bytes(8))
    assert list(Onnx().hazards(place.files(), {})) or location == "./data"
    for look in (parse, lambda files, entry: Onnx().read(files, entry, Allow())):
        with pytest.raises(MalformedError, match="does not have"):
            look(place.files(), {})


@pytest.mark.parametrize(
    ("offset", "length"),
    [(-8, 8), (0, 9), (1, 8), (0, -1), (2**70, 8), (8, None), ("x", 8), (0, "nan"), (9, None)],
)
def test_a_place_outside_its_file_is_malformed(offset, length, files_and_sink):
    place = files_and_sink()
    place.put(FILE, external(offset=offset, length=length))
    place.put("data", bytes(8))
    if (offset, length) == (8, None):
        assert Onnx().read(place.files(), {}, Allow()).graph.initializer[-1].raw_data == b""
        return
    with pytest.raises(MalformedError, match="weight"):
        Onnx().read(place.files(), {}, Allow())


@pytest.mark.parametrize("data", [b"", b"hello", b"\x08\x0a", b"\x08\x0a\x3a\x00"])
def test_what_is_no_model_is_malformed(data, files_and_sink):
    place = files_and_sink()
    place.put(FILE, data)
    with pytest.raises(MalformedError, match=FILE):
        Onnx().read(place.files(), {}, Allow())


def test_two_models_and_none_are_malformed(files_and_sink):
    place = files_and_sink()
    with pytest.raises(MalformedError, match="expected one"):
        parse(place.files(), {})


@given(position=st.integers(0, 3000), value=st.integers(0, 255))
def test_a_changed_byte_is_read_or_malformed(position, value, files_and_sink):
    data = bytearray(linear().SerializeToString())
    data[position % len(data)] = value
    place = files_and_sink()
    place.put(FILE, bytes(data))
    try:
        Onnx().describe(place.files(), {})
    except MalformedError:
        return
