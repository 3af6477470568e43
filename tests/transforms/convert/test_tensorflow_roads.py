"""The roads around TensorFlow: each proven against what it started from."""

from __future__ import annotations

import keras
import numpy as np
import onnx
import pytest
import tensorflow as tf
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import vitrify
from vitrify.core.errors import UnsupportedModelError
from vitrify.formats.onnx import Onnx
from vitrify.testing.transforms import TransformConformance

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
F = X.astype(np.float32)
Y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")


class Net(tf.Module):
    def __init__(self):
        super().__init__()
        tf.random.set_seed(0)
        self.a = tf.Variable(tf.random.normal((4, 8), seed=1), name="a")
        self.b = tf.Variable(tf.random.normal((8, 2), seed=2), name="b")

    def __call__(self, x):
        return {"score": tf.nn.softmax(tf.nn.gelu(x @ self.a) @ self.b)}


class Foreign(tf.Module):
    """Two operators that neither ONNX nor TFLite has."""

    def __call__(self, x):
        return tf.math.bessel_i0e(x) + tf.math.lgamma(tf.math.igamma(tf.abs(x) + 1, tf.abs(x)))


class _FromSavedModel(TransformConformance):
    def model(self):
        return Net()

    def example(self):
        return F


class TestSavedModelToTfLite(_FromSavedModel):
    name = "saved-model-to-tflite"

    def impossible(self):
        return Foreign()


class TestSavedModelToOnnx(_FromSavedModel):
    name = "saved-model-to-onnx"


class TestKerasToSavedModel(TransformConformance):
    name = "keras-to-saved-model"

    def model(self):
        keras.utils.set_random_seed(0)
        x = keras.Input((4,), name="x")
        return keras.Model(x, keras.layers.Dense(2)(keras.layers.LSTM(3)(keras.layers.Reshape((4, 1))(x))))

    def example(self):
        return F


class TestOnnxToSavedModel(TransformConformance):
    name = "onnx-to-saved-model"

    @pytest.fixture(autouse=True)
    def through_onnx(self, monkeypatch):
        save = vitrify.save
        monkeypatch.setattr(
            vitrify,
            "save",
            lambda model, name, **more: vitrify.convert(save(model, name, **more), to="onnx", checks=()),
        )

    def model(self):
        return make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)

    def example(self):
        return X


def test_a_forest_in_double_is_proven_on_tensorflow():
    model = make_pipeline(StandardScaler(), RandomForestClassifier(8, random_state=0)).fit(X, Y)
    source = vitrify.convert(vitrify.save(model, "forest", example=X), to="onnx")
    made = vitrify.convert(source, to="saved-model")
    assert made.session().predict(X)["label"].tolist() == model.predict(X).tolist()


def test_boosted_trees_go_all_the_way_to_tflite_and_back_to_onnx():
    model = xgb.XGBRegressor(n_estimators=8).fit(F, X[:, 0])
    source = vitrify.convert(vitrify.save(model, "boosted", example=F), to="onnx", precision="float32")
    flat = vitrify.convert(vitrify.convert(source, to="saved-model"), to="tflite")
    assert np.allclose(next(iter(flat.session().predict(F).values())), model.predict(F), atol=1e-5)


@pytest.mark.parametrize(
    "model",
    [LogisticRegression().fit(F, Y), xgb.XGBClassifier(n_estimators=3, max_depth=3).fit(F, Y == "yes")],
    ids=["labels of text", "boosted classes"],
)
def test_classes_go_to_tflite_in_single_precision(model):
    vitrify.save(model, "classes", example=F)
    made = vitrify.convert("classes", to="tflite", precision="float32")
    assert made.session().predict(F)["label"].tolist() == model.predict(F).tolist()


def test_double_precision_is_refused_by_tflite_with_the_way_around():
    class Double(tf.Module):
        def __call__(self, x):
            return tf.matmul(x, tf.ones((4, 2), tf.float64))

    with pytest.raises(UnsupportedModelError, match="float32") as caught:
        vitrify.convert(vitrify.save(Double(), "double", example=X), to="tflite")
    assert [problem.message for problem in caught.value.problems] == ["TFLite has no operator for it in float64"]
    assert all(problem.remedy for problem in caught.value.problems)


def test_nothing_of_tensorflow_is_left_in_the_onnx_graph_and_names_are_kept():
    made = vitrify.convert(vitrify.save(Net(), "net", example=F), to="onnx")
    graph = Onnx().read(made.files, made.document.entry, made.subject().allow).graph
    assert [value.name for value in graph.input] == ["X"]
    assert [value.name for value in graph.output] == ["score"]
    assert all(onnx.defs.has(node.op_type, node.domain) for node in graph.node)


def test_a_tflite_model_goes_to_onnx():
    flat = vitrify.convert(vitrify.save(Net(), "net", example=F), to="tflite")
    made = vitrify.convert(flat, to="onnx")
    assert np.allclose(made.session().predict(F)["score"], flat.session().predict(F)["score"], atol=1e-6)
