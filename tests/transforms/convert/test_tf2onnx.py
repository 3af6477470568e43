"""What the roads over tf2onnx share: nothing is converted twice, and windows leave NaN out."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import vitrify
from vitrify.core.document import SCHEMA, Document
from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Subject
from vitrify.core.report import Finding
from vitrify.reading.files import LocalFiles
from vitrify.transforms.convert._once import Once
from vitrify.transforms.convert._tf2onnx import guard_pools

pytestmark = pytest.mark.slow

LOWEST = np.finfo(np.float32).min


def a_source() -> Subject:
    return Subject(LocalFiles({}), Document(schema=SCHEMA, format="saved-model", runtime="tensorflow", entry={}), {})


def counting():
    """Return a conversion that counts, and what it counted."""
    made: list[onnx.ModelProto] = []

    def make(source: Subject) -> onnx.ModelProto:
        made.append(onnx.ModelProto(producer_version=str(len(made))))
        return made[-1]

    return Once(make), made


def test_what_was_made_to_find_problems_is_what_is_written():
    once, made = counting()
    source = a_source()
    assert once.problems(source) == ()
    assert once.model(source) is made[0]
    assert len(made) == 1


def test_another_source_and_a_second_call_are_made_anew():
    once, made = counting()
    first, second = a_source(), a_source()
    once.problems(first)
    assert once.model(second) is made[1]
    assert once.model(first) is made[2]


def test_what_stands_against_it_is_listed_and_raised_again():
    finding = Finding(place="Foreign", message="no translation", remedy="replace it")

    def refuses(source: Subject) -> onnx.ModelProto:
        raise UnsupportedModelError("no form in ONNX", problems=(finding,))

    once = Once(refuses)
    source = a_source()
    assert once.problems(source) == (finding,)
    with pytest.raises(UnsupportedModelError):
        once.model(source)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_a_window_leaves_nan_out_and_of_nothing_else_it_is_the_lowest_number(seed):
    rng = np.random.default_rng(seed)
    x = rng.choice(np.array([np.nan, np.nan, -np.inf, np.inf, LOWEST, 0, -0.0, 1, -2], np.float32), (2, 3, 4, 6))
    pool = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3, None, None]) for name in "xy"]
    graph = helper.make_graph([pool], "pool", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    guard_pools(model)
    onnx.checker.check_model(model, full_check=True)
    windows = x.reshape(2, 3, 2, 2, 3, 2).transpose(0, 1, 2, 4, 3, 5).reshape(2, 3, 2, 3, 4)
    wanted = np.where(np.isnan(windows), LOWEST, windows).max(axis=-1)
    given = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    np.testing.assert_array_equal(given, wanted)


def test_whole_numbers_need_no_guard():
    pool = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.INT8, [1, 1, None, None]) for name in "xy"]
    model = helper.make_model(helper.make_graph([pool], "pool", ends[:1], ends[1:]))
    guard_pools(model)
    assert [node.op_type for node in model.graph.node] == ["MaxPool"]


class Pool(tf.Module):
    def __call__(self, x):
        return tf.nn.max_pool2d(x, 2, 2, "VALID")


def test_a_pool_of_tensorflow_gives_the_same_of_what_has_holes():
    x = np.random.default_rng(0).normal(size=(6, 4, 4, 2)).astype(np.float32)
    x[::2, :3, 1:] = np.nan
    source = vitrify.save(Pool(), "pool", example=x)
    made = vitrify.convert(source, to="onnx")
    for name, wanted in source.session().predict(x).items():
        assert not np.isnan(wanted).any()
        np.testing.assert_array_equal(made.session().predict(x)[name], wanted)
