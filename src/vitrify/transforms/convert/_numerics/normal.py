"""The quantiles of the normal distribution, as far as a QuantileTransformer goes: from 1e-7 to its complement.

Near one half a polynomial in the square of the distance from it; farther out one in the root of the logarithm of the
tail, both interpolated at conversion time.

Source: M. J. Wichura, Algorithm AS 241 (1988), whose two variables these are
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from vitrify.transforms.convert._building.graph import Array, Graph, Tensor

_CENTRE = 0.425
"""How far from one half the first polynomial goes."""
_NEAREST, _FARTHEST = 1.6, 4.1
"""``sqrt(-log(tail))`` where the second polynomial begins and ends: at tails of 0.077 and 5e-8."""
_DEGREES = (18, 26)


def normal_quantile(graph: Graph, x: Tensor) -> Tensor:
    """Return what ``scipy.special.ndtri`` returns for probabilities in double; beyond the ends the ends' value."""
    centred = graph.binary("Sub", x, 0.5)
    square = graph.binary("Mul", centred, centred)
    place = graph.binary("Sub", graph.binary("Mul", square, 2 / _CENTRE**2), 1.0)
    near = graph.binary("Mul", centred, _polynomial(graph, place, _near()))
    tail = graph.op("Min", x, graph.binary("Sub", np.ones(()), x), dtype=x.dtype)
    root = graph.unary("Sqrt", graph.unary("Neg", graph.unary("Log", tail)))
    root = graph.op("Min", graph.op("Max", root, np.array(_NEAREST), dtype=x.dtype), np.array(_FARTHEST), dtype=x.dtype)
    middle, reach = (_FARTHEST + _NEAREST) / 2, (_FARTHEST - _NEAREST) / 2
    far = _polynomial(graph, graph.binary("Div", graph.binary("Sub", root, middle), reach), _far())
    far = graph.binary("Mul", graph.unary("Sign", centred), far)
    inner = graph.compare("LessOrEqual", graph.unary("Abs", centred), np.array(_CENTRE))
    return graph.where(inner, near, far)


def _polynomial(graph: Graph, x: Tensor, coefficients: Array) -> Tensor:
    """Return Clenshaw's sum of Chebyshev polynomials."""
    double = graph.binary("Mul", x, 2.0)
    before = graph.binary("Mul", x, 0.0)
    last = graph.binary("Add", before, float(coefficients[-1]))
    for coefficient in coefficients[-2:0:-1]:
        fresh = graph.binary("Sub", graph.binary("Mul", double, last), before)
        before, last = last, graph.binary("Add", fresh, float(coefficient))
    fresh = graph.binary("Sub", graph.binary("Mul", x, last), before)
    return graph.binary("Add", fresh, float(coefficients[0]))


@cache
def _near() -> Array:
    from numpy.polynomial import Chebyshev
    from scipy.special import ndtri

    def function(place: Array) -> Array:
        distance = np.sqrt((place + 1) / 2) * _CENTRE
        return np.asarray(ndtri(0.5 + distance) / distance)

    return np.asarray(Chebyshev.interpolate(function, _DEGREES[0]).coef)


@cache
def _far() -> Array:
    from numpy.polynomial import Chebyshev
    from scipy.special import ndtri

    def function(place: Array) -> Array:
        root = (_FARTHEST + _NEAREST) / 2 + place * (_FARTHEST - _NEAREST) / 2
        return np.asarray(-ndtri(np.exp(-(root**2))))

    return np.asarray(Chebyshev.interpolate(function, _DEGREES[1]).coef)
