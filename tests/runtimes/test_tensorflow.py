"""TensorFlow, Keras and LiteRT as runtimes."""

from __future__ import annotations

import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from vitrify import containers
from vitrify.core.document import Document
from vitrify.core.errors import UnsupportedModelError
from vitrify.formats.keras import Keras
from vitrify.formats.saved_model import SavedModel
from vitrify.formats.tflite import TFLite, TfLiteModel
from vitrify.runtimes.keras import KerasRuntime
from vitrify.runtimes.litert import LiteRt
from vitrify.runtimes.tensorflow import TensorFlow
from vitrify.testing.runtimes import RuntimeConformance

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


class Linear(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.reshape(tf.range(6, dtype=tf.float32), (3, 2)), name="w")

    def __call__(self, x):
        return tf.nn.relu(x @ self.w)


class TestTensorFlow(RuntimeConformance):
    runtime, format = TensorFlow(), SavedModel()

    def model(self):
        return Linear()

    def example(self):
        return X


class TestKeras(RuntimeConformance):
    runtime, format = KerasRuntime(), Keras()

    def model(self):
        keras.utils.set_random_seed(0)
        return keras.Sequential([keras.Input((3,), name="x"), keras.layers.Dense(2), keras.layers.Dropout(0.5)])

    def example(self):
        return X


def flat(model):
    function = tf.function(model).get_concrete_function(tf.TensorSpec((None, 3), tf.float32, name="x"))
    return TfLiteModel(bytes(tf.lite.TFLiteConverter.from_concrete_functions([function], model).convert()))


class TestLiteRt(RuntimeConformance):
    runtime, format = LiteRt(), TFLite()

    def model(self):
        return flat(Linear())

    def example(self):
        return X


def wrapped(runtime, model, native):
    example = containers.example(native)
    return runtime.wrap(model, Document(schema=1, format="f", runtime="r", signature=example.signature)), example


def test_nan_passes_through_a_graph_as_it_is_written():
    session, example = wrapped(TensorFlow(), Linear(), X)
    given = np.full_like(X, np.nan)
    assert np.isnan(session.run({example.signature.inputs[0].name: given})["output"]).all()


def test_the_optimizer_of_the_process_is_as_it_was_after_a_run():
    before = tf.config.optimizer.get_experimental_options().get("disable_meta_optimizer", False)
    session, example = wrapped(TensorFlow(), Linear(), X)
    session.run(example.arrays)
    assert tf.config.optimizer.get_experimental_options().get("disable_meta_optimizer", False) == before


def test_text_goes_in_and_comes_out():
    session, example = wrapped(TensorFlow(), tf.function(tf.strings.upper), np.array(["a", "é"], object))
    assert session.run(example.arrays)["output"].tolist() == ["A", "é"]


def test_a_tflite_model_declares_itself():
    signature = LiteRt().signature(flat(Linear()))
    assert [str(field) for field in signature.inputs] == ["x: float32[batch, 3]"]
    assert signature.outputs[0].shape == ("batch", 2)


def test_a_batch_that_was_baked_in_is_refused():
    model = Linear()
    function = tf.function(model).get_concrete_function(tf.TensorSpec((1, 3), tf.float32, name="x"))
    content = tf.lite.TFLiteConverter.from_concrete_functions([function], model).convert()
    with pytest.raises(UnsupportedModelError, match="baked"):
        wrapped(LiteRt(), TfLiteModel(bytes(content)), X)


def test_inputs_of_a_keras_model_are_matched_by_name_whatever_their_order():
    a, b = keras.Input((1,), name="a"), keras.Input((1,), name="b")
    model = keras.Model({"a": a, "b": b}, keras.layers.Subtract()([a, b]))
    given = {"b": np.full((2, 1), 1, np.float32), "a": np.full((2, 1), 5, np.float32)}
    session, example = wrapped(KerasRuntime(), model, given)
    assert session.run(example.arrays)["output"].tolist() == [[4.0], [4.0]]


SCRIPT = """
import keras, numpy as np, vitrify
keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(2)])
x = np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3)
saved = vitrify.save(model, "net", example=x)
made = vitrify.convert(saved, to="saved-model")
assert np.allclose(made.session().predict(x)["output"], keras.ops.convert_to_numpy(model(x)), atol=1e-6)
print(saved.document.entry["backend"], saved.document.format, made.document.format)
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_a_keras_model_of_every_backend_is_saved_and_goes_to_a_saved_model(backend):
    environment = {**os.environ, "KERAS_BACKEND": backend}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.split()[-3:] == [backend, "keras", "saved-model"], done.stderr[-2000:]
