"""OpenVINO: converted, written to the same bytes, and predicting what its source predicts."""

from __future__ import annotations

import numpy as np
import openvino
import pytest
from onnx import TensorProto, helper, parser
from samples import graph_files

import vitrify
from vitrify.core.errors import CheckFailedError, MalformedError, SignatureError, UnsupportedModelError
from vitrify.core.protocols import Allow
from vitrify.formats import _onnx_external
from vitrify.formats.openvino import OpenVino
from vitrify.reading.files import HeldFiles
from vitrify.runtimes.openvino import OpenVino as Runtime
from vitrify.testing.formats import FormatConformance
from vitrify.testing.runtimes import RuntimeConformance
from vitrify.testing.transforms import TransformConformance
from vitrify.transforms.convert.openvino import with_floats

MLP = """
<ir_version: 9, opset_import: ["" : 19]>
mlp (float[batch,4] x) => (float[batch,2] y, int64[batch] label)
<float[4,3] W = {1,2,3,4,5,6,7,8,9,10,11,12}, float[3,2] V = {1,-2,3,-4,5,-6}> {
    hidden = MatMul (x, W)
    active = Tanh (hidden)
    y = MatMul (active, V)
    label = ArgMax <axis = 1, keepdims = 0> (y)
}
"""
TEXT = """
<ir_version: 9, opset_import: ["" : 19]>
g (string[batch] a, string[batch] b) => (string[batch] y, bool[batch] z) { y = Identity (a) z = Equal (a, b) }
"""


def rows():
    return {"x": np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)}


def live(text=MLP):
    return openvino.Core().read_model(parser.parse_model(text).SerializeToString())


class TestOnnxToOpenVino(TransformConformance):
    name = "onnx-to-openvino"

    def model(self):
        return parser.parse_model(MLP)

    def example(self):
        return rows()

    def impossible(self):
        graph = helper.make_graph(
            [
                helper.make_node("Binarizer", ["x"], ["a"], domain="ai.onnx.ml"),
                helper.make_node("Scaler", ["a"], ["b"], domain="ai.onnx.ml", offset=[0.0], scale=[1.0]),
                helper.make_node("Identity", ["b"], ["y"]),
            ],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
        )
        ids = [helper.make_opsetid("", 19), helper.make_opsetid("ai.onnx.ml", 3)]
        return helper.make_model(graph, opset_imports=ids, ir_version=9)


class TestOpenVinoRuntime(RuntimeConformance):
    runtime = Runtime()
    format = OpenVino()

    def model(self):
        return live()

    def example(self):
        return rows()


class TestOpenVinoFormat(FormatConformance):
    format = OpenVino()

    def model(self):
        return live()

    def same(self, left, right):
        shown = [
            [
                (node.get_type_name(), [str(one.partial_shape) for one in node.outputs()])
                for node in one.get_ordered_ops()
            ]
            for one in (left, right)
        ]
        return shown[0] == shown[1]


@pytest.mark.parametrize("text", [MLP, graph_files.ONNX])
def test_the_same_model_is_the_same_bytes_however_many_were_read_before(text):
    from vitrify.formats._openvino.live import serialised

    first = serialised(live(text))
    live()
    assert serialised(live(text)) == first


def forest(X, y):
    ensemble = pytest.importorskip("sklearn.ensemble")
    return ensemble.RandomForestClassifier(12, max_depth=6, random_state=0).fit(X, y)


@pytest.mark.slow
def test_a_forest_holds_on_its_thresholds_and_with_missing_values(store):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    fitted = forest(X, rng.integers(0, 3, 200))
    vitrify.save(fitted, "forest", example=X)
    converted = vitrify.convert("forest", to="openvino")
    assert converted.document.runtime == "openvino"
    assert any("float64 in float32" in note for note in converted.document.notes)
    np.testing.assert_array_equal(converted.session().predict(X)["label"], fitted.predict(X))


@pytest.mark.slow
def test_whole_numbers_that_are_only_read_as_floats_are_not_cut_to_32_bits(store):
    X = np.array([[2**40], [2**41], [2**42], [3 * 2**40], [5], [2**33]])
    fitted = forest(X, [0, 1, 0, 1, 1, 0])
    vitrify.save(fitted, "large", example=X)
    converted = vitrify.convert("large", to="openvino")
    np.testing.assert_array_equal(converted.session().predict(X)["label"], fitted.predict(X))


def test_only_inputs_that_all_readers_cast_alike_become_floats():
    model = parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 19]>
        g (int64[n] a, int64[n] b, int64[n] c) => (float[n] y, double[n] z, int64[n] c2, float[n] w) {
            p = Cast <to = 1> (a)
            y = Neg (p)
            q = Cast <to = 1> (b)
            w = Neg (q)
            z = Cast <to = 11> (b)
            c2 = Neg (c)
        }""")
    types = {one.name: one.type.tensor_type.elem_type for one in with_floats(model).graph.input}
    assert types == {"a": TensorProto.FLOAT, "b": TensorProto.INT64, "c": TensorProto.INT64}


def test_numbers_beyond_32_bits_are_refused_where_openvino_would_wrap_them_around(store):
    model = parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 19]>
        g (int64[batch] a) => (int64[batch] y) { y = Mul (a, a) }""")
    read = openvino.Core().read_model(model.SerializeToString())
    saved = vitrify.save(read, "squares", example={"a": np.array([1, 2, 3])})
    session = saved.session()
    assert session.run({"a": np.array([7])})["y"].tolist() == [49]
    with pytest.raises(SignatureError, match="32 bits"):
        session.run({"a": np.array([2**31])})


def test_what_needs_more_than_float32_is_not_let_through(store):
    model = parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 19]>
        g (double[batch] a) => (double[batch] y) <double one = {1}> { big = Add (a, one) y = Sub (big, a) }""")
    vitrify.save(model, "cancel", example={"a": np.array([1e9, 3e8, -2e9, 1.5])})
    with pytest.raises(CheckFailedError, match="not the same"):
        vitrify.convert("cancel", to="openvino")


def test_trees_that_compare_in_float64_are_refused_before_they_move_rows(store):
    lightgbm = pytest.importorskip("lightgbm")
    X = np.random.default_rng(0).normal(size=(100, 3))
    fitted = lightgbm.LGBMRegressor(n_estimators=3, verbose=-1).fit(X, X[:, 0])
    hub = vitrify.convert(vitrify.save(fitted, "boosted", example=X), to="onnx", checks=())
    with pytest.raises(UnsupportedModelError, match="in float64"):
        vitrify.convert(hub, to="openvino")


def test_text_is_refused_at_once(store):
    vitrify.save(parser.parse_model(TEXT), "text", example={"a": np.array(["x"], object), "b": np.array(["y"], object)})
    with pytest.raises(UnsupportedModelError, match="text") as caught:
        vitrify.convert("text", to="openvino")
    assert [problem.place for problem in caught.value.problems] == ["a", "b", "y"]


def test_text_and_operators_that_openvino_lacks_are_listed_together(store):
    model = parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml": 3]>
        g (float[batch,2] x) => (string[batch] label, float[batch,2] score) {
          label, score = ai.onnx.ml.LinearClassifier <classlabels_strings = ["a", "b"], multi_class = 1,
            coefficients = [1.0, 0.0, 0.0, 1.0], intercepts = [0.0, 0.0], post_transform = "NONE"> (x) }""")
    vitrify.save(model, "linear", example={"x": np.eye(2, dtype=np.float32)})
    with pytest.raises(UnsupportedModelError) as caught:
        vitrify.convert("linear", to="openvino")
    assert [problem.place for problem in caught.value.problems] == ["label", "ai.onnx.ml.LinearClassifier"]


def test_weights_that_no_message_holds_are_refused(monkeypatch, store):
    saved = vitrify.save(parser.parse_model(MLP), "m", example=rows())
    monkeypatch.setattr(_onnx_external, "size", lambda model: 3 << 30)
    with pytest.raises(UnsupportedModelError, match="bytes"):
        vitrify.convert(saved, to="openvino")


def test_a_directory_is_packed_without_an_example_and_predicts(tmp_path, store):
    openvino.save_model(live(), tmp_path / "net.xml", compress_to_fp16=False)
    packed = vitrify.pack(tmp_path, "packed")
    assert [str(field) for field in packed.signature.inputs] == ["x: float32[batch, 4]"]
    assert packed.session().run(rows())["label"].shape == (5,)


def test_a_graph_without_its_weights_is_no_model():
    from vitrify.formats._openvino.live import serialised

    xml, weights = serialised(live())
    for files in ({"model.xml": xml}, {"model.xml": xml, "model.bin": weights[:-1]}):
        held = HeldFiles({name: memoryview(content) for name, content in files.items()})
        with pytest.raises(MalformedError, match=r"model\.bin"):
            OpenVino().read(held, {}, Allow())


def test_a_branch_computes_and_a_baked_in_size_is_found(store):
    read = live(graph_files.ONNX)
    example = {"x": np.ones((2, 4), np.float32), "c": np.array(True)}
    saved = vitrify.save(read, "branches", example=example)
    session = saved.session()
    for chosen in (True, False):
        y, z = session.run({**example, "c": np.array(chosen)}).values()
        np.testing.assert_array_equal(z, -y if chosen else y)
    read = live()
    read.reshape([3, 4])
    with pytest.raises(UnsupportedModelError, match="baked"):
        vitrify.save(read, "fixed", example={"x": np.ones((3, 4), np.float32)})
