"""Weights alone: every tensor is there under its name, as it was."""

from __future__ import annotations

import keras
import numpy as np
import onnx
import pytest
import tensorflow as tf
import torch
from onnx import helper, numpy_helper

from vitrify import containers
from vitrify.core.document import Document
from vitrify.core.plan import Step
from vitrify.core.protocols import Subject
from vitrify.formats.keras import Keras
from vitrify.formats.onnx import Onnx
from vitrify.formats.safetensors import Safetensors
from vitrify.formats.saved_model import SavedModel
from vitrify.formats.torch_export import TorchExport
from vitrify.testing.directory import DirectorySink
from vitrify.transforms.convert.weights import KerasWeights, OnnxWeights, TensorFlowWeights, TorchWeights

X = np.zeros((2, 3), np.float32)
STEP = Step(transform="t", source="s", target="safetensors", fidelity="lossy", options={})


def weights(format_, transform, model, native, folder):
    """Write a model, take its weights, and read them."""
    for name in ("source", "target"):
        (folder / name).mkdir()
    example, sink, target = (
        containers.example(native),
        DirectorySink(folder / "source"),
        DirectorySink(folder / "target"),
    )
    written = format_.write(model, sink, example)
    document = Document(schema=1, format="f", runtime=None, entry=written.entry, signature=example.signature)
    subject = Subject(sink.files(), document, example.arrays)
    if problems := transform.problems(subject, STEP):
        return problems, None
    answer = transform.apply(subject, STEP, target)
    return Safetensors().read(target.files(), answer.entry, subject.allow), answer


def test_the_variables_of_a_saved_model_keep_names_and_types(tmp_path):
    class Module(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(np.arange(6, dtype=np.float32).reshape(3, 2), name="dense/w")
            self.h = tf.Variable(tf.constant([1.5], tf.bfloat16), name="half")

        def __call__(self, x):
            return x @ self.w + tf.cast(self.h, tf.float32)

    model = Module()
    found, _ = weights(SavedModel(), TensorFlowWeights(), model, X, tmp_path)
    assert sorted(found) == ["dense/w", "half"]
    assert str(found["half"].dtype) == "bfloat16"
    assert np.array_equal(found["dense/w"], model.w.numpy())


def test_the_variables_of_a_keras_model_are_named_by_their_paths(tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="out")])
    found, answer = weights(Keras(), KerasWeights(), model, X, tmp_path)
    kernel = next(name for name in found if name.endswith("out/kernel"))
    assert np.array_equal(found[kernel], model.layers[0].kernel.numpy())
    assert answer.notes


def test_tied_tensors_of_a_module_are_stored_once(tmp_path):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(3, 3, bias=False)
            self.b = torch.nn.Linear(3, 3, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    model = Tied()
    found, _ = weights(TorchExport(), TorchWeights(), model, torch.zeros(2, 3), tmp_path)
    assert sorted(found) == ["a.weight", "b.weight"]
    assert torch.equal(found["a.weight"], model.a.weight)
    assert found["a.weight"].data_ptr() == found["b.weight"].data_ptr()
    assert sum(path.stat().st_size for path in (tmp_path / "target").iterdir()) < 2 * model.a.weight.nbytes + 400


@pytest.mark.parametrize("dtype", [np.float64, np.int8, np.bool_])
def test_the_initialisers_of_a_graph_keep_their_types(dtype, tmp_path):
    held = numpy_helper.from_array(np.ones((3, 2), dtype), "w")
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [helper.make_node("Cast", ["w"], ["c"], to=1), helper.make_node("MatMul", ["X", "c"], ["y"])]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("X", 1, ["n", 3])], [value("y", 1, ["n", 2])], [held])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    found, _ = weights(Onnx(), OnnxWeights(), model, X, tmp_path)
    assert code != onnx.TensorProto.UNDEFINED
    assert {name: array.dtype for name, array in found.items()} == {"w": np.dtype(dtype)}


def test_a_model_without_weights_is_refused(tmp_path):
    problems, _ = weights(SavedModel(), TensorFlowWeights(), tf.function(lambda x: x * 2), X, tmp_path)
    assert "no weights" in problems[0].message
