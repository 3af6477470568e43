"""Elementary functions of each element that ONNX lacks, or ONNX Runtime lacks in double; each to a few ulps.

Source: D. Goldberg, What Every Computer Scientist Should Know About Floating-Point Arithmetic (1991), theorem 4;
W. Kahan, Branch Cuts for Complex Elementary Functions (1987); for the arc tangent, fdlibm's ``s_atan.c``
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vitrify.transforms.convert._building.graph import BOOL, Graph, Tensor

if TYPE_CHECKING:
    from vitrify.transforms.convert._building.graph import Operand

_LOG2 = float(np.log(2))
_HUGE = 2.0**28
"""From here on ``1 + x**2`` is ``x**2`` in double."""


def log1p(graph: Graph, x: Tensor) -> Tensor:
    """Return ``log(1 + x)`` to a few ulps also near zero."""
    one = np.ones((), x.dtype)
    grown = graph.binary("Add", x, one)
    exact = graph.binary("Mul", graph.unary("Log", grown), graph.binary("Div", x, graph.binary("Sub", grown, one)))
    tiny = graph.compare("Equal", grown, one)
    infinite = graph.compare("Equal", grown, np.array(np.inf, x.dtype))
    return graph.where(tiny, x, graph.where(infinite, grown, exact))


def expm1(graph: Graph, x: Tensor) -> Tensor:
    """Return ``exp(x) - 1`` to a few ulps also near zero (Kahan's quotient)."""
    one = np.ones((), x.dtype)
    power = graph.unary("Exp", x)
    less = graph.binary("Sub", power, one)
    exact = graph.binary("Mul", less, graph.binary("Div", x, graph.unary("Log", power)))
    tiny = graph.compare("Equal", power, one)
    lost = graph.compare("Equal", less, -one)
    infinite = graph.compare("Equal", power, np.array(np.inf, x.dtype))
    return graph.where(tiny, x, graph.where(lost, -one, graph.where(infinite, power, exact)))


def signed(graph: Graph, x: Tensor, size: Tensor) -> Tensor:
    """Return ``copysign(size, x)`` for a size that is not negative; a zero stays as it is."""
    return graph.where(_is_zero(graph, x), x, graph.binary("Mul", graph.unary("Sign", x), size))


def _is_zero(graph: Graph, x: Tensor) -> Tensor:
    return graph.compare("Equal", x, np.zeros((), x.dtype))


def _beyond(graph: Graph, x: Tensor, bound: float) -> Tensor:
    return graph.compare("Greater", x, np.array(bound, x.dtype))


_QUARTERS = (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21)
"""fdlibm's ``pio2_1``, ``pio2_2`` and ``pio2_3t``: half of pi in parts whose products with 20 bits are exact."""


def tan(graph: Graph, x: Tensor) -> Tensor:
    """Return the tangent of what is left of whole quarters of a turn, or its negative reciprocal."""
    wide = graph.cast(x, np.float64)
    count = graph.unary("Round", graph.binary("Mul", wide, 2 / np.pi))
    rest = wide
    for part in _QUARTERS:
        rest = graph.binary("Sub", rest, graph.binary("Mul", count, part))
    far = graph.op("Not", graph.compare("Less", graph.unary("Abs", wide), np.array(2.0**20)), dtype=BOOL)
    rest = graph.where(far, wide, rest)
    sine, cosine = graph.unary("Sin", rest), graph.unary("Cos", rest)
    half = graph.binary("Mul", count, 0.5)
    odd = graph.op("Not", graph.compare("Equal", half, graph.unary("Floor", half)), dtype=BOOL)
    odd = graph.op("And", odd, graph.op("Not", far, dtype=BOOL), dtype=BOOL)
    turned = graph.unary("Neg", graph.binary("Div", cosine, sine))
    return graph.cast(graph.where(odd, turned, graph.binary("Div", sine, cosine)), x.dtype)


def _half_exponential(graph: Graph, size: Tensor) -> Tensor:
    """Return ``exp(size) / 2``, which is finite for a little longer than the power."""
    root = graph.unary("Exp", graph.binary("Mul", size, 0.5))
    return graph.binary("Mul", graph.binary("Mul", root, 0.5), root)


def sinh(graph: Graph, x: Tensor) -> Tensor:
    """Return half of ``e + e / (e + 1)`` with ``e = expm1(|x|)``."""
    size = graph.unary("Abs", x)
    less = expm1(graph, size)
    near = graph.binary("Add", less, graph.binary("Div", less, graph.binary("Add", less, 1.0)))
    return signed(
        graph,
        x,
        graph.where(_beyond(graph, size, 22.0), _half_exponential(graph, size), graph.binary("Mul", near, 0.5)),
    )


def cosh(graph: Graph, x: Tensor) -> Tensor:
    """Return the mean of ``exp(x)`` and ``exp(-x)``."""
    size = graph.unary("Abs", x)
    falling = graph.binary("Mul", graph.unary("Exp", graph.unary("Neg", size)), 0.5)
    return graph.binary("Add", _half_exponential(graph, size), falling)


def arcsinh(graph: Graph, x: Tensor) -> Tensor:
    """Return ``log1p(a + a**2 / (1 + sqrt(1 + a**2)))`` with ``a = |x|``."""
    size = graph.unary("Abs", x)
    square = graph.binary("Mul", size, size)
    root = graph.unary("Sqrt", graph.binary("Add", square, 1.0))
    near = log1p(graph, graph.binary("Add", size, graph.binary("Div", square, graph.binary("Add", root, 1.0))))
    far = graph.binary("Add", graph.unary("Log", size), _LOG2)
    return signed(graph, x, graph.where(_beyond(graph, size, _HUGE), far, near))


def arccosh(graph: Graph, x: Tensor) -> Tensor:
    """Return ``log1p(t + sqrt(2 t + t**2))`` with ``t = x - 1``."""
    less = graph.binary("Sub", x, 1.0)
    square = graph.binary("Add", graph.binary("Mul", less, 2.0), graph.binary("Mul", less, less))
    near = log1p(graph, graph.binary("Add", less, graph.unary("Sqrt", square)))
    far = graph.binary("Add", graph.unary("Log", x), _LOG2)
    defined = graph.compare("GreaterOrEqual", x, np.ones((), x.dtype))
    return graph.where(defined, graph.where(_beyond(graph, x, _HUGE), far, near), np.array(np.nan, x.dtype))


def arctanh(graph: Graph, x: Tensor) -> Tensor:
    """Return half of ``log1p(2 a / (1 - a))`` with ``a = |x|``."""
    size = graph.unary("Abs", x)
    rest = graph.binary("Sub", np.ones((), x.dtype), size)
    ratio = graph.binary("Div", graph.binary("Mul", size, 2.0), rest)
    return signed(graph, x, graph.binary("Mul", log1p(graph, ratio), 0.5))


_ATAN = (
    *(3.33333333333329318027e-01, -1.99999999998764832476e-01, 1.42857142725034663711e-01, -1.11111104054623557880e-01),
    *(9.09088713343650656196e-02, -7.69187620504482999495e-02, 6.66107313738753120669e-02, -5.83357013379057348645e-02),
    *(4.97687799461593236017e-02, -3.65315727442169155270e-02, 1.62858201153657823623e-02),
)
"""fdlibm's ``aT``: ``atan(t) = t - t * (aT[0] t**2 + aT[1] t**4 + ...)`` for ``|t| < 7/16``."""


def arctan(graph: Graph, x: Tensor) -> Tensor:
    """Return the arc tangent: the argument is turned by a half, one, one and a half or two right half-angles."""
    size = graph.unary("Abs", x)
    turned, offset = size, graph.constant(np.zeros((), x.dtype))
    for bound, pivot in ((7 / 16, 0.5), (11 / 16, 1.0), (19 / 16, 1.5)):
        over = graph.binary("Sub", size, pivot)
        under = graph.binary("Add", graph.binary("Mul", size, pivot), 1.0)
        past = graph.op("Not", graph.compare("Less", size, np.array(bound, x.dtype)), dtype=BOOL)
        turned = graph.where(past, graph.binary("Div", over, under), turned)
        offset = graph.where(past, np.array(np.arctan(pivot), x.dtype), offset)
    past = graph.op("Not", graph.compare("Less", size, np.array(39 / 16, x.dtype)), dtype=BOOL)
    turned = graph.where(past, graph.unary("Neg", graph.unary("Reciprocal", size)), turned)
    offset = graph.where(past, np.array(np.pi / 2, x.dtype), offset)
    square = graph.binary("Mul", turned, turned)
    series: Operand = _ATAN[-1]
    for coefficient in _ATAN[-2::-1]:
        series = graph.binary("Add", graph.binary("Mul", square, series), coefficient)
    small = graph.binary("Sub", turned, graph.binary("Mul", turned, graph.binary("Mul", square, series)))
    return signed(graph, x, graph.binary("Add", offset, small))


def _cathetus(graph: Graph, x: Tensor) -> Tensor:
    one = np.ones((), x.dtype)
    return graph.unary("Sqrt", graph.binary("Mul", graph.binary("Sub", one, x), graph.binary("Add", one, x)))


def arcsin(graph: Graph, x: Tensor) -> Tensor:
    """Return twice the arc tangent of ``x / (1 + sqrt(1 - x**2))``."""
    ratio = graph.binary("Div", x, graph.binary("Add", _cathetus(graph, x), 1.0))
    return graph.binary("Mul", arctan(graph, ratio), 2.0)


def arccos(graph: Graph, x: Tensor) -> Tensor:
    """Return twice the arc tangent of ``sqrt(1 - a**2) / (1 + a)`` with ``a = |x|``, and its supplement below zero."""
    size = graph.unary("Abs", x)
    ratio = graph.binary("Div", _cathetus(graph, size), graph.binary("Add", size, 1.0))
    angle = graph.binary("Mul", arctan(graph, ratio), 2.0)
    below = graph.compare("Less", x, np.zeros((), x.dtype))
    return graph.where(below, graph.binary("Sub", np.array(np.pi, x.dtype), angle), angle)


def cbrt(graph: Graph, x: Tensor) -> Tensor:
    """Return the cube root, one step of Newton's after the power."""
    size = graph.unary("Abs", x)
    root = graph.binary("Pow", size, 1 / 3)
    square = graph.binary("Mul", root, root)
    step = graph.binary("Div", graph.binary("Sub", root, graph.binary("Div", size, square)), 3.0)
    better = graph.binary("Sub", root, step)
    finite = graph.compare("Less", size, np.array(np.inf, x.dtype))
    return signed(graph, x, graph.where(finite, better, size))


def trunc(graph: Graph, x: Tensor) -> Tensor:
    """Return the whole number next to ``x`` towards zero."""
    below = graph.compare("Less", x, np.zeros((), x.dtype))
    return graph.where(below, graph.unary("Ceil", x), graph.unary("Floor", x))


def expit(graph: Graph, x: Tensor) -> Tensor:
    """Return ``1 / (1 + exp(-x))``."""
    return graph.sigmoid(x)


def logit(graph: Graph, x: Tensor) -> Tensor:
    """Return ``log(x / (1 - x))``; near one half by ``log1p``, as there the quotient cancels (Boost does the same)."""
    one = np.ones((), x.dtype)
    far = graph.unary("Log", graph.binary("Div", x, graph.binary("Sub", one, x)))
    shift = graph.binary("Mul", graph.binary("Sub", x, 0.5), 2.0)
    near = graph.binary("Sub", log1p(graph, shift), log1p(graph, graph.unary("Neg", shift)))
    middle = graph.op("And", _beyond(graph, x, 0.3), graph.compare("Less", x, np.array(0.65, x.dtype)), dtype=BOOL)
    return graph.where(middle, near, far)


def log_expit(graph: Graph, x: Tensor) -> Tensor:
    """Return ``log(1 / (1 + exp(-x)))``."""
    size = graph.unary("Abs", x)
    tail = log1p(graph, graph.unary("Exp", graph.unary("Neg", size)))
    low = graph.where(graph.compare("Less", x, np.zeros((), x.dtype)), x, np.zeros((), x.dtype))
    return graph.binary("Sub", low, tail)
