"""Signatures of the library's functions, and what they are with the arguments of one call.

They are written short: ``[N], <N, N -> N> -> N``. ``[X]`` is an array, ``{X}`` a map, ``<A, B -> C>`` a function,
``(null | A)`` a union, ``R{x: double}`` a record that has at least those fields. A capital letter stands for any type,
the same one wherever it stands; ``N`` for a number and ``I`` for a whole number, widened to what all arguments fit in.

Source: https://dmg.org/pfa/docs/library/ (each function's signatures), https://dmg.org/pfa/docs/types/
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from vitrify.runtimes._pfa.types import LONG, NOTHING, NUMBERS, Type, Types, accepts, promoted

if TYPE_CHECKING:
    from collections.abc import Sequence

Bound = dict[str, Type]
_TOKEN = re.compile(r"\s*(->|[\[\]{}<>()|,:]|\w+)")
_PAIRS = {"[": ("array", "]"), "{": ("map", "}")}


@dataclass(frozen=True)
class Pattern:
    """A type with letters in it.

    Attributes:
        kind: A type's kind, or ``any`` for a letter.
        name: The letter.
        parts: As a type's.
        fields: Of a record: names and patterns.
    """

    kind: str
    name: str = ""
    parts: tuple[Pattern, ...] = ()
    fields: tuple[tuple[str, Pattern], ...] = ()


@dataclass(frozen=True)
class Signature:
    """One way in which a function can be called."""

    params: tuple[Pattern, ...]
    result: Pattern


@cache
def signature(text: str) -> Signature:
    """Return a signature as it is written."""
    reader = _Reader(_TOKEN.findall(text))
    params, result = reader.function("")
    return Signature(params, result)


class _Reader:
    """Reads what this package wrote itself: a slip is a fault of ours, and raises what it raises."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = [*tokens, ""]
        self._at = 0

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def function(self, end: str) -> tuple[tuple[Pattern, ...], Pattern]:
        """Read parameters, an arrow and a result, and what ends them."""
        params = []
        while self._tokens[self._at] != "->":
            params.append(self._pattern())
            if self._tokens[self._at] == ",":
                self._next()
        self._next()
        result = self._pattern()
        assert self._next() == end
        return tuple(params), result

    def _pattern(self) -> Pattern:
        mark = self._next()
        if mark in _PAIRS:
            kind, end = _PAIRS[mark]
            inner = self._pattern()
            assert self._next() == end
            return Pattern(kind, parts=(inner,))
        if mark == "<":
            params, result = self.function(">")
            return Pattern("function", parts=(*params, result))
        if mark == "(":
            parts = [self._pattern()]
            while self._next() == "|":
                parts.append(self._pattern())
            return Pattern("union", parts=tuple(parts))
        if len(mark) > 1:
            return Pattern(mark)
        if self._tokens[self._at] == "{":
            return Pattern("record", mark, fields=tuple(self._fields()))
        return Pattern("any", mark)

    def _fields(self) -> list[tuple[str, Pattern]]:
        self._next()
        fields = []
        while self._tokens[self._at] != "}":
            name, _ = self._next(), self._next()
            fields.append((name, self._pattern()))
            if self._tokens[self._at] == ",":
                self._next()
        self._next()
        return fields


def fits(pattern: Pattern, given: Type, bound: Bound, types: Types) -> bool:
    """Say whether a type fits, and remember in ``bound`` what the letters stand for."""
    match pattern.kind:
        case "any":
            return _binds(pattern.name, given, bound)
        case "record":
            return _is_record(pattern, given, bound, types)
        case "union":
            return _is_union(pattern, given, bound, types)
        case "array" | "map":
            return given.kind == pattern.kind and fits(pattern.parts[0], given.item, bound, types)
        case "function":
            pairs = zip(pattern.parts, given.parts, strict=False)
            return (
                given.kind == "function"
                and len(given.parts) == len(pattern.parts)
                and all(fits(one, theirs, bound, types) for one, theirs in pairs)
            )
    return accepts(Type(pattern.kind), given) or (pattern.kind == "enum" == given.kind)


def filled(pattern: Pattern, bound: Bound) -> Type:
    """Return the type that a pattern is, with what its letters stand for."""
    if pattern.kind in {"any", "record"}:
        return bound[pattern.name]
    if pattern.kind == "union":
        parts: list[Type] = []
        for one in pattern.parts:
            type_ = filled(one, bound)
            parts += type_.parts if type_.kind == "union" else (type_,)
        return Type("union", parts=tuple(dict.fromkeys(parts)))
    return Type(pattern.kind, parts=tuple(filled(one, bound) for one in pattern.parts))


def known(parts: Sequence[Pattern], bound: Bound) -> bool:
    """Say whether all their letters stand for something."""
    return all(one.name in bound if one.kind in {"any", "record"} else known(one.parts, bound) for one in parts)


def _binds(letter: str, given: Type, bound: Bound) -> bool:
    if given.kind == "function":
        return False
    if letter in {"N", "I"} and given != NOTHING:
        widest = LONG if letter == "I" else Type(NUMBERS[-1])
        if not given.numeric or not accepts(widest, given):
            return False
    before = bound.get(letter, given)
    if accepts(before, given):
        bound[letter] = before
        return True
    wider = promoted(before, given) or (given if accepts(given, before) else None)
    if wider is None:
        return False
    bound[letter] = wider
    return True


def _is_record(pattern: Pattern, given: Type, bound: Bound, types: Types) -> bool:
    if given.kind != "record" or not _binds(pattern.name, given, bound):
        return False
    fields = types.fields[given.name]
    return all(name in fields and fits(one, fields[name], bound, types) for name, one in pattern.fields)


def _is_union(pattern: Pattern, given: Type, bound: Bound, types: Types) -> bool:
    """Take away the members that are known; the rest is what the one open letter stands for."""
    rest = list(given.parts) if given.kind == "union" else [given]
    fresh = []
    for one in pattern.parts:
        if one.kind == "any" and one.name not in bound:
            fresh.append(one)
            continue
        type_ = filled(one, bound)
        rest = [member for member in rest if member != type_ and not accepts(type_, member)]
    if not fresh:
        return not rest
    open_ = NOTHING if not rest else rest[0] if len(rest) == 1 else Type("union", parts=tuple(rest))
    return fits(fresh[0], open_, bound, types)
