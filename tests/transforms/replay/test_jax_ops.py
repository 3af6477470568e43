"""ONNX's own node tests on JAX, compiled: what is covered answers as ONNX says, and what is not is named here."""

from __future__ import annotations

import re
import warnings

import jax
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

from vitrify.core.errors import UnsupportedModelError
from vitrify.formats._jax.trace import wide_types
from vitrify.transforms.convert.onnx_jax import replayed
from vitrify.transforms.replay._jax_values import OPS, tensor
from vitrify.transforms.replay.walk import Replay

NOT_COVERED = {
    *("Attention", "LinearAttention", "CausalConvWithState", "TensorScatter", "BitCast", "Col2Im", "CumProd", "DFT"),
    *("DeformConv", "GridSample", "ImageDecoder", "MaxUnpool", "MelWeightMatrix", "NonMaxSuppression", "QLinearConv"),
    *("RegexFullMatch", "RoiAlign", "STFT", "Scan", "StringConcat", "StringNormalizer", "StringSplit"),
    *("TfIdfVectorizer", "RandomUniformLike", "RandomNormalLike", "RandomUniform", "RandomNormal", "Multinomial"),
    *("OptionalGetElement", "OptionalHasElement", "Optional", "SplitToSequence", "AffineGrid"),
    *("SequenceConstruct", "SequenceInsert", "SequenceAt", "SequenceEmpty", "SequenceLength", "Adam", "Adagrad"),
    *("ConcatFromSequence", "SequenceErase", "Momentum", "Gradient"),
}
"""Operators that are refused: sequences and optionals, text, random numbers, and what no converter emits."""

REFUSED = re.compile(
    "compress|unique|nonzero|training_mode|maxpool_with_argmax|crop_and_resize|[^d]FLOAT4|FLOAT8|INT[24]|float4|u?int[24]"
    "|e8m0|e4m3|e5m2|float8"
)
"""Cases of covered operators that are refused: results whose size is data, training, types of few bits."""

BFLOAT16 = "_bf16"
"""Rounded after each step or not: ONNX does not say, and the cases allow for no difference."""

AS_ONNX_RUNTIME = {
    "test_resize_downsample_scales_linear_align_corners",
    "test_resize_downsample_scales_cubic_align_corners",
}
"""Here ONNX Runtime answers otherwise than the case says (it takes the whole number of outputs), and so do we."""


def tensors(values):
    return [numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value for value in values]


def covered():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = load_model_tests(kind="node")
    seen = set()
    for case in found:
        kinds = {node.op_type for node in case.model.graph.node}
        domains = {node.domain for node in case.model.graph.node}
        if kinds & NOT_COVERED or BFLOAT16 in case.name or "ai.onnx.preview.training" in domains:
            continue
        if any(
            not isinstance(value, np.ndarray) for data in case.data_sets for side in data for value in tensors(side)
        ):
            continue
        marks = () if kinds - seen and not REFUSED.search(case.name) else (pytest.mark.slow,)
        seen |= kinds if not marks else set()
        yield pytest.param(case, id=case.name, marks=marks)


@pytest.mark.parametrize("case", list(covered()))
def test_a_node_answers_as_onnx_says(case):
    try:
        replay = Replay(case.model, OPS)
    except UnsupportedModelError as error:
        refused = {problem.place for problem in error.problems}
    else:
        refused = set()
    assert refused <= NOT_COVERED
    if refused:
        return
    for data in case.data_sets:
        given, wanted = map(tensors, data)
        feeds = dict(zip([value.name for value in replay.inputs], given, strict=True))
        if case.name in AS_ONNX_RUNTIME:
            wanted = ort.InferenceSession(case.model.SerializeToString()).run(None, feeds)
        try:
            answers = compiled(replay, feeds)
        except UnsupportedModelError:
            assert REFUSED.search(case.name)
            return
        for answer, want in zip(answers, wanted, strict=True):
            have = np.asarray(answer)
            assert (have.dtype, have.shape) == (want.dtype, want.shape)
            if want.dtype.kind in "fV":
                np.testing.assert_allclose(have.astype(float), want.astype(float), rtol=case.rtol, atol=case.atol)
            else:
                np.testing.assert_array_equal(have, want)


def compiled(replay, feeds):
    """Compile for traced inputs; where sizes are among them, as graphs have them: constant."""

    def run(traced, fixed):
        return [tensor(value) for value in replay({**traced, **fixed})]

    with wide_types(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return jax.jit(lambda traced: run(traced, {}))(feeds)
        except Exception:  # noqa: BLE001 (whatever a size that is traced leads to)
            traced = {name: value for name, value in feeds.items() if value.dtype.kind == "f" and value.size > 4}
            fixed = {name: value for name, value in feeds.items() if name not in traced}
            return jax.jit(lambda traced: run(traced, fixed))(traced)


def graph(nodes, inputs, outputs, constants=()):
    proto = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants],
    )
    return helper.make_model(proto, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_sizes_that_may_change_stay_free_through_operators_of_shapes():
    model = graph(
        [
            helper.make_node("Shape", ["x"], ["shape"]),
            helper.make_node("Gather", ["shape", "zero"], ["rows"]),
            helper.make_node("Unsqueeze", ["rows", "axis"], ["row"]),
            helper.make_node("Concat", ["row", "rest"], ["wanted"], axis=0),
            helper.make_node("Reshape", ["x", "wanted"], ["flat"]),
            helper.make_node("Range", ["zero", "rows", "one"], ["numbers"]),
            helper.make_node("Cast", ["numbers"], ["floats"], to=1),
            helper.make_node("Unsqueeze", ["floats", "last"], ["column"]),
            helper.make_node("Add", ["flat", "column"], ["y"]),
        ],
        [("x", 1, ["n", 2, 3])],
        [("y", 1)],
        [("zero", np.int64(0)), ("one", np.int64(1)), ("axis", [0]), ("last", [1]), ("rest", [-1])],
    )
    exported, names = replayed(model)
    assert names == ("x",)
    for rows in (1, 4):
        x = np.arange(rows * 6, dtype=np.float32).reshape(rows, 2, 3)
        given = np.asarray(exported.call(x=x)["y"])
        np.testing.assert_array_equal(given, x.reshape(rows, 6) + np.arange(rows, dtype=np.float32)[:, None])


def test_a_size_that_data_decides_is_refused():
    model = graph([helper.make_node("NonZero", ["x"], ["y"])], [("x", 1, ["n"])], [("y", 7)])
    with pytest.raises(UnsupportedModelError, match="depends on the data"):
        replayed(model)


def test_text_is_refused():
    model = graph([helper.make_node("Identity", ["x"], ["y"])], [("x", 8, ["n"])], [("y", 8)])
    with pytest.raises(UnsupportedModelError, match="text"):
        replayed(model)
