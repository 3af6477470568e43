"""ONNX's own node tests on TensorFlow, eagerly and traced: what is covered answers as ONNX says; the rest is named."""

from __future__ import annotations

import re
import warnings

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import tensorflow as tf
from onnx import helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.replay._tensorflow_base import tensor
from vitrify.transforms.replay.tensorflow_ops import ops
from vitrify.transforms.replay.walk import Replay

NOT_COVERED = {
    *("Attention", "LinearAttention", "CausalConvWithState", "TensorScatter", "BitCast", "Col2Im", "CumProd", "DFT"),
    *("DeformConv", "GridSample", "ImageDecoder", "MaxUnpool", "MelWeightMatrix", "NonMaxSuppression", "AffineGrid"),
    *("RoiAlign", "STFT", "StringNormalizer", "StringSplit", "TfIdfVectorizer", "Bernoulli", "Multinomial"),
    *("RandomUniformLike", "RandomNormalLike", "RandomUniform", "RandomNormal", "OptionalGetElement"),
    *("OptionalHasElement", "Optional", "SequenceConstruct", "SequenceInsert", "SequenceAt", "SequenceEmpty"),
    *("SequenceLength", "SequenceErase", "SequenceMap", "SplitToSequence", "ConcatFromSequence"),
}
"""Operators that are refused: sequences and optionals, random numbers, and what no converter emits."""

REFUSED = re.compile("unique_sorted_with|training_mode|crop_pad|FLOAT4|FLOAT8|INT[24]|u?int[24]$|e8m0|e4m3|e5m2|float8")
"""Cases of covered operators that are refused: along an axis, training, sizes that are data, types of few bits."""

HALF = re.compile(
    "e8m0|_bf16|_fp16|scan_sum|INT2|FLOAT4|float4|uint2|int2|INT4|e4m3|e5m2|float8|float16_zero|_BFLOAT16"
)
"""Rounded after each step or not: ONNX does not say. Types without tensors here. Scan of operator set 8."""


def arrays(values):
    return [numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value for value in values]


def covered():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = load_model_tests(kind="node")
    seen = set()
    for case in found:
        kinds = {node.op_type for node in case.model.graph.node}
        domains = {node.domain for node in case.model.graph.node}
        sides = [value for data in case.data_sets for side in data for value in arrays(side)]
        if kinds & NOT_COVERED or "ai.onnx.preview.training" in domains or HALF.search(case.name):
            continue
        if not all(isinstance(value, np.ndarray) for value in sides):
            continue
        marks = () if kinds - seen and not REFUSED.search(case.name) else (pytest.mark.slow,)
        seen |= kinds if not marks else set()
        yield pytest.param(case, id=case.name, marks=marks)


@pytest.fixture(autouse=True)
def as_written():
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    yield
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


def plain(value):
    value = tensor(value)
    array = np.asarray(value.numpy())
    if value.dtype == tf.string:
        return np.array([text.decode() for text in array.reshape(-1)], object).reshape(array.shape)
    return array


def same(case, answers, wanted):
    for answer, want in zip(answers, wanted, strict=True):
        have = plain(answer)
        assert have.shape == want.shape
        if want.dtype.kind in "fV":
            assert have.dtype == want.dtype
            np.testing.assert_allclose(have.astype(float), want.astype(float), rtol=case.rtol, atol=case.atol)
        else:
            np.testing.assert_array_equal(have, want)


def traced(replay, feeds):
    """Trace for inputs whose first size may change; what must be known is constant, as graphs have it."""

    def run(free):
        def serve(**given):
            fixed = {name: value for name, value in feeds.items() if name not in free}
            return [tensor(value) for value in replay({**fixed, **{free[port]: one for port, one in given.items()}})]

        given = {f"x{at}": tensor(feeds[name]) for at, name in enumerate(free)}
        free = dict(zip(given, free, strict=True))
        specs = {
            port: tf.TensorSpec([None, *one.shape[1:]] if one.shape.rank else [], one.dtype)
            for port, one in given.items()
        }
        return tf.function(serve, autograph=False).get_concrete_function(**specs)(**given)

    names = list(feeds)
    for free in (names, names[:1], []):
        try:
            return run(free)
        except Exception:
            if not free:
                raise
    raise AssertionError


@pytest.mark.parametrize("case", list(covered()))
def test_a_node_answers_as_onnx_says(case):
    try:
        replay = Replay(case.model, ops)
    except UnsupportedModelError as error:
        assert {problem.place for problem in error.problems} <= NOT_COVERED  # noqa: PT017 (it may also be covered)
        return
    for data in case.data_sets[:1]:
        given, wanted = map(arrays, data)
        feeds = dict(zip([value.name for value in replay.inputs], given, strict=True))
        try:
            eager = replay({name: tensor(value) for name, value in feeds.items()})
            graph = traced(replay, feeds)
        except UnsupportedModelError:
            assert REFUSED.search(case.name)
            return
        same(case, eager, wanted)
        same(case, graph, wanted)


NUMBERS = np.array([[np.nan, 1, -2, 0.5], [3, np.nan, -np.inf, 2], [np.inf, 1.5, 2.5, -0.5], [0, 0, -0.0, 1e30]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("kind", "more", "outputs", "attributes"),
    [
        ("Max", [np.ones(1)], 1, {}),
        ("Min", [np.ones(1)], 1, {}),
        ("Clip", [np.array(-1.0), np.array(0.75)], 1, {}),
        ("Sign", [], 1, {}),
        ("Round", [], 1, {}),
        ("ArgMax", [], 1, {"axis": 1}),
        ("ArgMin", [], 1, {"axis": 1}),
        ("TopK", [np.array([3])], 2, {"axis": 1}),
        ("TopK", [np.array([3])], 2, {"axis": 1, "largest": 0}),
        ("Cast", [], 1, {"to": 6}),
        ("Cast", [], 1, {"to": 7}),
        ("Cast", [], 1, {"to": 9}),
        ("Greater", [np.ones(1)], 1, {}),
        ("IsInf", [], 1, {"detect_negative": 0}),
        ("Relu", [], 1, {}),
    ],
)
def test_nan_infinity_and_ties_are_onnx_runtimes(kind, more, outputs, attributes, dtype):
    constants = [value.astype(dtype) if value.dtype.kind == "f" else value for value in more]
    names = [f"y{at}" for at in range(outputs)]
    values = [helper.make_empty_tensor_value_info(name) for name in names]
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node(kind, ["x", *(f"c{at}" for at in range(len(constants)))], names, **attributes)],
        "one",
        [helper.make_tensor_value_info("x", code, ["n", 4])],
        values,
        [numpy_helper.from_array(value, f"c{at}") for at, value in enumerate(constants)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = NUMBERS.astype(dtype)
    engine = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = engine.run(None, {"x": x})
    for answer, want in zip(Replay(model, ops)({"x": tf.constant(x)}), wanted, strict=True):
        np.testing.assert_array_equal(plain(answer), want)


def test_what_tensorflow_lacks_is_listed_at_once():
    nodes = [helper.make_node("NonMaxSuppression", ["b", "s"], ["i"]), helper.make_node("Bernoulli", ["s"], ["r"])]
    values = [helper.make_tensor_value_info(name, 1, [1, 2, 4]) for name in "bs"]
    graph = helper.make_graph(nodes, "two", values, [helper.make_empty_tensor_value_info(name) for name in "ir"])
    with pytest.raises(UnsupportedModelError) as caught:
        Replay(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), ops)
    assert "NonMaxSuppression" in str(caught.value)
    assert len(caught.value.problems) > 1
