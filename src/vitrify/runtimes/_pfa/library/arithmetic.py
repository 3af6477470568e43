"""Operators: numbers, comparisons, logic, bits.

Source: https://dmg.org/pfa/docs/library/#lib:basic
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

from vitrify.runtimes._pfa.library.base import Library, equal, order
from vitrify.runtimes._pfa.types import PfaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.runtimes._pfa.library.base import Site

LIBRARY = Library()
_PAIR = "N, N -> N"
_MOST_BITS = 64

LIBRARY.plain("+", _PAIR, overflow=18000)(operator.add)
LIBRARY.plain("-", _PAIR, overflow=18010)(operator.sub)
LIBRARY.plain("*", _PAIR, overflow=18020)(operator.mul)
LIBRARY.plain("u-", "N -> N", overflow=18050)(operator.neg)
LIBRARY.plain("!", "boolean -> boolean")(operator.not_)
LIBRARY.plain("^^", "boolean, boolean -> boolean")(operator.ne)
for _name, _function in (("&", operator.and_), ("|", operator.or_), ("^", operator.xor)):
    LIBRARY.plain(_name, "int, int -> int", "long, long -> long")(_function)
LIBRARY.plain("~", "int -> int", "long -> long")(operator.invert)


@LIBRARY.plain("!!!", "(null | boolean) -> (null | boolean)")
def _kleene_not(value: bool | None) -> bool | None:  # noqa: FBT001 (a value of the language)
    return None if value is None else not value


@LIBRARY.plain("/", "double, double -> double")
def divide(x: float, y: float) -> float:
    """Return the quotient as IEEE 754 has it."""
    if y:
        return x / y
    if math.isnan(y) or math.isnan(x) or x == 0:
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1.0, y)


@LIBRARY.plain("//", "I, I -> I", overflow=18040)
def _floor_divide(x: int, y: int) -> int:
    return x // _divisor(y, 18040)


@LIBRARY.plain("%", _PAIR)
def _modulo(k: float, n: float) -> float:
    if isinstance(k, int) and isinstance(n, int):
        return k % _divisor(n, 18060)
    return k % n if n and math.isfinite(k) else math.nan


@LIBRARY.plain("%%", _PAIR)
def _remainder(k: float, n: float) -> float:
    if isinstance(k, int) and isinstance(n, int):
        return abs(k) % abs(_divisor(n, 18070)) * (-1 if k < 0 else 1)
    return math.fmod(k, n) if n and math.isfinite(k) else math.nan


@LIBRARY.plain("**", _PAIR, overflow=18080)
def _power(x: float, y: float) -> float:
    if isinstance(x, int) and isinstance(y, int):
        if y < 0:
            return x**-y if abs(x) == 1 else 0
        return int(x ** (min(y, _MOST_BITS) if abs(x) > 1 else y % 2 + 2 * (y > 1)))
    return power(x, y)


def power(x: float, y: float) -> float:
    """Return ``x ** y`` as IEEE 754 has it: infinite where it is too large, NaN where there is none."""
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and y % 2 else math.inf
    except ValueError:
        odd = y % 2 == 1
        return (math.copysign(math.inf, x) if odd else math.inf) if x == 0 else math.nan


def _divisor(n: int, code: int) -> int:
    if not n:
        msg = "integer division by zero"
        raise PfaError(msg, code)
    return n


def _comparison(name: str, holds: Callable[[Any, Any], bool]) -> None:
    """Register a comparison: of numbers as they are, of what has parts by its order."""

    @LIBRARY.built(name, "A, A -> boolean")
    def build(site: Site) -> Callable[[Any, Any], bool]:
        type_ = site.params[0]
        if type_.numeric or type_.kind in {"string", "boolean"}:
            return holds
        if name in {"==", "!="}:
            same = equal(type_, site)
            return same if name == "==" else lambda left, right: not same(left, right)
        compare = order(type_, site)
        return lambda left, right: holds(compare(left, right), 0)


for _name, _holds in (
    *(("==", operator.eq), ("!=", operator.ne), ("<", operator.lt)),
    *(("<=", operator.le), (">", operator.gt), (">=", operator.ge)),
):
    _comparison(_name, _holds)


@LIBRARY.built("cmp", "A, A -> int")
def _compare(site: Site) -> Callable[[Any, Any], int]:
    compare = order(site.params[0], site)

    def call(left: Any, right: Any) -> int:
        found = compare(left, right)
        return (found > 0) - (found < 0)

    return call


@LIBRARY.built("max", "A, A -> A")
def _max(site: Site) -> Callable[[Any, Any], Any]:
    compare = order(site.params[0], site)
    return lambda left, right: right if compare(right, left) > 0 else left


@LIBRARY.built("min", "A, A -> A")
def _min(site: Site) -> Callable[[Any, Any], Any]:
    compare = order(site.params[0], site)
    return lambda left, right: right if compare(right, left) < 0 else left
