"""Element by element, on TensorFlow.

NaN, overflow and rounding are ONNX Runtime's: Max and Min give NaN where either side is one, Clip lets it pass,
Round goes to the even number, Cast of a float to an integer cuts.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.formats._tensorflow.loaded import tf
from vitrify.transforms.replay._tensorflow_base import (
    COMPUTED,
    axis_of,
    element_type,
    floating,
    is_nan,
    known,
    op,
    rank,
    refuse,
    tensor,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.transforms.replay.walk import Node

_UNARY: dict[str, Callable[[Any], Any]] = {
    "Abs": tf.abs,
    "Acos": tf.acos,
    "Acosh": tf.acosh,
    "Asin": tf.asin,
    "Asinh": tf.asinh,
    "Atan": tf.atan,
    "Atanh": tf.atanh,
    "Ceil": tf.math.ceil,
    "Cos": tf.cos,
    "Cosh": tf.cosh,
    "Erf": tf.math.erf,
    "Exp": tf.exp,
    "Floor": tf.floor,
    "Identity": tf.identity,
    "Log": tf.math.log,
    "Neg": tf.negative,
    "Not": tf.logical_not,
    "BitwiseNot": tf.bitwise.invert,
    "Round": tf.round,
    "Sigmoid": tf.sigmoid,
    "Sign": tf.sign,
    "Sin": tf.sin,
    "Sinh": tf.sinh,
    "Softsign": tf.nn.softsign,
    "Sqrt": tf.sqrt,
    "Tan": tf.tan,
    "Tanh": tf.tanh,
}

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": tf.add,
    "Sub": tf.subtract,
    "Mul": tf.multiply,
    "And": tf.logical_and,
    "Or": tf.logical_or,
    "Xor": tf.math.logical_xor,
    "Equal": tf.equal,
    "Greater": tf.greater,
    "GreaterOrEqual": tf.greater_equal,
    "Less": tf.less,
    "LessOrEqual": tf.less_equal,
    "BitwiseAnd": tf.bitwise.bitwise_and,
    "BitwiseOr": tf.bitwise.bitwise_or,
    "BitwiseXor": tf.bitwise.bitwise_xor,
}


@op(*_UNARY)
def unary(node: Node, x: Any) -> Any:
    x = tensor(x)
    if node.kind == "Neg" and x.dtype in {tf.int8, tf.int16}:
        return 0 - x
    if node.kind in {"Abs", "Sign"} and x.dtype.is_unsigned:
        return x if node.kind == "Abs" else tf.cast(x != 0, x.dtype)
    return _UNARY[node.kind](x)


@op(*_BINARY)
def binary(node: Node, left: Any, right: Any) -> Any:
    return _BINARY[node.kind](tensor(left), tensor(right))


@op("Div")
def div(_: Node, left: Any, right: Any) -> Any:
    left, right = tensor(left), tensor(right)
    return tf.divide(left, right) if floating(left) else tf.truncatediv(left, right)


@op("Mod")
def mod(node: Node, left: Any, right: Any) -> Any:
    left, right = tensor(left), tensor(right)
    wide = left.dtype if left.dtype in {tf.float32, tf.float64} else tf.float32 if floating(left) else tf.int64
    function = tf.truncatemod if node.get("fmod", 0) else tf.math.floormod
    return tf.cast(function(tf.cast(left, wide), tf.cast(right, wide)), left.dtype)


@op("Pow")
def power(_: Node, base: Any, exponent: Any) -> Any:
    constant = known(exponent)
    base = tensor(base)
    if constant is not None and constant.size == 1 and constant.ravel()[0] in {2, 3} and floating(base):
        # ONNX Runtime multiplies here.
        shaped = base + tf.zeros(constant.shape, base.dtype) if constant.ndim > (base.shape.rank or 0) else base
        return shaped * shaped if constant.ravel()[0] == 2 else shaped * shaped * shaped  # noqa: PLR2004 (squared)
    exponent = tensor(exponent)
    if floating(base) and exponent.dtype == base.dtype:
        return tf.pow(base, exponent)
    return tf.cast(tf.pow(tf.cast(base, tf.float64), tf.cast(exponent, tf.float64)), base.dtype)


@op("BitShift")
def bit_shift(node: Node, x: Any, by: Any) -> Any:
    x, by = tensor(x), tensor(by)
    left, bits = node.get("direction") == "LEFT", 8 * x.dtype.size
    beyond = by > tf.constant(bits - 1, by.dtype)
    if not by.dtype.is_unsigned:
        beyond = tf.logical_or(beyond, by < tf.zeros([], by.dtype))
    inside = tf.where(beyond, tf.constant(bits - 1, by.dtype), by)
    found = (tf.bitwise.left_shift if left else tf.bitwise.right_shift)(x, inside)
    return found if not left and not x.dtype.is_unsigned else tf.where(beyond, tf.zeros_like(found), found)


@op("Max", "Min")
def extreme(node: Node, *values: Any) -> Any:
    function = tf.maximum if node.kind == "Max" else tf.minimum

    def pair(left: Any, right: Any) -> Any:
        if left.dtype in {tf.uint16, tf.uint32, tf.uint64, tf.int8, tf.float16, tf.bfloat16}:
            return tf.where((left > right) if node.kind == "Max" else (left < right), left, right)
        found = function(left, right)
        if not floating(left):
            return found
        return tf.where(is_nan(left), left, tf.where(is_nan(right), right, found))

    return reduce(pair, [tensor(value) for value in values])


@op("Sum", "Mean")
def added(node: Node, *values: Any) -> Any:
    total = reduce(tf.add, [tensor(value) for value in values])
    return total / len(values) if node.kind == "Mean" else total


@op("Clip")
def clip(_: Node, x: Any, low: Any = None, high: Any = None) -> Any:
    x = tensor(x)
    if low is not None:
        low = tensor(low)
        x = tf.where(x < low, low, x)
    if high is not None:
        high = tensor(high)
        x = tf.where(x > high, high, x)
    return x


@op("Cast")
def cast(node: Node, x: Any, to: Any = None) -> Any:
    x = tensor(x)
    target = element_type(node, node.attributes["to"]) if to is None else to
    if strange := sorted({one.name for one in (x.dtype, target) if one not in COMPUTED}):
        refuse(node, f"element type {', '.join(strange)}, with which TensorFlow does not compute")
    if target == tf.string:
        return _as_text(node, x)
    if x.dtype == tf.string:
        wide = target if target in {tf.float32, tf.float64, tf.int32, tf.int64} else tf.float32
        return tf.cast(tf.strings.to_number(x, wide), target)
    if target == tf.bool:
        return x if x.dtype == tf.bool else tf.not_equal(x, tf.zeros([], x.dtype))
    return tf.cast(x, target)


def _as_text(_: Node, x: Any) -> Any:
    if x.dtype == tf.string:
        return x
    if not floating(x):
        return tf.strings.as_string(x) if x.dtype != tf.bool else tf.where(x, "1", "0")
    text = tf.strings.as_string(x, precision=17 if x.dtype == tf.float64 else 8, shortest=True)
    text = tf.where(is_nan(x), "NaN", text)
    infinite = tf.constant(np.inf, x.dtype)
    return tf.where(tf.equal(x, infinite), "INF", tf.where(tf.equal(x, -infinite), "-INF", text))


@op("CastLike")
def cast_like(node: Node, x: Any, like: Any) -> Any:
    return cast(node, x, tensor(like).dtype)


@op("Where")
def where(_: Node, condition: Any, yes: Any, no: Any) -> Any:
    return tf.where(tensor(condition), tensor(yes), tensor(no))


@op("IsNaN")
def not_a_number(_: Node, x: Any) -> Any:
    return is_nan(tensor(x))


@op("IsInf")
def infinite(node: Node, x: Any) -> Any:
    x = tensor(x)
    found = tf.zeros_like(x, tf.bool)
    for wanted, sign in (("detect_positive", 1), ("detect_negative", -1)):
        if node.get(wanted, 1):
            found = tf.logical_or(found, tf.equal(x, tf.constant(sign * np.inf, x.dtype)))
    return found


@op("Reciprocal")
def reciprocal(_: Node, x: Any) -> Any:
    x = tensor(x)
    return tf.ones([], x.dtype) / x


@op("Relu")
def relu(_: Node, x: Any) -> Any:
    return tf.nn.relu(tensor(x))


@op("LeakyRelu")
def leaky_relu(node: Node, x: Any) -> Any:
    x = tensor(x)
    return tf.where(x >= 0, x, x * tf.cast(node.get("alpha", 0.01), x.dtype))


@op("PRelu")
def parametric_relu(_: Node, x: Any, slope: Any) -> Any:
    x = tensor(x)
    return tf.where(x >= 0, x, x * tensor(slope))


@op("ThresholdedRelu")
def thresholded_relu(node: Node, x: Any) -> Any:
    x = tensor(x)
    return tf.where(x > tf.cast(node.get("alpha", 1.0), x.dtype), x, tf.zeros_like(x))


@op("Elu", "Celu", "Selu")
def exponential_relu(node: Node, x: Any) -> Any:
    x = tensor(x)
    alpha = tf.cast(node.get("alpha", 1.6732632 if node.kind == "Selu" else 1.0), x.dtype)
    inner = x / alpha if node.kind == "Celu" else x
    answer = tf.where(x >= 0, x, alpha * tf.math.expm1(inner))
    return answer * tf.cast(node.get("gamma", 1.0507010), x.dtype) if node.kind == "Selu" else answer


@op("HardSigmoid", "HardSwish")
def hard_sigmoid(node: Node, x: Any) -> Any:
    x = tensor(x)
    default = (1 / 6, 0.5) if node.kind == "HardSwish" else (0.2, 0.5)
    alpha, beta = (
        tf.cast(node.get(name, value), x.dtype) for name, value in zip(("alpha", "beta"), default, strict=True)
    )
    inner = alpha * x + beta
    answer = tf.where(inner < 0, tf.zeros_like(x), tf.where(inner > 1, tf.ones_like(x), inner))
    return x * answer if node.kind == "HardSwish" else answer


@op("Gelu")
def gelu(node: Node, x: Any) -> Any:
    x = tensor(x)
    half, one = tf.cast(0.5, x.dtype), tf.cast(1, x.dtype)
    if node.get("approximate", "none") == "tanh":
        inner = tf.cast(np.sqrt(2 / np.pi), x.dtype) * (x + tf.cast(0.044715, x.dtype) * x * x * x)
        return half * x * (one + tf.tanh(inner))
    return half * x * (one + tf.math.erf(x / tf.cast(np.sqrt(2), x.dtype)))


@op("Softplus")
def softplus(_: Node, x: Any) -> Any:
    x = tensor(x)
    return tf.where(x > 0, x, tf.zeros_like(x)) + tf.math.log1p(tf.exp(-tf.abs(x)))


@op("Mish")
def mish(node: Node, x: Any) -> Any:
    return tensor(x) * tf.tanh(softplus(node, x))


@op("Shrink")
def shrink(node: Node, x: Any) -> Any:
    x = tensor(x)
    bound, bias = node.get("lambd", 0.5), tf.cast(node.get("bias", 0.0), x.dtype)
    wide = x if x.dtype.is_floating else tf.cast(x, tf.float32)
    zero = tf.zeros_like(x)
    return tf.where(wide < -bound, x + bias, tf.where(wide > bound, x - bias, zero))


@op("Softmax", "LogSoftmax", "Hardmax")
def softmax(node: Node, x: Any) -> Any:
    x = tensor(x)
    axis = axis_of(node, x, node.get("axis", -1))
    if node.kind == "Hardmax":
        return tf.one_hot(tf.argmax(x, axis), x.shape[axis] or tf.shape(x)[axis], axis=axis, dtype=x.dtype)
    # TensorFlow's own has no kernel for every axis and type; this one is also exact at infinities.
    shifted = x - tf.reduce_max(x, axis, keepdims=True)
    if node.kind == "LogSoftmax":
        return shifted - tf.math.log(tf.reduce_sum(tf.exp(shifted), axis, keepdims=True))
    powers = tf.exp(shifted)
    return powers / tf.reduce_sum(powers, axis, keepdims=True)


@op("Dropout")
def dropout(node: Node, x: Any, ratio: Any = None, training: Any = None) -> Any:
    decided = known(training)
    share = 0.5 if ratio is None else float(np.asarray(known(ratio)).ravel()[0])
    if training is not None and (decided is None or (bool(decided) and share > 0)):
        refuse(node, "in training it drops at random")
    x = tensor(x)
    return x, tf.ones_like(x, tf.bool)


@op("QuantizeLinear")
def quantize(node: Node, x: Any, scale: Any, zero: Any = None) -> Any:
    x, scale = tensor(x), tensor(scale)
    target = tensor(zero).dtype if zero is not None else element_type(node, node.get("output_dtype") or 2)
    if target not in {tf.uint8, tf.int8, tf.uint16, tf.int16}:
        refuse(node, f"to {target.name}")
    wide = tf.round(tf.cast(x, scale.dtype) / _along(node, x, scale))
    if zero is not None:
        wide = wide + tf.cast(_along(node, x, tensor(zero)), wide.dtype)
    return tf.cast(
        clip(
            node,
            wide,
            np.asarray(target.min, wide.dtype.as_numpy_dtype),
            np.asarray(target.max, wide.dtype.as_numpy_dtype),
        ),
        target,
    )


@op("DequantizeLinear")
def dequantize(node: Node, x: Any, scale: Any, zero: Any = None) -> Any:
    x, scale = tensor(x), tensor(scale)
    wide = tf.cast(x, tf.int32)
    if zero is not None:
        wide = wide - tf.cast(_along(node, x, tensor(zero)), tf.int32)
    return tf.cast(wide, scale.dtype) * _along(node, x, scale)


def _along(node: Node, x: Any, value: Any) -> Any:
    """Bring a scale or a zero point to where it is broadcast: one for all, one an index of the axis, one a block."""
    count, block = rank(node, value), node.get("block_size", 0)
    axis = axis_of(node, x, node.get("axis", 1)) if rank(node, x) else 0
    if count == 0 or (count == 1 and value.shape[0] == 1):
        return tf.reshape(value, [])
    if count == 1:
        return tf.reshape(value, [-1 if position == axis else 1 for position in range(rank(node, x))])
    if not block:
        refuse(node, "scales of several dimensions without blocks")
    spread = tf.repeat(value, block, axis=axis)
    return spread[tuple([slice(None)] * axis + [slice(0, tf.shape(x)[axis])])]


@op("DynamicQuantizeLinear")
def dynamic_quantize(_: Node, x: Any) -> Any:
    x = tensor(x)
    zero = tf.zeros([], x.dtype)
    low, high = tf.minimum(tf.reduce_min(x), zero), tf.maximum(tf.reduce_max(x), zero)
    scale = (high - low) / 255
    scale = tf.where(tf.equal(scale, zero), tf.ones_like(scale), scale)
    point = tf.cast(tf.round(tf.clip_by_value(zero - low / scale, 0, 255)), tf.uint8)
    wide = tf.round(x / scale) + tf.cast(point, x.dtype)
    return tf.cast(tf.clip_by_value(wide, 0, 255), tf.uint8), scale, point
