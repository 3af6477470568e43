"""ONNX Runtime's own format: portable, the same bytes each time, opened by the same runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, parser
from samples import graph_files

import vitrify
from vitrify.core.errors import UnsupportedModelError
from vitrify.formats import _onnx_external
from vitrify.formats.ort import Ort, OrtModel
from vitrify.reading.files import HeldFiles
from vitrify.runtimes.onnxruntime import OnnxRuntime
from vitrify.testing.formats import FormatConformance
from vitrify.testing.runtimes import RuntimeConformance
from vitrify.testing.transforms import TransformConformance
from vitrify.transforms.convert.ort import _written

MLP = """
<ir_version: 9, opset_import: ["" : 19]>
mlp (float[N,4] x) => (float[N,2] y, int64[N] label)
<float[4,3] W = {1,2,3,4,5,6,7,8,9,10,11,12}, float[3,2] V = {1,-2,3,-4,5,-6}> {
    hidden = MatMul (x, W)
    active = Tanh (hidden)
    y = MatMul (active, V)
    label = ArgMax <axis = 1, keepdims = 0> (y)
}
"""


def model(text=MLP):
    return parser.parse_model(text)


class TestOnnxToOrt(TransformConformance):
    name = "onnx-to-ort"

    def model(self):
        return model()

    def example(self):
        return {"x": np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)}


class TestOrtRuntime(RuntimeConformance):
    runtime = OnnxRuntime()
    format = Ort()

    def model(self):
        return OrtModel(_written(model()))

    def example(self):
        return {"x": np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)}


class TestOrtFormat(FormatConformance):
    format = Ort()

    def model(self):
        return OrtModel(_written(model()))

    def same(self, left, right):
        sessions = [
            onnxruntime.InferenceSession(one.content, providers=["CPUExecutionProvider"]) for one in (left, right)
        ]
        x = {"x": np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)}
        answers = zip(*(session.run(None, x) for session in sessions), strict=True)
        return all(np.array_equal(*pair) for pair in answers)


@pytest.mark.parametrize("text", [MLP, graph_files.ONNX])
def test_the_same_model_is_the_same_bytes_however_often_it_is_written(text):
    assert len({_written(model(text)) for _ in range(8)}) == 1


def test_what_was_put_in_order_is_read_by_onnx_runtime_and_by_us_without_hidden_bytes():
    content = _written(model(graph_files.ONNX))
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    x = np.ones((2, 4), np.float32)
    for given in (True, False):
        ours = session.run(None, {"x": x, "c": np.array(given)})
        theirs = onnxruntime.InferenceSession(model(graph_files.ONNX).SerializeToString()).run(
            None, {"x": x, "c": np.array(given)}
        )
        for left, right in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(left, right)
    held = HeldFiles({"model.ort": memoryview(content)})
    assert list(Ort().hazards(held, {"file": "model.ort"})) == []


def test_no_operator_is_made_for_this_processor():
    held = HeldFiles({"model.ort": memoryview(_written(model()))})
    found = Ort().describe(held, {"file": "model.ort"})
    assert found["operators"] == {"ArgMax": 1, "MatMul": 2, "Tanh": 1}
    assert "needs" not in found


@pytest.mark.slow
def test_names_and_casts_of_the_source_go_on(store):
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    sklearn = pytest.importorskip("sklearn.linear_model")
    fitted = sklearn.LogisticRegression().fit(X, [True, False, True, True])
    vitrify.save(fitted, "m", example=X)
    converted, hub = vitrify.convert("m", to="ort"), vitrify.convert("m", to="onnx")
    assert converted.document.runtime == "onnxruntime"
    for key in ("inputs", "outputs", "casts"):
        assert converted.document.entry[key] == hub.document.entry[key]
    np.testing.assert_array_equal(converted.session().predict(X)["label"], fitted.predict(X))


def test_a_file_that_declares_its_ports_is_packed_without_an_example(tmp_path):
    path = tmp_path / "any.ort"
    path.write_bytes(_written(model()))
    packed = vitrify.pack(path, "packed")
    assert [str(field) for field in packed.signature.inputs] == ["x: float32[batch, 4]"]
    assert packed.session().run({"x": np.zeros((3, 4), np.float32)})["label"].shape == (3,)
    again = vitrify.save(vitrify.read(path), "again", example={"x": np.zeros((3, 4), np.float32)})
    assert again.document.format == "ort"


def test_a_graph_without_a_kernel_is_refused_before_any_work(store):
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N"])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    saved = vitrify.save(made, "m", example={"x": np.zeros(2, np.float32)})
    broken = onnx.ModelProto()
    broken.CopyFrom(made)
    broken.graph.node[0].domain = "acme"
    broken.opset_import.add(domain="acme", version=1)
    with pytest.raises(UnsupportedModelError, match="cannot open"):
        _written(broken)
    assert vitrify.convert(saved, to="ort").document.format == "ort"


def test_weights_that_no_flat_buffer_holds_are_refused(monkeypatch, store):
    saved = vitrify.save(model(), "m", example={"x": np.zeros((2, 4), np.float32)})
    monkeypatch.setattr(_onnx_external, "size", lambda model: 3 << 30)
    with pytest.raises(UnsupportedModelError, match="2 GiB"):
        vitrify.convert(saved, to="ort")


def test_only_what_was_read_is_written_as_ort(store):
    with pytest.raises(UnsupportedModelError, match="convert"):
        vitrify.save(model(), "m", format="ort", example={"x": np.zeros((2, 4), np.float32)})
