"""The largest and smallest of arrays and maps, sorting, and means.

Source: https://dmg.org/pfa/docs/library/#lib:array and #lib:map
"""

from __future__ import annotations

import math
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from vitrify.runtimes._pfa.library.arithmetic import divide
from vitrify.runtimes._pfa.library.arrays import filled
from vitrify.runtimes._pfa.library.base import Library, equal, order
from vitrify.runtimes._pfa.library.mathematics import exp, ln
from vitrify.runtimes._pfa.types import FLOAT, PfaError, single

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.runtimes._pfa.library.base import Site

    Less = Callable[[Any, Any], bool]

LIBRARY = Library()
_LESS = ", <A, A -> boolean>"
_HALF = 0.5


def _less(site: Site, given: tuple[Any, ...]) -> Less:
    """Return what decides which is smaller: the last argument, or the order of values."""
    if given:
        less: Less = given[0]
        return less
    item = site.params[0].item
    compare = order(item, site)
    return lambda left, right: compare(left, right) < 0


def ranked(values: list[Any], less: Less) -> list[int]:
    """Return the places of values from the smallest to the largest; of equal ones the first comes first."""

    def compare(left: int, right: int) -> int:
        if less(values[left], values[right]):
            return -1
        return 1 if less(values[right], values[left]) else 0

    return sorted(range(len(values)), key=cmp_to_key(compare))


def _first(values: list[Any], less: Less, *, largest: bool) -> int:
    """Return the first place of the largest or smallest."""
    best = 0
    for at in range(1, len(values)):
        if less(values[best], values[at]) if largest else less(values[at], values[best]):
            best = at
    return best


def _extreme(name: str, code: int, *, largest: bool, what: Callable[[list[Any], int], Any], result: str) -> None:
    """Register one extreme and the n extremes of an array or a map, by order and by a function."""
    is_map = name.startswith("map.")
    values = (lambda given: list(given.values())) if is_map else (lambda given: given)
    source = "{A}" if is_map else "[A]"

    def one(site: Site) -> Callable[..., Any]:
        def call(given: Any, *less: Any) -> Any:
            found = filled(values(given), code + (20 if less else 0))
            site.meter.spend(len(found))
            return what(given, _first(found, _less(site, less), largest=largest))

        return call

    def several(site: Site) -> Callable[..., Any]:
        def call(given: Any, n: int, *less: Any) -> Any:
            own = code + 40 + (20 if less else 0)
            found = filled(values(given), own)
            if n < 0:
                msg = "n < 0"
                raise PfaError(msg, own + 1)
            site.meter.spend(len(found))
            smaller = _less(site, less)
            places = ranked(found, (lambda left, right: smaller(right, left)) if largest else smaller)
            return [what(given, at) for at in places[:n]]

        return call

    LIBRARY.built(name, f"{source} -> {result}")(one)
    LIBRARY.built(f"{name}LT", f"{source}{_LESS} -> {result}")(one)
    LIBRARY.built(f"{name}N", f"{source}, int -> [{result}]")(several)
    LIBRARY.built(f"{name}NLT", f"{source}, int{_LESS} -> [{result}]")(several)


_extreme("a.max", 15240, largest=True, what=lambda given, at: given[at], result="A")
_extreme("a.min", 15250, largest=False, what=lambda given, at: given[at], result="A")
_extreme("a.argmax", 15320, largest=True, what=lambda _, at: at, result="int")
_extreme("a.argmin", 15330, largest=False, what=lambda _, at: at, result="int")
_extreme("map.argmax", 26120, largest=True, what=lambda given, at: list(given)[at], result="string")
_extreme("map.argmin", 26130, largest=False, what=lambda given, at: list(given)[at], result="string")


@LIBRARY.built("a.sort", "[A] -> [A]")
@LIBRARY.built("a.sortLT", f"[A]{_LESS} -> [A]")
def _sort(site: Site) -> Callable[..., list[Any]]:
    def call(a: list[Any], *less: Any) -> list[Any]:
        site.meter.spend(len(a))
        return [a[at] for at in ranked(a, _less(site, less))]

    return call


@LIBRARY.built("stat.sample.topN", f"A, [A], int{_LESS} -> [A]")
def _top(site: Site) -> Callable[..., list[Any]]:
    def call(x: Any, top: list[Any], n: int, less: Less) -> list[Any]:
        site.meter.spend(len(top))
        every = [*top, x]
        return [every[at] for at in ranked(every, lambda left, right: less(right, left))][: max(n, 0)]

    return call


def _middle(site: Site, code: int) -> Callable[[list[Any], float], Any]:
    """Return what finds the value below which a share of an array lies."""
    item = site.params[0].item
    compare = order(item, site)
    real = item.kind in {"float", "double"}

    def call(a: list[Any], share: float) -> Any:
        filled(a, code)
        site.meter.spend(len(a))
        line = [a[at] for at in ranked(a, lambda left, right: compare(left, right) < 0)]
        if share <= 0 or share >= 1:
            return line[0] if share <= 0 else line[-1]
        at = (len(a) - 1) * share
        low = math.floor(at)
        if not real or low == at or low + 1 >= len(line):
            return line[low]
        between = line[low] + (line[low + 1] - line[low]) * (at - low)
        return single(between) if item == FLOAT else between

    return call


@LIBRARY.built("a.median", "[A] -> A")
def _median(site: Site) -> Callable[[list[Any]], Any]:
    middle = _middle(site, 15450)
    return lambda a: middle(a, _HALF)


@LIBRARY.built("a.ntile", "[A], double -> A")
def _ntile(site: Site) -> Callable[[list[Any], float], Any]:
    middle = _middle(site, 15460)

    def call(a: list[Any], p: float) -> Any:
        if math.isnan(p):
            msg = "p not a number"
            raise PfaError(msg, 15461)
        return middle(a, p)

    return call


@LIBRARY.built("a.mode", "[A] -> A")
def _mode(site: Site) -> Callable[[list[Any]], Any]:
    same = equal(site.params[0].item, site)

    def call(a: list[Any]) -> Any:
        filled(a, 15470)
        site.meter.spend(len(a) ** 2)
        counts = [sum(same(one, other) for other in a) for one in a]
        return a[counts.index(max(counts))]

    return call


@LIBRARY.plain("a.mean", "[double] -> double")
def mean(a: list[float]) -> float:
    """Return the mean; NaN of nothing."""
    return divide(_sum(a), float(len(a)))


def _sum(a: list[float]) -> float:
    tally = 0.0
    for one in a:
        tally += one
    return tally


LIBRARY.plain("a.lnsum", "[double] -> double")(lambda a: _sum([ln(one) for one in a]))
LIBRARY.plain("a.geomean", "[double] -> double")(lambda a: exp(divide(_sum([ln(one) for one in a]), float(len(a)))))


@LIBRARY.plain("a.logsumexp", "[double] -> double")
def _log_sum_exp(a: list[float]) -> float:
    if not a:
        return math.nan
    largest: float = max(a)
    return largest + ln(_sum([exp(one - largest) for one in a])) if math.isfinite(largest) else largest
