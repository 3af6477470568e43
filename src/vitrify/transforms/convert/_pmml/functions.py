"""NumPy's functions of one number in PMML's, over all of their domain.

An evaluator refuses a row whose function has no value, and one whose whole number has more than 32 bits; NumPy gives
NaN, which is missing here.

Source: https://dmg.org/pmml/v4-4-1/BuiltinFunctions.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vitrify.transforms.convert._pmml.elements import apply, constant, element

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_ALIKE = ("abs", "exp", "tanh", "expm1", "rint", "sinh", "cosh")
_EVERYWHERE = {
    **dict(zip(_ALIKE, _ALIKE, strict=True)),
    "absolute": "abs",
    "fabs": "abs",
    "arctan": "atan",
}
_FINITE = ("sin", "cos", "tan")
_WITHIN_ONE = {"arcsin": "asin", "arccos": "acos"}
_ABOVE = {"log": ("ln", 0.0), "log10": ("log10", 0.0), "log1p": ("ln1p", -1.0)}
_OTHERS = ("sqrt", "floor", "ceil", "trunc", "square", "negative")
NAMES = frozenset({*_EVERYWHERE, *_FINITE, *_WITHIN_ONE, *_ABOVE, *_OTHERS})
"""What NumPy calls them."""


def known(value: Element, then: Element) -> Element:
    """Return an expression where a value is there, and nothing where it is missing."""
    return apply("if", apply("isNotMissing", value), then)


def call(name: str, value: Element) -> Element:
    """Return one of ``NAMES`` of a value."""
    return known(value, _call(name, value))


def _call(name: str, value: Element) -> Element:
    if name in _EVERYWHERE:
        return apply(_EVERYWHERE[name], value)
    if name in _FINITE:
        return _where("lessOrEqual", apply("abs", value), float(np.finfo(np.float64).max), apply(name, value))
    if name in _WITHIN_ONE:
        return _where("lessOrEqual", apply("abs", value), 1.0, apply(_WITHIN_ONE[name], value))
    if name in _ABOVE:
        function, least = _ABOVE[name]
        at_least = _where("equal", value, least, element("Constant", {"dataType": "double"}, text="-Infinity"))
        return _where("greaterThan", value, least, apply(function, value), at_least)
    return _other(name, value)


def _other(name: str, value: Element) -> Element:
    match name:
        case "sqrt":
            return _where("greaterOrEqual", value, 0.0, apply("sqrt", value))
        case "floor":
            return rounded_down(value)
        case "ceil":
            near = apply("rint", value)
            return apply("if", apply("lessThan", near, value), apply("+", near, constant(1.0)), near)
        case "trunc":
            return truncated(value)
        case "square":
            return apply("*", value, value)
    return apply("-", constant(0.0), value)


def rounded_down(value: Element) -> Element:
    """Return the largest whole number that is not above a value, by the nearest one: that has no bound of 32 bits."""
    near = apply("rint", value)
    return apply("if", apply("greaterThan", near, value), apply("-", near, constant(1.0)), near)


def truncated(value: Element) -> Element:
    """Return the whole number next to a value on the side of zero."""
    down = rounded_down(apply("abs", value))
    return _where("lessThan", value, 0.0, apply("-", constant(0.0), down), down)


def _where(operator: str, value: Element, bound: float, then: Element, *otherwise: Element) -> Element:
    return apply("if", apply(operator, value, constant(bound)), then, *otherwise)
