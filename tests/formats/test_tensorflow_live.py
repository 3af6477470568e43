"""Saved models, Keras files and TFLite models as formats of live models."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import vitrify
from vitrify import containers
from vitrify.core.errors import ModelError, UnsupportedModelError, UntrustedCodeError
from vitrify.core.protocols import Allow
from vitrify.formats.keras import Keras
from vitrify.formats.saved_model import SavedModel
from vitrify.formats.tflite import TFLite, TfLiteModel
from vitrify.testing.directory import DirectorySink
from vitrify.testing.formats import FormatConformance

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


class Table(tf.Module):
    """Variables, a branch and a table: all that TensorFlow counts or names at random."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.ones((3, 2)), name="dense/w")
        keys, values = tf.constant([0, 1], tf.int64), tf.constant([10.0, 20.0])
        self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1.0)

    def __call__(self, x):
        if tf.reduce_sum(x) > 0:
            x = x + 1
        return {"y": x @ self.w, "k": self.table.lookup(tf.cast(x[:, 0], tf.int64))}


class TestSavedModel(FormatConformance):
    format = SavedModel()
    canonical = False  # each loading adds a call around the function

    def model(self):
        return Table()

    def example(self):
        return containers.example(X)

    def same(self, left, right):
        answers = [
            (one.signatures["serving_default"](X=tf.constant(X)) if hasattr(one, "signatures") else one(tf.constant(X)))
            for one in (left, right)
        ]
        return all(np.array_equal(answers[0][name], answers[1][name]) for name in ("y", "k"))


def network():
    keras.utils.set_random_seed(0)
    x = keras.Input((3,), name="x")
    y = keras.layers.Dense(2, name="out")(keras.layers.BatchNormalization(name="norm")(x))
    model = keras.Model(x, y, name="net")
    model.compile("adam", "mse")
    return model


class TestKeras(FormatConformance):
    format = Keras()

    def model(self):
        return network()

    def same(self, left, right):
        return np.array_equal(left(X), right(X))


def flat(double=False):
    w = tf.constant(np.ones((3, 2), np.float32))
    function = tf.function(lambda x: x @ w).get_concrete_function(tf.TensorSpec((None, 3), tf.float32, name="x"))
    return TfLiteModel(bytes(tf.lite.TFLiteConverter.from_concrete_functions([function], tf.Module()).convert()))


class TestTFLite(FormatConformance):
    format = TFLite()

    def model(self):
        return flat()

    def same(self, left, right):
        return left == right


def test_a_function_that_reaches_out_is_not_written(tmp_path):
    example = containers.example(np.array(["a", "b"], object))
    with pytest.raises(UnsupportedModelError, match="ReadFile"):
        SavedModel().write(tf.function(lambda x: tf.io.read_file(x[0])), DirectorySink(tmp_path), example)


def test_a_module_that_rejects_the_example_says_so(tmp_path):
    with pytest.raises(ModelError, match="float64"):
        SavedModel().write(Table(), DirectorySink(tmp_path), containers.example(X.astype(float)))


def test_a_module_without_a_call_is_refused_with_its_functions(tmp_path):
    class Other(tf.Module):
        @tf.function
        def predict(self, x):
            return x

    with pytest.raises(UnsupportedModelError, match="predict"):
        SavedModel().write(Other(), DirectorySink(tmp_path), containers.example(X))


@pytest.mark.slow
def test_a_saved_model_declares_its_signature_and_needs_no_example(tmp_path):
    spec = tf.TensorSpec((None, 3), tf.float32, name="x")
    model = Table()
    tf.saved_model.save(model, tmp_path / "m", signatures=tf.function(model.__call__).get_concrete_function(spec))
    packed = vitrify.pack(tmp_path / "m", "packed")
    assert [str(field) for field in packed.document.signature.inputs] == ["x: float32[batch, 3]"]
    assert np.array_equal(vitrify.load("packed").predict({"x": X})["y"], model(tf.constant(X))["y"])


LAYER = """
import keras

class Scale(keras.layers.Layer):
    def build(self, shape):
        self.by = self.add_weight(shape=(shape[-1],), initializer="ones", name="by")

    def call(self, x):
        return x * self.by

@keras.saving.register_keras_serializable("side")
class Shift(keras.layers.Layer):
    def call(self, x):
        return x + 1
"""


def test_layers_of_ones_own_are_named_and_have_to_be_allowed(tmp_path, side_module):
    side = side_module("side_layers", LAYER)
    model = keras.Sequential([keras.Input((3,)), side.Scale(), side.Shift()])
    sink = DirectorySink(tmp_path)
    written = Keras().write(model, sink, None)
    assert written.names == ("side_layers.Scale", "side_layers.Shift")
    with pytest.raises(UntrustedCodeError):
        Keras().read(sink.files(), written.entry, Allow.of(["side_layers.Scale"]))
    again = Keras().read(sink.files(), written.entry, Allow.of(written.names))
    assert np.array_equal(again(X), model(X))


def test_lambda_layers_are_not_written(tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Lambda(lambda x: x * 2)])
    with pytest.raises(UnsupportedModelError, match="lambda"):
        Keras().write(model, DirectorySink(tmp_path), None)


def test_the_training_is_left_out_and_the_model_keeps_it(tmp_path):
    model = network()
    model.fit(X, X[:, :2], verbose=0)
    sink = DirectorySink(tmp_path)
    written = Keras().write(model, sink, None)
    assert written.notes
    assert "optimizer" not in str(Keras().describe(sink.files(), written.entry))
    assert model.optimizer is not None
