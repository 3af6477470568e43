"""Maps: ``map.*`` without those that rank.

A set is a map whose keys are made from its values; nobody else reads them.

Source: https://dmg.org/pfa/docs/library/#lib:map
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vitrify.runtimes._pfa.library.base import Library, equal
from vitrify.runtimes._pfa.types import PfaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.runtimes._pfa.library.base import Site

LIBRARY = Library()
_BOTH = "{A}, {A} -> {A}"
_ASK = "{A}, {A} -> boolean"

LIBRARY.plain("map.len", "{A} -> int")(len)
LIBRARY.plain("map.keys", "{A} -> [string]")(list)
LIBRARY.plain("map.values", "{A} -> [A]")(lambda m: list(m.values()))
LIBRARY.plain("map.fromset", "{A} -> [A]")(lambda m: list(m.values()))
LIBRARY.plain("map.update", _BOTH)(lambda base, overlay: {**base, **overlay})
LIBRARY.plain("map.union", _BOTH)(lambda a, b: {**a, **b})
LIBRARY.plain("map.only", "{A}, [string] -> {A}")(lambda m, keys: {key: m[key] for key in m if key in set(keys)})
LIBRARY.plain("map.except", "{A}, [string] -> {A}")(
    lambda m, keys: {key: one for key, one in m.items() if key not in set(keys)}
)
LIBRARY.plain("map.remove", "{A}, string -> {A}")(lambda m, key: {one: m[one] for one in m if one != key})
LIBRARY.plain("map.split", "{A} -> [{A}]")(lambda m: [{key: one} for key, one in m.items()])
LIBRARY.plain("map.join", "[{A}] -> {A}")(lambda a: {key: one for m in a for key, one in m.items()})
LIBRARY.plain("map.intersection", _BOTH)(lambda a, b: {key: one for key, one in a.items() if key in b})
LIBRARY.plain("map.diff", _BOTH)(lambda a, b: {key: one for key, one in a.items() if key not in b})
LIBRARY.plain("map.symdiff", _BOTH)(
    lambda a, b: {key: one for key, one in {**a, **b}.items() if (key in a) != (key in b)}
)
LIBRARY.plain("map.subset", _ASK)(lambda little, big: little.keys() <= big.keys())
LIBRARY.plain("map.disjoint", _ASK)(lambda a, b: a.keys().isdisjoint(b.keys()))


@LIBRARY.plain("map.containsKey", "{A}, string -> boolean", "{A}, <string -> boolean> -> boolean")
def _contains_key(m: dict[str, Any], key: Any) -> bool:
    return any(map(key, m)) if callable(key) else key in m


@LIBRARY.built("map.containsValue", "{A}, A -> boolean", "{A}, <A -> boolean> -> boolean")
def _contains_value(site: Site) -> Callable[..., bool]:
    if site.params[1].kind == "function":
        return lambda m, test: any(map(test, m.values()))
    same = equal(site.params[1], site)

    def call(m: dict[str, Any], value: Any) -> bool:
        site.meter.spend(len(m))
        return any(same(one, value) for one in m.values())

    return call


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@LIBRARY.plain("map.add", "{A}, string, A -> {A}", "{A}, A -> {A}")
def _add(m: dict[str, Any], *item: Any) -> dict[str, Any]:
    key = item[0] if len(item) > 1 else _key(item[0])
    return {**m, key: item[-1]}


LIBRARY.plain("map.toset", "[A] -> {A}")(lambda a: {_key(one): one for one in a})
LIBRARY.plain("map.in", "{A}, A -> boolean")(lambda s, x: _key(x) in s)
LIBRARY.plain("map.map", "{A}, <A -> B> -> {B}")(lambda m, fcn: {key: fcn(one) for key, one in m.items()})
LIBRARY.plain("map.mapWithKey", "{A}, <string, A -> B> -> {B}")(
    lambda m, fcn: {key: fcn(key, one) for key, one in m.items()}
)
LIBRARY.plain("map.filter", "{A}, <A -> boolean> -> {A}")(
    lambda m, fcn: {key: one for key, one in m.items() if fcn(one)}
)
LIBRARY.plain("map.filterWithKey", "{A}, <string, A -> boolean> -> {A}")(
    lambda m, fcn: {key: one for key, one in m.items() if fcn(key, one)}
)
LIBRARY.plain("map.filterMap", "{A}, <A -> (null | B)> -> {B}")(
    lambda m, fcn: {key: found for key, one in m.items() if (found := fcn(one)) is not None}
)
LIBRARY.plain("map.filterMapWithKey", "{A}, <string, A -> (null | B)> -> {B}")(
    lambda m, fcn: {key: found for key, one in m.items() if (found := fcn(key, one)) is not None}
)
LIBRARY.plain("map.flatMap", "{A}, <A -> {B}> -> {B}")(
    lambda m, fcn: {key: part for one in m.values() for key, part in fcn(one).items()}
)
LIBRARY.plain("map.flatMapWithKey", "{A}, <string, A -> {B}> -> {B}")(
    lambda m, fcn: {key: part for name, one in m.items() for key, part in fcn(name, one).items()}
)


def _keys(maps: tuple[dict[str, Any], ...], code: int) -> list[str]:
    if any(one.keys() != maps[0].keys() for one in maps):
        msg = "misaligned maps"
        raise PfaError(msg, code)
    return list(maps[0])


def _zip(name: str, code: int, *, with_key: bool) -> None:
    letters = ("A", "B", "C", "D")
    lead = ["string"] if with_key else []

    def form(count: int) -> str:
        maps = ", ".join(f"{{{letter}}}" for letter in letters[:count])
        return f"{maps}, <{', '.join([*lead, *letters[:count]])} -> Z> -> {{Z}}"

    @LIBRARY.plain(name, *map(form, (2, 3, 4)))
    def call(*given: Any) -> dict[str, Any]:
        *maps, fcn = given
        keys = _keys(tuple(maps), code)
        return {key: fcn(*([key] if with_key else []), *(one[key] for one in maps)) for key in keys}


_zip("map.zipmap", 26370, with_key=False)
_zip("map.zipmapWithKey", 26380, with_key=True)
LIBRARY.plain("map.corresponds", "{A}, {B}, <A, B -> boolean> -> boolean")(
    lambda a, b, fcn: a.keys() == b.keys() and all(fcn(a[key], b[key]) for key in a)
)
LIBRARY.plain("map.correspondsWithKey", "{A}, {B}, <string, A, B -> boolean> -> boolean")(
    lambda a, b, fcn: a.keys() == b.keys() and all(fcn(key, a[key], b[key]) for key in a)
)
