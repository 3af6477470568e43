"""Arrays: ``a.*`` without those that rank, which are in :mod:`.ranking`.

Source: https://dmg.org/pfa/docs/library/#lib:array
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from vitrify.runtimes._pfa.library.base import Library, equal
from vitrify.runtimes._pfa.types import FLOAT, PfaError, number, single

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.runtimes._pfa.library.base import Site

LIBRARY = Library()
_SAME = "[A] -> [A]"
_FUNCTION = Any

LIBRARY.plain("a.len", "[A] -> int")(len)
LIBRARY.plain("a.subseq", "[A], int, int -> [A]")(lambda a, start, end: a[start:end])
LIBRARY.plain("a.reverse", _SAME)(lambda a: a[::-1])
LIBRARY.plain("a.concat", "[A], [A] -> [A]")(lambda a, b: a + b)
LIBRARY.plain("a.append", "[A], A -> [A]")(lambda a, item: [*a, item])
LIBRARY.plain("a.flatten", "[[A]] -> [A]")(lambda a: list(itertools.chain.from_iterable(a)))


def filled(a: list[Any], code: int) -> list[Any]:
    """Return an array that is not empty.

    Raises:
        PfaError: It is.
    """
    if not a:
        msg = "empty array"
        raise PfaError(msg, code)
    return a


LIBRARY.plain("a.head", "[A] -> A")(lambda a: filled(a, 15020)[0])
LIBRARY.plain("a.tail", _SAME)(lambda a: filled(a, 15030)[1:])
LIBRARY.plain("a.last", "[A] -> A")(lambda a: filled(a, 15040)[-1])
LIBRARY.plain("a.init", _SAME)(lambda a: filled(a, 15050)[:-1])


@LIBRARY.plain("a.subseqto", "[A], int, int, [A] -> [A]")
def _replace_part(a: list[Any], start: int, end: int, replacement: list[Any]) -> list[Any]:
    first, last, _ = slice(start, end).indices(len(a))
    return [*a[:first], *replacement, *a[max(first, last) :]]


def _place(a: list[Any], index: int, code: int, most: int) -> int:
    at = index + len(a) if index < 0 else index
    if not 0 <= at < most:
        msg = "index out of range"
        raise PfaError(msg, code)
    return at


@LIBRARY.plain("a.insert", "[A], int, A -> [A]")
def _insert(a: list[Any], index: int, item: Any) -> list[Any]:
    at = _place(a, index, 15160, len(a) + 1)
    return [*a[:at], item, *a[at:]]


@LIBRARY.plain("a.replace", "[A], int, A -> [A]")
def _replace(a: list[Any], index: int, item: Any) -> list[Any]:
    at = _place(a, index, 15170, len(a))
    return [*a[:at], item, *a[at + 1 :]]


@LIBRARY.plain("a.remove", "[A], int -> [A]", "[A], int, int -> [A]")
def _remove(a: list[Any], start: int, end: int | None = None) -> list[Any]:
    if end is None:
        at = _place(a, start, 15180, len(a))
        return a[:at] + a[at + 1 :]
    return _replace_part(a, start, end, [])


@LIBRARY.plain("a.cycle", "[A], A, int -> [A]")
def _cycle(a: list[Any], item: Any, most: int) -> list[Any]:
    if most < 0:
        msg = "maxLength out of range"
        raise PfaError(msg, 15150)
    return [*a, item][-most:] if most else []


@LIBRARY.plain("a.rotate", "[A], int -> [A]")
def _rotate(a: list[Any], steps: int) -> list[Any]:
    if steps < 0:
        msg = "steps out of range"
        raise PfaError(msg, 15190)
    at = steps % len(a) if a else 0
    return a[at:] + a[:at]


# Searching. A needle is an element, a part or a test.


def _matcher(site: Site) -> tuple[Callable[[Any, Any, int], bool], bool]:
    """Return whether a needle is at a place, and whether it is a part."""
    array, needle = site.params
    if needle.kind == "function":
        return lambda hay, test, at: test(hay[at]), False
    same = equal(array if needle == array else array.item, site)
    if needle == array:
        return lambda hay, part, at: same(hay[at : at + len(part)], part), True
    return lambda hay, item, at: same(hay[at], item), False


def _search(name: str, result: str, find: Callable[[Any], Any]) -> None:
    forms = ["[A], [A]", "[A], A"] + ([] if name.endswith("with") else ["[A], <A -> boolean>"])

    @LIBRARY.built(f"a.{name}", *(f"{form} -> {result}" for form in forms))
    def build(site: Site) -> Callable[[Any, Any], Any]:
        matches, is_part = _matcher(site)

        def call(hay: list[Any], needle: Any) -> Any:
            last = len(hay) - (len(needle) if is_part else 1) + 1
            site.meter.spend(len(hay))
            return find((lambda at: 0 <= at < last and matches(hay, needle, at), range(max(last, 0))))

        return call


_search("contains", "boolean", lambda found: any(map(found[0], found[1])))
_search("count", "int", lambda found: sum(map(found[0], found[1])))
_search("index", "int", lambda found: next((at for at in found[1] if found[0](at)), -1))
_search("rindex", "int", lambda found: next((at for at in reversed(found[1]) if found[0](at)), -1))
_search("startswith", "boolean", lambda found: found[0](0))
_search("endswith", "boolean", lambda found: found[0](len(found[1]) - 1))


# With a function.

LIBRARY.plain("a.map", "[A], <A -> B> -> [B]")(lambda a, fcn: [fcn(one) for one in a])
LIBRARY.plain("a.mapWithIndex", "[A], <int, A -> B> -> [B]")(lambda a, fcn: [fcn(at, one) for at, one in enumerate(a)])
LIBRARY.plain("a.filter", "[A], <A -> boolean> -> [A]")(lambda a, fcn: [one for one in a if fcn(one)])
LIBRARY.plain("a.filterWithIndex", "[A], <int, A -> boolean> -> [A]")(
    lambda a, fcn: [one for at, one in enumerate(a) if fcn(at, one)]
)
LIBRARY.plain("a.filterMap", "[A], <A -> (null | B)> -> [B]")(
    lambda a, fcn: [found for one in a if (found := fcn(one)) is not None]
)
LIBRARY.plain("a.filterMapWithIndex", "[A], <int, A -> (null | B)> -> [B]")(
    lambda a, fcn: [found for at, one in enumerate(a) if (found := fcn(at, one)) is not None]
)
LIBRARY.plain("a.flatMap", "[A], <A -> [B]> -> [B]")(lambda a, fcn: [part for one in a for part in fcn(one)])
LIBRARY.plain("a.flatMapWithIndex", "[A], <int, A -> [B]> -> [B]")(
    lambda a, fcn: [part for at, one in enumerate(a) for part in fcn(at, one)]
)
LIBRARY.plain("a.any", "[A], <A -> boolean> -> boolean")(lambda a, fcn: any(map(fcn, a)))
LIBRARY.plain("a.all", "[A], <A -> boolean> -> boolean")(lambda a, fcn: all(map(fcn, a)))
LIBRARY.plain("a.takeWhile", "[A], <A -> boolean> -> [A]")(lambda a, fcn: list(itertools.takewhile(fcn, a)))
LIBRARY.plain("a.dropWhile", "[A], <A -> boolean> -> [A]")(lambda a, fcn: list(itertools.dropwhile(fcn, a)))


def _together(arrays: tuple[list[Any], ...], code: int) -> Any:
    if len({len(one) for one in arrays}) != 1:
        msg = "misaligned arrays"
        raise PfaError(msg, code)
    return zip(*arrays, strict=True)


@LIBRARY.plain(
    "a.zipmap",
    "[A], [B], <A, B -> Z> -> [Z]",
    "[A], [B], [C], <A, B, C -> Z> -> [Z]",
    "[A], [B], [C], [D], <A, B, C, D -> Z> -> [Z]",
)
def _zip_map(*given: Any) -> list[Any]:
    *arrays, fcn = given
    return [fcn(*ones) for ones in _together(tuple(arrays), 15650)]


@LIBRARY.plain(
    "a.zipmapWithIndex",
    "[A], [B], <int, A, B -> Z> -> [Z]",
    "[A], [B], [C], <int, A, B, C -> Z> -> [Z]",
    "[A], [B], [C], [D], <int, A, B, C, D -> Z> -> [Z]",
)
def _zip_map_with_index(*given: Any) -> list[Any]:
    *arrays, fcn = given
    return [fcn(at, *ones) for at, ones in enumerate(_together(tuple(arrays), 15660))]


@LIBRARY.plain("a.corresponds", "[A], [B], <A, B -> boolean> -> boolean")
def _corresponds(a: list[Any], b: list[Any], fcn: _FUNCTION) -> bool:
    return len(a) == len(b) and all(map(fcn, a, b))


@LIBRARY.plain("a.reduce", "[A], <A, A -> A> -> A")
def _reduce(a: list[Any], fcn: _FUNCTION) -> Any:
    tally, *rest = filled(a, 15670)
    for one in rest:
        tally = fcn(tally, one)
    return tally


@LIBRARY.plain("a.reduceRight", "[A], <A, A -> A> -> A")
def _reduce_right(a: list[Any], fcn: _FUNCTION) -> Any:
    *rest, tally = filled(a, 15680)
    for one in reversed(rest):
        tally = fcn(one, tally)
    return tally


@LIBRARY.plain("a.fold", "[A], B, <B, A -> B> -> B")
def _fold(a: list[Any], zero: Any, fcn: _FUNCTION) -> Any:
    for one in a:
        zero = fcn(zero, one)
    return zero


@LIBRARY.plain("a.foldRight", "[A], B, <A, B -> B> -> B")
def _fold_right(a: list[Any], zero: Any, fcn: _FUNCTION) -> Any:
    for one in reversed(a):
        zero = fcn(one, zero)
    return zero


@LIBRARY.plain("a.groupby", "[A], <A -> string> -> {[A]}")
def _group_by(a: list[Any], fcn: _FUNCTION) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for one in a:
        groups.setdefault(fcn(one), []).append(one)
    return groups


# Parts.


@LIBRARY.built("a.slidingWindow", "[A], int, int -> [[A]]")
def _sliding(site: Site) -> Callable[..., list[list[Any]]]:
    def call(a: list[Any], size: int, step: int) -> list[list[Any]]:
        if size < 1 or step < 1:
            msg = "size < 1" if size < 1 else "step < 1"
            raise PfaError(msg, 15770 if size < 1 else 15771)
        starts = range(0, len(a) - size + 1, step)
        site.meter.spend(len(starts) * size)
        return [a[at : at + size] for at in starts]

    return call


@LIBRARY.built("a.combinations", "[A], int -> [[A]]")
def _combinations(site: Site) -> Callable[..., list[list[Any]]]:
    def call(a: list[Any], size: int) -> list[list[Any]]:
        if size < 1:
            msg = "size < 1"
            raise PfaError(msg, 15780)
        site.meter.spend(math.comb(len(a), size) * size)
        return [list(one) for one in itertools.combinations(a, size)]

    return call


@LIBRARY.built("a.permutations", "[A] -> [[A]]")
def _permutations(site: Site) -> Callable[..., list[list[Any]]]:
    def call(a: list[Any]) -> list[list[Any]]:
        count = 1
        for size in range(1, len(a) + 1):
            count *= size
            site.meter.spend(count)
        site.meter.spend(count * len(a))
        return [list(one) for one in itertools.permutations(a)]

    return call


# Sums.


def _total(name: str, zero: int, step: Callable[[Any, Any], Any], code: int) -> None:
    @LIBRARY.built(f"a.{name}", "[N] -> N")
    def build(site: Site) -> Callable[[list[Any]], Any]:
        kind = site.result.kind

        def whole(a: list[Any]) -> Any:
            tally = zero
            for one in a:
                tally = number(step(tally, one), kind, code=code + (kind == "long"))
            return tally

        def real(a: list[Any]) -> Any:
            tally = float(zero)
            for one in a:
                tally = step(tally, one)
            return tally

        def rounded(a: list[Any]) -> Any:
            tally = float(zero)
            for one in a:
                tally = single(step(tally, one))
            return tally

        return whole if kind in {"int", "long"} else rounded if site.result == FLOAT else real


_total("sum", 0, lambda x, y: x + y, 15400)
_total("product", 1, lambda x, y: x * y, 15410)


# Sets. An element is there once, the first time.


def _distinct(a: list[Any], same: Callable[[Any, Any], bool], spend: Callable[[int], None]) -> list[Any]:
    found: list[Any] = []
    for one in a:
        spend(len(found) + 1)
        if not any(same(one, other) for other in found):
            found.append(one)
    return found


def _set(name: str, form: str, join: Callable[[list[Any], list[Any], Callable[[Any, list[Any]], bool]], Any]) -> None:
    @LIBRARY.built(f"a.{name}", form)
    def build(site: Site) -> Callable[..., Any]:
        same, spend = equal(site.params[0].item, site), site.meter.spend

        def has(one: Any, among: list[Any]) -> bool:
            spend(len(among))
            return any(same(one, other) for other in among)

        return lambda a, b=(): join(_distinct(a, same, spend), _distinct(b, same, spend), has)


_JOIN, _ASK = "[A], [A] -> [A]", "[A], [A] -> boolean"
_set("distinct", _SAME, lambda a, _b, _has: a)
_set("union", _JOIN, lambda a, b, has: a + [one for one in b if not has(one, a)])
_set("intersection", _JOIN, lambda a, b, has: [one for one in a if has(one, b)])
_set("diff", _JOIN, lambda a, b, has: [one for one in a if not has(one, b)])
_set(
    "symdiff",
    _JOIN,
    lambda a, b, has: [one for one in a if not has(one, b)] + [one for one in b if not has(one, a)],
)
_set("subset", _ASK, lambda a, b, has: all(has(one, b) for one in a))
_set("disjoint", _ASK, lambda a, b, has: not any(has(one, b) for one in a))
_set("seteq", _ASK, lambda a, b, has: all(has(one, b) for one in a) and all(has(one, a) for one in b))
