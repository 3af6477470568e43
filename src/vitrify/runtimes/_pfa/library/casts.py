"""Conversions between types, and what is done about missing values.

Source: https://dmg.org/pfa/docs/library/#lib:cast, #lib:impute, #lib:parse and #lib:enum
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from vitrify.runtimes._pfa.library.base import Library
from vitrify.runtimes._pfa.library.mathematics import rounded
from vitrify.runtimes._pfa.types import PfaError, number, single

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.runtimes._pfa.library.base import Site

LIBRARY = Library()
_BITS = 64
_LEAST_BITS = 2
_FANOUT = {"Boolean": ("boolean", 17060), "Int": ("int", 17070), "Long": ("long", 17080)}
_FANOUT |= {"Float": ("float", 17090), "Double": ("double", 17100)}

LIBRARY.plain("cast.double", "N -> double")(float)
LIBRARY.plain("cast.float", "N -> float")(float)
LIBRARY.plain("cast.int", "N -> int")(lambda x: _to_whole(x, "int", 17020))
LIBRARY.plain("cast.long", "N -> long")(lambda x: _to_whole(x, "long", 17030))


def _to_whole(x: float, kind: str, code: int) -> int:
    return int(number(x, kind, code=code)) if isinstance(x, int) else rounded(x, kind, code)


@LIBRARY.plain("cast.signed", "long, int -> long")
def _signed(x: int, bits: int) -> int:
    if not _LEAST_BITS <= bits <= _BITS:
        msg = "unrepresentable unsigned number"
        raise PfaError(msg, 17000)
    low = x & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low


@LIBRARY.plain("cast.unsigned", "long, int -> long")
def _unsigned(x: int, bits: int) -> int:
    if not 1 <= bits < _BITS:
        msg = "unrepresentable unsigned number"
        raise PfaError(msg, 17010)
    return x & ((1 << bits) - 1)


def _register_fanout(name: str, kind: str, code: int) -> None:
    yes, no = (True, False) if kind == "boolean" else (number(1, kind), number(0, kind))
    signatures = (f"enum -> [{kind}]", f"string, [string], boolean -> [{kind}]", f"int, int, int, boolean -> [{kind}]")

    @LIBRARY.built(f"cast.fanout{name}", *signatures)
    def build(site: Site) -> Callable[..., Any]:
        symbols = site.types.symbols.get(site.params[0].name, ())

        def call(x: Any, *rest: Any) -> list[Any]:
            names = symbols if not rest else rest[0] if isinstance(rest[0], list) else range(rest[0], rest[1])
            if isinstance(names, list) and len(set(names)) != len(names):
                msg = "non-distinct values in dictionary"
                raise PfaError(msg, code)
            site.meter.spend(len(names))
            more = [x not in names] if rest and rest[-1] else []
            return [yes if one == x else no for one in names] + [yes if one else no for one in more]

        return call


for _name, (_kind, _code) in _FANOUT.items():
    _register_fanout(_name, _kind, _code)


@LIBRARY.plain("impute.errorOnNull", "(null | A) -> A")
def _error_on_null(x: Any) -> Any:
    if x is None:
        msg = "encountered null"
        raise PfaError(msg, 21000)
    return x


LIBRARY.plain("impute.defaultOnNull", "(null | A), A -> A")(lambda x, default: default if x is None else x)
for _name, _test in (("isnan", math.isnan), ("isinf", math.isinf), ("isnum", math.isfinite)):
    LIBRARY.plain(f"impute.{_name}", "float -> boolean", "double -> boolean")(_test)


@LIBRARY.plain("impute.errorOnNonNum", "float -> float", "double -> double")
def _error_on_non_number(x: float) -> float:
    if math.isnan(x):
        msg = "encountered nan"
        raise PfaError(msg, 21050)
    if math.isinf(x):
        msg = f"encountered {'+' if x > 0 else '-'}inf"
        raise PfaError(msg, 21051 if x > 0 else 21052)
    return x


@LIBRARY.plain("impute.defaultOnNonNum", "float, float -> float", "double, double -> double")
def _default_on_non_number(x: float, default: float) -> float:
    return x if math.isfinite(x) else default


LIBRARY.plain("enum.toString", "enum -> string")(lambda x: x)


@LIBRARY.built("enum.toInt", "enum -> int")
def _enum_to_int(site: Site) -> Callable[[str], int]:
    places = {text: place for place, text in enumerate(site.types.symbols[site.params[0].name])}
    return places.__getitem__


@LIBRARY.built("enum.numSymbols", "enum -> int")
def _symbols(site: Site) -> Callable[[str], int]:
    count = len(site.types.symbols[site.params[0].name])
    return lambda _: count


def _register_parse_whole(kind: str, code: int) -> None:
    @LIBRARY.plain(f"parse.{kind}", f"string, int -> {kind}")
    def call(text: str, base: int) -> int:
        if not 2 <= base <= 36:  # noqa: PLR2004 (the digits there are)
            msg = "base out of range"
            raise PfaError(msg, code + 1)
        try:
            return int(number(int(text.strip(), base), kind, code=code))
        except ValueError:
            msg = "not an integer"
            raise PfaError(msg, code) from None


def _register_parse_real(kind: str, code: int) -> None:
    @LIBRARY.plain(f"parse.{kind}", f"string -> {kind}")
    def call(text: str) -> float:
        try:
            return single(float(text)) if kind == "float" else float(text)
        except ValueError:
            msg = f"not a {kind}-precision float"
            raise PfaError(msg, code) from None


_register_parse_whole("int", 33000)
_register_parse_whole("long", 33010)
_register_parse_real("float", 33020)
_register_parse_real("double", 33030)
