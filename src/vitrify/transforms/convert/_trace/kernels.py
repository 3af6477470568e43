"""The functions of numbers that take more than one ONNX operator, in the order of NumPy's own C.

All operands are of one working type; see :mod:`._trace.ufuncs`. Integers never meet an operator that stops the
process: division by zero is guarded, and so is the one quotient that does not fit (the lowest number by -1).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vitrify.transforms.convert._building.graph import BOOL, Graph, Tensor
from vitrify.transforms.convert._numerics.elementary import arctan, expm1, log1p
from vitrify.transforms.convert._numerics.elementary import trunc as _trunc

if TYPE_CHECKING:
    from collections.abc import Callable


def _zero(x: Tensor) -> np.ndarray:
    return np.zeros((), x.dtype)


def _not(graph: Graph, x: Tensor) -> Tensor:
    return graph.op("Not", x, dtype=BOOL)


def _and(graph: Graph, left: Tensor, right: Tensor) -> Tensor:
    return graph.op("And", left, right, dtype=BOOL)


def _or(graph: Graph, left: Tensor, right: Tensor) -> Tensor:
    return graph.op("Or", left, right, dtype=BOOL)


def isnan(graph: Graph, x: Tensor) -> Tensor:
    """Return where a float is NaN."""
    return graph.op("IsNaN", x, dtype=BOOL)


def isfinite(graph: Graph, x: Tensor) -> Tensor:
    """Return where a number is neither NaN nor infinite."""
    if x.dtype.kind != "f":
        return graph.compare("Equal", x, x)
    return graph.compare("Less", graph.unary("Abs", x), np.array(np.inf, x.dtype))


def on_floats(kind: str) -> Callable[[Graph, Tensor], Tensor]:
    """Return a kernel that leaves integers as they are."""
    return lambda graph, x: graph.unary(kind, x) if x.dtype.kind == "f" else x


def trunc(graph: Graph, x: Tensor) -> Tensor:
    """Round towards zero."""
    return _trunc(graph, x) if x.dtype.kind == "f" else x


def logarithm(unit: float, graph: Graph, x: Tensor) -> Tensor:
    """Return the logarithm to another base, given that base's natural one."""
    return graph.binary("Div", graph.unary("Log", x), np.array(unit, x.dtype))


def maximum(graph: Graph, left: Tensor, right: Tensor) -> Tensor:
    """Return the larger of two; NaN wins."""
    return _extreme(graph, left, right, "GreaterOrEqual")


def minimum(graph: Graph, left: Tensor, right: Tensor) -> Tensor:
    """Return the smaller of two; NaN wins."""
    return _extreme(graph, left, right, "LessOrEqual")


def _extreme(graph: Graph, left: Tensor, right: Tensor, kind: str) -> Tensor:
    first = graph.compare(kind, left, right)
    if left.dtype.kind == "f":
        first = _or(graph, first, isnan(graph, left))
    return graph.where(first, left, right)


def ignoring_nan(
    kernel: Callable[[Graph, Tensor, Tensor], Tensor], graph: Graph, left: Tensor, right: Tensor
) -> Tensor:
    """Return ``maximum`` or ``minimum``, where a NaN beside a number loses."""
    if left.dtype.kind != "f":
        return kernel(graph, left, right)
    both = graph.where(isnan(graph, right), left, kernel(graph, left, right))
    return graph.where(isnan(graph, left), right, both)


def reciprocal(graph: Graph, x: Tensor) -> Tensor:
    """Return ``1 / x``; of integers, without remainder."""
    one = graph.constant(np.ones((), x.dtype))
    return graph.binary("Div", one, x) if x.dtype.kind == "f" else _quotient(graph, graph.cast(one, x.dtype), x)


def floor_divide(graph: Graph, left: Tensor, right: Tensor) -> Tensor:
    """Return ``left // right``: floats by way of the remainder, then corrected by half a unit."""
    if left.dtype.kind != "f":
        whole, rest = _quotient(graph, left, right), remainder(graph, left, right)
        cut = fmod(graph, left, right)
        return graph.where(
            graph.compare("Equal", rest, cut), whole, graph.binary("Sub", whole, np.ones((), left.dtype))
        )
    plain = graph.binary("Div", left, right)
    rest = graph.op("Mod", left, right, dtype=left.dtype, fmod=1)
    whole = graph.binary("Div", graph.binary("Sub", left, rest), right)
    whole = graph.where(_crosses(graph, rest, right), graph.binary("Sub", whole, 1.0), whole)
    low = graph.unary("Floor", whole)
    low = graph.where(
        graph.compare("Greater", graph.binary("Sub", whole, low), 0.5), graph.binary("Add", low, 1.0), low
    )
    signed = graph.binary("Mul", plain, _zero(plain))  # a zero with the quotient's sign
    answer = graph.where(graph.compare("Equal", whole, _zero(whole)), signed, low)
    return graph.where(graph.compare("Equal", right, _zero(right)), plain, answer)


def remainder(graph: Graph, left: Tensor, right: Tensor) -> Tensor:
    """Return ``left % right``, with the divisor's sign."""
    rest = fmod(graph, left, right)
    answer = graph.where(_crosses(graph, rest, right), graph.binary("Add", rest, right), rest)
    if left.dtype.kind != "f":
        return answer
    signed = graph.where(graph.compare("Less", right, _zero(right)), np.array(-0.0, left.dtype), _zero(left))
    return graph.where(graph.compare("Equal", rest, _zero(rest)), signed, answer)


def fmod(graph: Graph, left: Tensor, right: Tensor) -> Tensor:
    """Return the remainder with the dividend's sign; by an integer zero it is zero."""
    if left.dtype.kind == "f":
        return graph.op("Mod", left, right, dtype=left.dtype, fmod=1)
    none = graph.compare("Equal", right, _zero(right))
    whole = _quotient(graph, left, right)
    return graph.where(none, _zero(left), graph.binary("Sub", left, graph.binary("Mul", whole, right)))


def _quotient(graph: Graph, left: Tensor, right: Tensor) -> Tensor:
    """Return an integer quotient, cut towards zero; zero where the divisor is zero."""
    one = np.ones((), left.dtype)
    none = graph.compare("Equal", right, _zero(right))
    minus = graph.compare("Equal", right, -one)
    safe = graph.where(_or(graph, none, minus), one, right)
    whole = graph.op("Div", left, safe, dtype=left.dtype)
    return graph.where(none, _zero(left), graph.where(minus, graph.unary("Neg", left), whole))


def _crosses(graph: Graph, rest: Tensor, right: Tensor) -> Tensor:
    """Return where a remainder is not zero and of another sign than the divisor."""
    zero = _zero(rest)
    other = graph.op("Xor", graph.compare("Less", rest, zero), graph.compare("Less", right, zero), dtype=BOOL)
    return _and(graph, other, _not(graph, graph.compare("Equal", rest, zero)))


def power(graph: Graph, base: Tensor, exponent: Tensor) -> Tensor:
    """Return ``base ** exponent`` of floats."""
    return graph.op("Pow", base, exponent, dtype=base.dtype)


def arctan2(graph: Graph, y: Tensor, x: Tensor) -> Tensor:
    """Return the angle of a point (x, y), from -pi to pi; a zero has the sign of its reciprocal."""
    zero = _zero(x)
    infinite = _and(graph, *(graph.op("IsInf", part, dtype=BOOL) for part in (y, x)))
    sides = graph.binary("Mul", graph.unary("Sign", y), graph.unary("Sign", x))
    # Divided by a zero of its own sign, y would end on the wrong side.
    divisor = graph.where(graph.compare("Equal", x, zero), zero, x)
    angle = arctan(graph, graph.where(infinite, sides, graph.binary("Div", y, divisor)))
    half = np.array(math.pi, x.dtype)
    low, left = _negative(graph, y), _negative(graph, x)
    turned = graph.binary("Add", angle, graph.where(low, -half, half))
    whole = graph.where(graph.compare("Less", x, zero), turned, angle)
    flat = graph.where(left, graph.where(low, -half, half), y)
    origin = _and(graph, *(graph.compare("Equal", part, zero) for part in (y, x)))
    return graph.where(origin, flat, whole)


def _negative(graph: Graph, x: Tensor) -> Tensor:
    """Return where a number is below zero, or the zero below zero."""
    zero = _zero(x)
    inverse = graph.compare("Less", graph.unary("Reciprocal", x), zero)
    return _or(graph, graph.compare("Less", x, zero), _and(graph, graph.compare("Equal", x, zero), inverse))


def hypot(graph: Graph, left: Tensor, right: Tensor) -> Tensor:
    """Return ``sqrt(left^2 + right^2)``, scaled so that no square overflows."""
    a, b = (graph.unary("Abs", part) for part in (left, right))
    large, small = ignoring_nan(maximum, graph, a, b), ignoring_nan(minimum, graph, a, b)
    ratio = graph.binary("Div", small, large)
    length = graph.binary(
        "Mul", large, graph.unary("Sqrt", graph.binary("Add", graph.binary("Mul", ratio, ratio), 1.0))
    )
    unknown = _or(graph, isnan(graph, a), isnan(graph, b))
    length = graph.where(unknown, np.array(np.nan, a.dtype), length)
    flat = _or(graph, graph.compare("Equal", large, _zero(a)), graph.op("IsInf", large, dtype=BOOL))
    return graph.where(flat, large, length)


def logaddexp(graph: Graph, left: Tensor, right: Tensor) -> Tensor:
    """Return ``log(exp(left) + exp(right))``."""
    gap = graph.unary("Abs", graph.binary("Sub", left, right))
    tail = log1p(graph, graph.unary("Exp", graph.unary("Neg", gap)))
    answer = graph.binary("Add", maximum(graph, left, right), tail)
    same = graph.binary("Add", left, np.array(math.log(2), left.dtype))
    return graph.where(graph.compare("Equal", left, right), same, answer)


def heaviside(graph: Graph, x: Tensor, middle: Tensor) -> Tensor:
    """Return 0 below zero, 1 above it, and ``middle`` at it."""
    above = graph.where(graph.compare("Greater", x, _zero(x)), np.ones((), x.dtype), x)
    answer = graph.where(graph.compare("Less", x, _zero(x)), _zero(x), above)
    return graph.where(graph.compare("Equal", x, _zero(x)), middle, answer)


def xlogy(graph: Graph, x: Tensor, y: Tensor) -> Tensor:
    """Return ``x log(y)``, which is zero where ``x`` is."""
    return _unless_zero(graph, x, y, graph.binary("Mul", x, graph.unary("Log", y)))


def xlog1py(graph: Graph, x: Tensor, y: Tensor) -> Tensor:
    """Return ``x log(1 + y)``, which is zero where ``x`` is."""
    return _unless_zero(graph, x, y, graph.binary("Mul", x, log1p(graph, y)))


def _unless_zero(graph: Graph, x: Tensor, y: Tensor, value: Tensor) -> Tensor:
    none = _and(graph, graph.compare("Equal", x, _zero(x)), _not(graph, isnan(graph, y)))
    return graph.where(none, _zero(x), value)


def entr(graph: Graph, x: Tensor) -> Tensor:
    """Return ``-x log(x)``; zero at zero, minus infinity below."""
    value = graph.unary("Neg", graph.binary("Mul", x, graph.unary("Log", x)))
    value = graph.where(graph.compare("Equal", x, _zero(x)), _zero(x), value)
    return graph.where(graph.compare("Less", x, _zero(x)), np.array(-np.inf, x.dtype), value)


def boxcox(graph: Graph, x: Tensor, power_: Tensor) -> Tensor:
    """Return ``(x^p - 1) / p``, and the logarithm where the power is next to zero."""
    logged = graph.unary("Log", x)
    curved = graph.binary("Div", expm1(graph, graph.binary("Mul", power_, logged)), power_)
    flat = graph.compare("Less", graph.unary("Abs", power_), np.array(1e-19, x.dtype))
    return graph.where(flat, logged, curved)


def inv_boxcox(graph: Graph, x: Tensor, power_: Tensor) -> Tensor:
    """Return what ``boxcox`` came from."""
    curved = graph.unary("Exp", graph.binary("Div", log1p(graph, graph.binary("Mul", power_, x)), power_))
    return graph.where(graph.compare("Equal", power_, _zero(x)), graph.unary("Exp", x), curved)


def huber(graph: Graph, width: Tensor, x: Tensor) -> Tensor:
    """Return half the square within the width, and a straight line beyond it."""
    size, half = graph.unary("Abs", x), np.array(0.5, x.dtype)
    inner = graph.binary("Mul", graph.binary("Mul", x, x), half)
    outer = graph.binary("Mul", width, graph.binary("Sub", size, graph.binary("Mul", width, half)))
    answer = graph.where(graph.compare("LessOrEqual", size, width), inner, outer)
    return graph.where(graph.compare("Less", width, _zero(x)), np.array(np.inf, x.dtype), answer)
