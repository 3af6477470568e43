"""Operators that compute each element on its own, with ONNX Runtime's answers for NaN and the ends of a type."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from vitrify.transforms.replay._torch_register import op
from vitrify.transforms.replay._torch_values import FEW_KERNELS, dtype_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from vitrify.transforms.replay.walk import Node


_SIGN_BIT = -(1 << 63)
_SELU = (1.67326319217681884765625, 1.05070102214813232421875)


def _unary(kind: str, function: Callable[[Tensor], Tensor]) -> None:
    op(kind)(lambda _, x: function(x))


for _kind, _function in {
    "Acos": torch.acos,
    "Acosh": torch.acosh,
    "Asin": torch.asin,
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Atanh": torch.atanh,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Floor": torch.floor,
    "Identity": lambda x: x,
    "IsNaN": torch.isnan,
    "Log": torch.log,
    "Not": torch.logical_not,
    "Reciprocal": torch.reciprocal,
    "Relu": torch.relu,
    "Round": torch.round,
    "Sigmoid": torch.sigmoid,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
    "Softsign": functional.softsign,
    "Sqrt": torch.sqrt,
    "Tan": torch.tan,
    "Tanh": torch.tanh,
    "Mish": functional.mish,
    "HardSwish": functional.hardswish,
}.items():
    _unary(_kind, _function)


def widened(*values: Tensor) -> tuple[Tensor, ...]:
    """Return values in a type that PyTorch computes with: its unsigned ones have few kernels."""
    return tuple(value.to(torch.int64) if value.dtype in FEW_KERNELS else value for value in values)


def _ordered(value: Tensor) -> Tensor:
    """Return whole numbers of 64 bits without a sign as signed ones of the same order."""
    return value.view(torch.int64) ^ _SIGN_BIT if value.dtype == torch.uint64 else widened(value)[0]


@op("Abs")
def _abs(_: Node, x: Tensor) -> Tensor:
    return x if not x.dtype.is_signed else torch.abs(x)


@op("Neg")
def _neg(_: Node, x: Tensor) -> Tensor:
    return torch.neg(x)


@op("Sign")
def _sign(_: Node, x: Tensor) -> Tensor:
    if x.is_floating_point():
        return torch.where(torch.isnan(x), x, torch.sign(x))
    return torch.sign(widened(x)[0]).to(x.dtype)


def _binary(kind: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    @op(kind)
    def compute(_: Node, left: Tensor, right: Tensor) -> Tensor:
        return function(*widened(left, right)).to(left.dtype)


_binary("Add", torch.add)
_binary("Sub", torch.sub)
_binary("Mul", torch.mul)


@op("Div")
def _div(_: Node, left: Tensor, right: Tensor) -> Tensor:
    if left.is_floating_point():
        return torch.div(left, right)
    if left.dtype == torch.uint64:
        low = torch.div(left.view(torch.int64), right.view(torch.int64), rounding_mode="trunc")
        return low.view(torch.uint64)
    return torch.div(*widened(left, right), rounding_mode="trunc").to(left.dtype)


@op("Mod")
def _mod(node: Node, left: Tensor, right: Tensor) -> Tensor:
    function = torch.fmod if node.get("fmod", 0) else torch.remainder
    return function(*widened(left, right)).to(left.dtype)


@op("Pow")
def _pow(_: Node, base: Tensor, exponent: Tensor) -> Tensor:
    if base.is_floating_point():
        return torch.pow(base, exponent.to(base.dtype) if not exponent.is_floating_point() else exponent).to(base.dtype)
    return torch.pow(base.double(), exponent.double()).to(base.dtype)


def _many(kind: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    @op(kind)
    def compute(_: Node, *values: Tensor) -> Tensor:
        if values[0].dtype in FEW_KERNELS:
            ordered = reduce(function, (_ordered(value) for value in values))
            back = ordered ^ _SIGN_BIT if values[0].dtype == torch.uint64 else ordered
            return back.view(torch.uint64) if values[0].dtype == torch.uint64 else back.to(values[0].dtype)
        return reduce(function, values)


_many("Max", torch.maximum)
_many("Min", torch.minimum)


@op("Sum")
def _sum(_: Node, *values: Tensor) -> Tensor:
    return reduce(torch.add, values)


@op("Mean")
def _mean(_: Node, *values: Tensor) -> Tensor:
    return reduce(torch.add, values) / len(values)


def _compare(kind: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    @op(kind)
    def compute(_: Node, left: Tensor, right: Tensor) -> Tensor:
        return function(_ordered(left), _ordered(right))


_compare("Equal", torch.eq)
_compare("Greater", torch.gt)
_compare("GreaterOrEqual", torch.ge)
_compare("Less", torch.lt)
_compare("LessOrEqual", torch.le)


def _logical(kind: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    op(kind)(lambda _, left, right: function(left, right))


_logical("And", torch.logical_and)
_logical("Or", torch.logical_or)
_logical("Xor", torch.logical_xor)


def _bitwise(kind: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    op(kind)(lambda _, left, right: function(*widened(left, right)).to(left.dtype))


_bitwise("BitwiseAnd", torch.bitwise_and)
_bitwise("BitwiseOr", torch.bitwise_or)
_bitwise("BitwiseXor", torch.bitwise_xor)


@op("BitwiseNot")
def _bitwise_not(_: Node, x: Tensor) -> Tensor:
    return torch.bitwise_not(widened(x)[0]).to(x.dtype)


@op("IsInf")
def _is_inf(node: Node, x: Tensor) -> Tensor:
    positive = torch.isposinf(x) if node.get("detect_positive", 1) else torch.zeros_like(x, dtype=torch.bool)
    negative = torch.isneginf(x) if node.get("detect_negative", 1) else torch.zeros_like(x, dtype=torch.bool)
    return positive | negative


@op("Where")
def _where(_: Node, condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    return torch.where(condition, yes, no)


@op("Clip")
def _clip(_: Node, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    if x.dtype in FEW_KERNELS:
        return _clip(_, *(None if v is None else widened(v)[0] for v in (x, low, high))).to(x.dtype)
    if low is not None:
        x = torch.maximum(x, low)
    return x if high is None else torch.minimum(x, high)


@op("Cast")
def _cast(node: Node, x: Tensor) -> Tensor:
    return cast(x, dtype_of(node.get("to")))


@op("CastLike")
def _cast_like(_: Node, x: Tensor, like: Tensor) -> Tensor:
    return cast(x, like.dtype)


def cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Cast as C does: floats are cut, and what does not fit into a narrow integer keeps its low bits."""
    if x.is_floating_point() and dtype in {torch.int8, torch.uint8, torch.int16, torch.uint16}:
        return x.to(torch.int32).to(dtype)
    return x.to(dtype)


@op("BitCast")
def _bit_cast(node: Node, x: Tensor) -> Tensor:
    return x.view(dtype_of(node.get("to")))


@op("PRelu")
def _prelu(_: Node, x: Tensor, slope: Tensor) -> Tensor:
    return torch.where(x < 0, x * slope, x)


@op("LeakyRelu")
def _leaky_relu(node: Node, x: Tensor) -> Tensor:
    return functional.leaky_relu(x, node.get("alpha", 0.01))


@op("ThresholdedRelu")
def _thresholded_relu(node: Node, x: Tensor) -> Tensor:
    return torch.where(x > node.get("alpha", 1.0), x, torch.zeros_like(x))


@op("Elu")
def _elu(node: Node, x: Tensor) -> Tensor:
    return functional.elu(x, node.get("alpha", 1.0))


@op("Celu")
def _celu(node: Node, x: Tensor) -> Tensor:
    return functional.celu(x, node.get("alpha", 1.0))


@op("Selu")
def _selu(node: Node, x: Tensor) -> Tensor:
    alpha, gamma = node.get("alpha", _SELU[0]), node.get("gamma", _SELU[1])
    return torch.where(x > 0, gamma * x, gamma * (alpha * torch.exp(x) - alpha))


@op("HardSigmoid")
def _hard_sigmoid(node: Node, x: Tensor) -> Tensor:
    return torch.clamp(x * node.get("alpha", 0.2) + node.get("beta", 0.5), 0, 1)


@op("Softplus")
def _softplus(_: Node, x: Tensor) -> Tensor:
    return torch.logaddexp(x, torch.zeros_like(x))


@op("Gelu")
def _gelu(node: Node, x: Tensor) -> Tensor:
    return functional.gelu(x, approximate=node.get("approximate", "none"))


@op("Shrink")
def _shrink(node: Node, x: Tensor) -> Tensor:
    bias, limit = node.get("bias", 0.0), node.get("lambd", 0.5)
    small = torch.where(x < -limit, x + bias, torch.zeros_like(x))
    return torch.where(x > limit, x - bias, small).to(x.dtype)
