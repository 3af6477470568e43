"""The error function in double, which ONNX Runtime has in single precision only.

Near zero its Taylor series; beyond, the scaled complement, interpolated at conversion time by a polynomial in a
variable that is between -1 and 1. Within 4 ulps of the true value.

Source: NIST Digital Library of Mathematical Functions, https://dlmf.nist.gov/7.6, equation 7.6.1
"""

from __future__ import annotations

from functools import cache
from math import factorial, pi, sqrt
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from vitrify.transforms.convert._building.graph import Array, Graph, Tensor

_NEAR = 1.25
"""Up to here the series does not cancel; beyond, the complement is small enough to hide its own error."""
_TERMS = 24
_DEGREE = 24
_END = 6.0
"""From here on the function is 1 in double."""


def erf(graph: Graph, x: Tensor) -> Tensor:
    """Return the error function of each element."""
    size = graph.op("Min", graph.unary("Abs", x), np.array(_END), dtype=x.dtype)
    near = graph.binary("Mul", _polynomial(graph, graph.binary("Mul", size, size), _series()), size)
    place = graph.binary("Div", graph.binary("Sub", size, _CENTRE), graph.binary("Add", size, _CENTRE))
    place = graph.binary("Mul", place, 1 / _REACH)
    bell = graph.unary("Exp", graph.unary("Neg", graph.binary("Mul", size, size)))
    far = graph.binary("Sub", np.ones(()), graph.binary("Mul", bell, _polynomial(graph, place, _scaled_complement())))
    value = graph.where(graph.compare("Less", size, _NEAR), near, far)
    return graph.binary("Mul", graph.unary("Sign", x), value)


_CENTRE = sqrt(_END)
"""Maps [1, 6] evenly to both sides of zero."""
_REACH = (_END - _CENTRE) / (_END + _CENTRE)


@cache
def _series() -> Array:
    return np.array([2 / sqrt(pi) * (-1) ** n / (factorial(n) * (2 * n + 1)) for n in range(_TERMS)])


@cache
def _scaled_complement() -> Array:
    """Return the coefficients, lowest first, of ``exp(x^2) erfc(x)`` in the scaled place of ``x``."""
    from numpy.polynomial import Chebyshev, Polynomial
    from scipy.special import erfcx

    def function(place: Array) -> Array:
        ratio = place * _REACH
        return np.asarray(erfcx(_CENTRE * (1 + ratio) / (1 - ratio)))

    fitted = Chebyshev.interpolate(function, _DEGREE)
    return np.asarray(fitted.convert(kind=Polynomial).coef)


def _polynomial(graph: Graph, x: Tensor, coefficients: Array) -> Tensor:
    """Return a polynomial by Horner's rule; its coefficients are given from the lowest."""
    value: Tensor | None = None
    for coefficient in coefficients[::-1]:
        if value is None:
            value = graph.binary("Add", graph.binary("Mul", x, 0.0), float(coefficient))
        else:
            value = graph.binary("Add", graph.binary("Mul", value, x), float(coefficient))
    assert value is not None
    return value
