"""Reductions and products, on TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.formats._tensorflow.loaded import tf
from vitrify.transforms.replay._tensorflow_base import (
    axis_of,
    floating,
    ints,
    is_nan,
    op,
    rank,
    refuse,
    tensor,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.transforms.replay.walk import Node

_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceSum": tf.reduce_sum,
    "ReduceProd": tf.reduce_prod,
    "ReduceMax": tf.reduce_max,
    "ReduceMin": tf.reduce_min,
    "ReduceMean": tf.reduce_mean,
    "ReduceLogSumExp": tf.reduce_logsumexp,
    "ReduceL1": lambda x, axes, keepdims: tf.reduce_sum(tf.abs(x), axes, keepdims=keepdims),
    "ReduceL2": lambda x, axes, keepdims: _root(tf.reduce_sum(x * x, axes, keepdims=keepdims)),
    "ReduceLogSum": lambda x, axes, keepdims: tf.math.log(tf.reduce_sum(x, axes, keepdims=keepdims)),
    "ReduceSumSquare": lambda x, axes, keepdims: tf.reduce_sum(x * x, axes, keepdims=keepdims),
}


def _root(x: Any) -> Any:
    return tf.sqrt(x) if floating(x) else tf.cast(tf.sqrt(tf.cast(x, tf.float64)), x.dtype)


@op(*_REDUCTIONS)
def reduction(node: Node, x: Any, axes: Any = None) -> Any:
    x = tensor(x)
    asked = node.get("axes") if axes is None else ints(node, axes, "which axes it reduces")
    if not asked and node.get("noop_with_empty_axes", 0):
        return x
    found = [axis_of(node, x, axis) for axis in asked] if asked else None
    keep = bool(node.get("keepdims", 1))
    if x.dtype == tf.bool:
        function = tf.reduce_any if node.kind == "ReduceMax" else tf.reduce_all
        return function(x, found, keepdims=keep)
    if x.dtype.is_integer and node.kind in {"ReduceMean", "ReduceLogSum", "ReduceLogSumExp"}:
        exact = node.kind == "ReduceMean"
        wide = _REDUCTIONS[node.kind](tf.cast(x, tf.float64), found, keepdims=keep)
        return tf.cast(tf.math.floor(wide) if exact and x.dtype.is_unsigned else wide, x.dtype)
    return _REDUCTIONS[node.kind](x, found, keepdims=keep)


@op("ArgMax", "ArgMin")
def arg_extreme(node: Node, x: Any) -> Any:
    x = tensor(x)
    axis = axis_of(node, x, node.get("axis", 0))
    function = tf.argmax if node.kind == "ArgMax" else tf.argmin
    last = node.get("select_last_index", 0)
    if last:
        x = tf.reverse(x, [axis])
    if floating(x):
        # ONNX Runtime compares one after another: NaN wins only where it is the first.
        worst = tf.constant(-np.inf if node.kind == "ArgMax" else np.inf, x.dtype)
        found = function(tf.where(is_nan(x), worst, x), axis)
        first = tf.gather(x, -1 % (x.shape[axis] or 1) if last else 0, axis=axis)
        found = tf.where(is_nan(first), tf.cast(tf.shape(x)[axis] - 1 if last else 0, tf.int64), found)
    else:
        found = function(x if x.dtype != tf.bool else tf.cast(x, tf.int32), axis)
    if last:
        found = tf.cast(tf.shape(x)[axis], tf.int64) - 1 - found
    return tf.expand_dims(found, axis) if node.get("keepdims", 1) else found


@op("CumSum")
def running_sum(node: Node, x: Any, axis: Any) -> Any:
    found = ints(node, axis, "which axis it adds along")[0]
    x = tensor(x)
    return tf.cumsum(x, found, exclusive=bool(node.get("exclusive", 0)), reverse=bool(node.get("reverse", 0)))


@op("MatMul")
def matmul(node: Node, left: Any, right: Any) -> Any:
    left, right = tensor(left), tensor(right)
    if left.dtype in {tf.uint32, tf.uint64}:
        return tf.cast(matmul(node, tf.cast(left, tf.int64), tf.cast(right, tf.int64)), left.dtype)
    single = rank(node, left) == 1, rank(node, right) == 1
    left = left[tf.newaxis, :] if single[0] else left
    right = right[:, tf.newaxis] if single[1] else right
    found = tf.matmul(left, right)
    found = found[..., 0] if single[1] else found
    return tf.squeeze(found, -1 if single[1] else -2) if single[0] else found


@op("Gemm")
def gemm(node: Node, left: Any, right: Any, bias: Any = None) -> Any:
    left, right = tensor(left), tensor(right)
    whole = left.dtype.is_integer
    found = tf.matmul(left, right, transpose_a=bool(node.get("transA", 0)), transpose_b=bool(node.get("transB", 0)))
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    if alpha != 1:
        found = (
            tf.cast(tf.cast(found, tf.float64) * alpha, found.dtype) if whole else found * tf.cast(alpha, found.dtype)
        )
    if bias is None:
        return found
    bias = tensor(bias)
    return found + (bias if beta == 1 else tf.cast(beta, bias.dtype) * bias)


@op("Einsum")
def einsum(node: Node, *values: Any) -> Any:
    return tf.einsum(node.attributes["equation"].replace(" ", ""), *(tensor(value) for value in values))


@op("Det")
def determinant(_: Node, x: Any) -> Any:
    return tf.linalg.det(tensor(x))


@op("MatMulInteger")
def matmul_integer(node: Node, left: Any, right: Any, left_zero: Any = None, right_zero: Any = None) -> Any:
    return matmul(node, _shifted(tensor(left), left_zero, -2), _shifted(tensor(right), right_zero, -1))


def _shifted(x: Any, zero: Any, axis: int) -> Any:
    """Return small integers as int32 minus their zero point: one for all, one a row (left) or one a column (right)."""
    wide = tf.cast(x, tf.int32)
    if zero is None:
        return wide
    point = tf.cast(tensor(zero), tf.int32)
    if point.shape.rank == 1 and point.shape[0] != 1 and axis == -2:  # noqa: PLR2004 (the rows)
        point = point[:, tf.newaxis]
    return wide - (tf.reshape(point, []) if point.shape.num_elements() == 1 else point)


@op("QLinearMatMul")
def quantized_matmul(
    node: Node, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, scale: Any, zero: Any
) -> Any:
    wide = tf.cast(matmul_integer(node, a, b, a_zero, b_zero), tf.float32)
    factor = tensor(a_scale) * tensor(b_scale) / tensor(scale)
    return requantized(wide * tf.cast(factor, tf.float32), zero)


def requantized(wide: Any, zero: Any) -> Any:
    """Return floats as small integers: rounded to even, moved by the zero point, cut to what the type holds."""
    zero = tensor(zero)
    moved = tf.round(wide) + tf.cast(zero, wide.dtype)
    return tf.cast(tf.clip_by_value(moved, zero.dtype.min, zero.dtype.max), zero.dtype)


@op("LpNormalization")
def lp_normalization(node: Node, x: Any) -> Any:
    x = tensor(x)
    axis = axis_of(node, x, node.get("axis", -1))
    first = node.get("p", 2) == 1
    norm = (
        tf.reduce_sum(tf.abs(x), axis, keepdims=True) if first else tf.sqrt(tf.reduce_sum(x * x, axis, keepdims=True))
    )
    return tf.where(tf.equal(norm, tf.zeros([], x.dtype)), tf.zeros_like(x), x / norm)


@op("MeanVarianceNormalization")
def mean_variance_normalization(node: Node, x: Any) -> Any:
    x = tensor(x)
    axes = node.get("axes", [0, 2, 3])
    mean = tf.reduce_mean(x, axes, keepdims=True)
    spread = tf.sqrt(tf.reduce_mean(x * x, axes, keepdims=True) - mean * mean)
    return (x - mean) / (spread + tf.cast(1e-9, x.dtype))


@op("LayerNormalization")
def layer_normalization(node: Node, x: Any, scale: Any, bias: Any = None) -> Any:
    x, scale = tensor(x), tensor(scale)
    axes = list(range(axis_of(node, x, node.get("axis", -1)), rank(node, x)))
    wide = tf.cast(x, tf.float32) if x.dtype in {tf.float16, tf.bfloat16} else x
    mean = tf.reduce_mean(wide, axes, keepdims=True)
    centred = wide - mean
    inverse = tf.ones([], wide.dtype) / tf.sqrt(
        tf.reduce_mean(centred * centred, axes, keepdims=True) + tf.cast(node.get("epsilon", 1e-5), wide.dtype)
    )
    found = tf.cast(centred * inverse, x.dtype) * scale
    return (found if bias is None else found + tensor(bias)), mean, inverse


@op("BatchNormalization")
def batch_normalization(node: Node, x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    if node.get("training_mode", 0):
        refuse(node, "in training mode")
    x = tensor(x)
    along = [-1 if axis == 1 else 1 for axis in range(rank(node, x))]
    scale, bias, mean, variance = (
        tf.cast(tf.reshape(tensor(value), along), x.dtype) for value in (scale, bias, mean, variance)
    )
    factor = scale / tf.sqrt(variance + tf.cast(node.get("epsilon", 1e-5), x.dtype))
    return x * factor + (bias - mean * factor)


@op("InstanceNormalization")
def instance_normalization(node: Node, x: Any, scale: Any, bias: Any) -> Any:
    x = tensor(x)
    return _normalised(node, x, list(range(2, rank(node, x)))) * _channels(node, x, scale) + _channels(node, x, bias)


@op("GroupNormalization")
def group_normalization(node: Node, x: Any, scale: Any, bias: Any) -> Any:
    x = tensor(x)
    own = tf.shape(x)
    grouped = tf.reshape(x, tf.concat([own[:1], [node.attributes["num_groups"], -1]], 0))
    flat = tf.reshape(_normalised(node, grouped, [2]), own)
    flat = tf.ensure_shape(flat, x.shape)
    return flat * _channels(node, x, scale) + _channels(node, x, bias)


def _normalised(node: Node, x: Any, axes: list[int]) -> Any:
    mean = tf.reduce_mean(x, axes, keepdims=True)
    centred = x - mean
    variance = tf.reduce_mean(centred * centred, axes, keepdims=True)
    return centred / tf.sqrt(variance + tf.cast(node.get("epsilon", 1e-5), x.dtype))


def _channels(node: Node, x: Any, value: Any) -> Any:
    return tf.reshape(tensor(value), [-1 if axis == 1 else 1 for axis in range(rank(node, x))])


@op("LRN")
def local_response(node: Node, x: Any) -> Any:
    x = tensor(x)
    width = node.attributes["size"]
    front, back = (width - 1) // 2, width - 1 - (width - 1) // 2
    around = tf.pad(x * x, [[0, 0], [front, back], *([[0, 0]] * (rank(node, x) - 2))])
    total = tf.add_n([around[:, shift : shift + x.shape[1]] for shift in range(width)])
    alpha, beta, bias = (
        tf.cast(node.get(name, value), x.dtype) for name, value in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    return x / tf.pow(bias + alpha / tf.cast(width, x.dtype) * total, beta)
