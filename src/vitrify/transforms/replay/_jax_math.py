"""Operators that compute each element on its own, and those that reduce, with ONNX Runtime's answers for NaN.

Source: https://onnx.ai/onnx/operators/
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from onnx import helper

from vitrify.transforms.replay._jax_values import Tensor, dtype_of, ints, op, raw, tensor
from vitrify.transforms.replay._sizes import Sizes, axis_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.transforms.replay.walk import Node

_SELU = (1.67326319217681884765625, 1.05070102214813232421875)
_KEEP = 1

for _kind, _function in {
    "Acos": jnp.arccos,
    "Acosh": jnp.arccosh,
    "Asin": jnp.arcsin,
    "Asinh": jnp.arcsinh,
    "Atan": jnp.arctan,
    "Atanh": jnp.arctanh,
    "Cos": jnp.cos,
    "Cosh": jnp.cosh,
    "Sin": jnp.sin,
    "Sinh": jnp.sinh,
    "Tan": jnp.tan,
    "Abs": jnp.abs,
    "Neg": jnp.negative,
    "Exp": jnp.exp,
    "Log": jnp.log,
    "Sqrt": jnp.sqrt,
    "Tanh": jnp.tanh,
    "Ceil": jnp.ceil,
    "Floor": jnp.floor,
    "Round": jnp.round,
    "Not": jnp.logical_not,
    "IsNaN": jnp.isnan,
    "Erf": jax.scipy.special.erf,
    "Softsign": jax.nn.soft_sign,
    "BitwiseNot": jnp.invert,
    "Identity": lambda x: x,
    "Reciprocal": lambda x: 1 / x,
    "Sigmoid": jax.nn.sigmoid,
    "Relu": lambda x: jnp.maximum(x, jnp.zeros((), x.dtype)),
    "Softplus": jax.nn.softplus,
    "HardSwish": lambda x: x * jnp.clip(x / 6 + 0.5, 0, 1),
    "Mish": lambda x: x * jnp.tanh(jax.nn.softplus(x)),
}.items():
    op(_kind)(lambda _, x, function=_function: function(x))

for _kind, _binary in {
    "Add": jnp.add,
    "Sub": jnp.subtract,
    "Mul": jnp.multiply,
    "And": jnp.logical_and,
    "Or": jnp.logical_or,
    "Xor": jnp.logical_xor,
    "BitwiseAnd": jnp.bitwise_and,
    "BitwiseOr": jnp.bitwise_or,
    "BitwiseXor": jnp.bitwise_xor,
    "Equal": jnp.equal,
    "Less": jnp.less,
    "LessOrEqual": jnp.less_equal,
    "Greater": jnp.greater,
    "GreaterOrEqual": jnp.greater_equal,
}.items():
    op(_kind)(lambda _, x, y, function=_binary: function(x, y))


@op("Sign")
def _sign(_: Node, x: Tensor) -> Tensor:
    return jnp.sign(x)


@op("Div")
def _div(_: Node, x: Tensor, y: Tensor) -> Tensor:
    return jax.lax.div(*jnp.broadcast_arrays(x, y)) if x.dtype.kind in "iu" else x / y


@op("Mod")
def _mod(node: Node, x: Tensor, y: Tensor) -> Tensor:
    if node.get("fmod", 0):
        return jax.lax.rem(*jnp.broadcast_arrays(x, y))
    return jnp.mod(x, y)


@op("Pow")
def _pow(_: Node, x: Tensor, y: Tensor) -> Tensor:
    if x.dtype.kind in "iu" and y.dtype.kind in "iu":
        return _whole_power(x, y)
    wide = jnp.promote_types(x.dtype, y.dtype) if x.dtype.kind != "f" else x.dtype
    return jnp.power(x.astype(wide), y.astype(wide)).astype(x.dtype)


def _whole_power(x: Tensor, y: Tensor) -> Tensor:
    """Return a power of whole numbers as C's ``pow`` has it: of negative exponents, what is left of the fraction."""
    return jnp.power(x.astype(jnp.float64), y.astype(jnp.float64)).astype(x.dtype)


@op("BitShift")
def _bit_shift(node: Node, x: Tensor, y: Tensor) -> Tensor:
    return jnp.left_shift(x, y) if node.get("direction") == "LEFT" else jnp.right_shift(x, y)


@op("IsInf")
def _is_inf(node: Node, x: Tensor) -> Tensor:
    above = jnp.isposinf(x) if node.get("detect_positive", 1) else jnp.zeros(x.shape, bool)
    return above | jnp.isneginf(x) if node.get("detect_negative", 1) else above


@op("Cast")
def _cast(node: Node, x: Tensor) -> Tensor:
    return cast(x, dtype_of(node.get("to")))


def cast(x: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Return another element type; what an integer does not hold is what the processor makes of it."""
    if dtype == np.bool_:
        return x != 0
    if x.dtype.kind == "f" and dtype.kind in "iu" and dtype.itemsize < 8:  # noqa: PLR2004 (bytes)
        # As C++ on x86: through 32 or 64 bits, of which the lowest stay; beyond those, the least number.
        wide = np.dtype(np.int64 if dtype.itemsize == 4 and dtype.kind == "u" else np.int32)  # noqa: PLR2004 (bytes)
        return _indefinite(x, wide).astype(dtype)
    if x.dtype.kind == "f" and dtype == np.int64:
        return _indefinite(x, dtype)
    return x.astype(dtype)


def _indefinite(x: Tensor, dtype: np.dtype[Any]) -> Tensor:
    bounds = np.iinfo(dtype)
    inside = (x < float(bounds.max) + 1) & (x > float(bounds.min) - (1 if x.dtype == jnp.float64 else 0))
    return jnp.where(inside, x, jnp.asarray(float(bounds.min), x.dtype)).astype(dtype)


@op("CastLike")
def _cast_like(_: Node, x: Tensor, like: Tensor) -> Tensor:
    return cast(x, dtype_of(helper.np_dtype_to_tensor_dtype(np.dtype(like.dtype))))


@op("Where")
def _where(_: Node, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return jnp.where(condition, x, y)


@op("Clip")
def _clip(_: Node, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    x = x if low is None else jnp.maximum(x, low)
    return x if high is None else jnp.minimum(x, high)


@op("Max")
def _max(_: Node, *values: Tensor) -> Tensor:
    return reduce(jnp.maximum, values)


@op("Min")
def _min(_: Node, *values: Tensor) -> Tensor:
    return reduce(jnp.minimum, values)


@op("Sum")
def _sum(_: Node, *values: Tensor) -> Tensor:
    return reduce(jnp.add, values)


@op("Mean")
def _mean(_: Node, *values: Tensor) -> Tensor:
    return reduce(jnp.add, values) / len(values)


@op("LeakyRelu")
def _leaky(node: Node, x: Tensor) -> Tensor:
    return jnp.where(x < 0, x * node.get("alpha", 0.01), x)


@op("PRelu")
def _prelu(_: Node, x: Tensor, slope: Tensor) -> Tensor:
    return jnp.where(x < 0, x * slope, x)


@op("Elu")
def _elu(node: Node, x: Tensor) -> Tensor:
    return jnp.where(x < 0, node.get("alpha", 1.0) * jnp.expm1(x), x)


@op("Celu")
def _celu(node: Node, x: Tensor) -> Tensor:
    alpha = node.get("alpha", 1.0)
    return jnp.maximum(x, 0) + jnp.minimum(alpha * jnp.expm1(x / alpha), 0)


@op("Selu")
def _selu(node: Node, x: Tensor) -> Tensor:
    alpha, gamma = node.get("alpha", _SELU[0]), node.get("gamma", _SELU[1])
    return gamma * jnp.where(x > 0, x, alpha * jnp.expm1(x))


@op("ThresholdedRelu")
def _thresholded(node: Node, x: Tensor) -> Tensor:
    return jnp.where(x > node.get("alpha", 1.0), x, jnp.zeros((), x.dtype))


@op("HardSigmoid")
def _hard_sigmoid(node: Node, x: Tensor) -> Tensor:
    return jnp.clip(node.get("alpha", 0.2) * x + node.get("beta", 0.5), 0, 1).astype(x.dtype)


@op("Shrink")
def _shrink(node: Node, x: Tensor) -> Tensor:
    bias, bound = node.get("bias", 0.0), node.get("lambd", 0.5)
    return jnp.where(x < -bound, x + bias, jnp.where(x > bound, x - bias, 0)).astype(x.dtype)


@op("Gelu")
def _gelu(node: Node, x: Tensor) -> Tensor:
    return jax.nn.gelu(x, approximate=node.get("approximate", "none") == "tanh")


@op("Softmax")
def _softmax(node: Node, x: Tensor) -> Tensor:
    axis = node.get("axis", -1)
    powers = jnp.exp(x - jnp.max(x, axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


@op("LogSoftmax")
def _log_softmax(node: Node, x: Tensor) -> Tensor:
    return jax.nn.log_softmax(x, axis=node.get("axis", -1))


@op("Hardmax")
def _hardmax(node: Node, x: Tensor) -> Tensor:
    axis = axis_of(node.get("axis", -1), x.ndim)
    return jax.nn.one_hot(jnp.argmax(x, axis), x.shape[axis], dtype=x.dtype, axis=axis)


@raw("CumSum")
def _cumsum(node: Node, x: Any, place: Any) -> Tensor:
    x = tensor(x)
    axis = axis_of(ints(place)[0], x.ndim)
    x = jnp.flip(x, axis) if node.get("reverse", 0) else x
    total = jnp.cumsum(x, axis, dtype=x.dtype)
    if node.get("exclusive", 0):
        total = total - x if x.dtype.kind in "iu" else _shifted(total, axis)
    return jnp.flip(total, axis) if node.get("reverse", 0) else total


def _shifted(x: Tensor, axis: int) -> Tensor:
    zero = jnp.zeros_like(jax.lax.slice_in_dim(x, 0, 1, axis=axis))
    return jnp.concatenate([zero, jax.lax.slice_in_dim(x, 0, x.shape[axis] - 1, axis=axis)], axis)


def _extreme(function: Callable[..., Tensor], least: float) -> Callable[..., Tensor]:
    """Reduce to the largest or smallest; NaN counts only where it comes first, as it does in a loop of comparisons."""

    def run(x: Tensor, axis: tuple[int, ...], keepdims: bool) -> Tensor:  # noqa: FBT001 (jax's own order)
        if x.dtype.kind == "b":
            return function(x.astype(jnp.int32), axis=axis, keepdims=keepdims).astype(bool)
        if x.dtype.kind != "f":
            return function(x, axis=axis, keepdims=keepdims)
        known = jnp.where(jnp.isnan(x), jnp.asarray(least, x.dtype), x)
        none = jnp.isnan(x).all(axis=axis, keepdims=keepdims)
        return jnp.where(none, jnp.asarray(np.nan, x.dtype), function(known, axis=axis, keepdims=keepdims))

    return run


_REDUCED: dict[str, Callable[..., Tensor]] = {
    "ReduceSum": lambda x, axis, keepdims: jnp.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype),
    "ReduceProd": lambda x, axis, keepdims: jnp.prod(x, axis=axis, keepdims=keepdims, dtype=x.dtype),
    "ReduceMean": lambda x, axis, keepdims: jnp.mean(x, axis=axis, keepdims=keepdims).astype(x.dtype),
    "ReduceMax": _extreme(jnp.max, -np.inf),
    "ReduceMin": _extreme(jnp.min, np.inf),
    "ReduceL1": lambda x, axis, keepdims: jnp.sum(jnp.abs(x), axis=axis, keepdims=keepdims, dtype=x.dtype),
    "ReduceL2": lambda x, axis, keepdims: jnp.sqrt(jnp.sum(x * x, axis=axis, keepdims=keepdims)).astype(x.dtype),
    "ReduceSumSquare": lambda x, axis, keepdims: jnp.sum(x * x, axis=axis, keepdims=keepdims, dtype=x.dtype),
    "ReduceLogSum": lambda x, axis, keepdims: jnp.log(jnp.sum(x, axis=axis, keepdims=keepdims)),
    "ReduceLogSumExp": lambda x, axis, keepdims: jax.nn.logsumexp(x, axis=axis, keepdims=keepdims),
}


@raw(*_REDUCED)
def _reduce(node: Node, x: Any, axes: Any = None) -> Tensor:
    if isinstance(x, Sizes) and node.kind == "ReduceProd" and axes is None:
        total = reduce(lambda a, b: a * b, x.values.flat, 1)
        return x.like([total] if node.get("keepdims", 1) else total)
    x = tensor(x)
    places = ints(axes) if axes is not None else list(node.get("axes") or ())
    if not places and node.get("noop_with_empty_axes", 0):
        return x
    chosen = tuple(axis_of(int(axis), x.ndim) for axis in places) or tuple(range(x.ndim))
    if 0 in [size for axis in chosen if isinstance(size := x.shape[axis], int)] and node.kind in {
        "ReduceMax",
        "ReduceMin",
    }:
        kind = np.iinfo(x.dtype) if x.dtype.kind in "iu" else None
        least = (kind.min if kind else -np.inf) if node.kind == "ReduceMax" else (kind.max if kind else np.inf)
        if x.dtype.kind == "b":
            least = node.kind == "ReduceMin"
        return jnp.full(_kept(x, chosen, node), least, x.dtype)
    return _REDUCED[node.kind](x, chosen, bool(node.get("keepdims", _KEEP)))


def _kept(x: Tensor, axes: tuple[int, ...], node: Node) -> list[Any]:
    sizes = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    return sizes if node.get("keepdims", _KEEP) else [size for axis, size in enumerate(x.shape) if axis not in axes]


@op("ArgMax", "ArgMin")
def _arg(node: Node, x: Tensor) -> Tensor:
    axis, most = axis_of(node.get("axis", 0), x.ndim), node.kind == "ArgMax"
    function = jnp.argmax if most else jnp.argmin
    missing = jnp.isnan(x) if x.dtype.kind == "f" else None
    if missing is not None:
        x = jnp.where(missing, jnp.asarray(-np.inf if most else np.inf, x.dtype), x)
    if node.get("select_last_index", 0):
        place = x.shape[axis] - 1 - function(jnp.flip(x, axis), axis=axis, keepdims=True)
    else:
        place = function(x, axis=axis, keepdims=True)
        if missing is not None:
            place = jnp.where(jax.lax.slice_in_dim(missing, 0, 1, axis=axis), 0, place)
    place = place.astype(jnp.int64)
    return place if node.get("keepdims", _KEEP) else jnp.squeeze(place, axis)


@raw("TopK")
def _top_k(node: Node, x: Any, count: Any) -> tuple[Tensor, Tensor]:
    """By a stable sort: of equal values the one with the lower place comes first."""
    x = tensor(x)
    axis, number = axis_of(node.get("axis", -1), x.ndim), ints(count)[0]
    order = jnp.argsort(x, axis=axis, stable=True, descending=bool(node.get("largest", 1)))
    places = jax.lax.slice_in_dim(order, 0, number, axis=axis)
    return jnp.take_along_axis(x, places, axis=axis), places.astype(jnp.int64)


@op("MatMul")
def _matmul(_: Node, x: Tensor, y: Tensor) -> Tensor:
    return jnp.matmul(x, y, precision="highest")


@op("MatMulInteger")
def _matmul_integer(
    _: Node, x: Tensor, y: Tensor, x_zero: Tensor | None = None, y_zero: Tensor | None = None
) -> Tensor:
    left = x.astype(jnp.int32) - _zero(x_zero, -1, x.ndim)
    right = y.astype(jnp.int32) - _zero(y_zero, -2, y.ndim)
    return jnp.matmul(left, right)


def _zero(zero: Tensor | None, axis: int, rank: int) -> Tensor:
    if zero is None:
        return jnp.zeros((), jnp.int32)
    wide = zero.astype(jnp.int32)
    return jnp.expand_dims(wide, axis) if wide.ndim == 1 and rank > 1 and wide.shape[0] > 1 else wide


@op("Gemm")
def _gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    a, b = (a.T if node.get("transA", 0) else a), (b.T if node.get("transB", 0) else b)
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    product = jnp.matmul(a, b, precision="highest")
    product = product if alpha == 1 else (alpha * product).astype(a.dtype)
    return product if c is None else product + (c if beta == 1 else (beta * c).astype(a.dtype))


@op("Einsum")
def _einsum(node: Node, *values: Tensor) -> Tensor:
    return jnp.einsum(node.get("equation"), *values, precision="highest")


@op("Det")
def _det(_: Node, x: Tensor) -> Tensor:
    return jnp.linalg.det(x)
