"""What every function of the library is made of, and the order of values.

Source: https://dmg.org/pfa/docs/library/; the order is Avro's, https://avro.apache.org/docs/1.11.1/specification/#sort-order
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from vitrify.core.errors import LimitExceededError
from vitrify.runtimes._pfa.signatures import Signature, signature
from vitrify.runtimes._pfa.types import FLOAT, NUMBERS, Type, Types, number, single

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[..., Any]
    Build = Callable[["Site"], Call]

Fn = TypeVar("Fn", bound="Call")

_SIZED = frozenset({"array", "map", "string"})
_WHOLE = frozenset({"int", "long"})
_PARTS = frozenset({"union", "array", "map", "record"})
_SIMPLE = frozenset({*NUMBERS, "string", "boolean"})


class Meter:
    """How much work a row may still cause: calls, turns of loops, elements of what is made."""

    def __init__(self, most: int) -> None:
        """Start full."""
        self._most = most
        self._left = most

    def reset(self) -> None:
        """Fill it again, for the next row."""
        self._left = self._most

    def spend(self, count: int = 1) -> None:
        """Note some work.

        Raises:
            LimitExceededError: It is too much.
        """
        self._left -= count
        if self._left < 0:
            msg = f"a row causes more than {self._most} steps in this PFA document"
            raise LimitExceededError(msg, remedy="look at its loops: one of them may never end")


@dataclass(frozen=True)
class Site:
    """One call of a function in a document.

    Attributes:
        params: The arguments' types, after they were widened to the signature's.
        result: What it gives.
        types: The document's named types.
        meter: What bounds its work.
    """

    params: tuple[Type, ...]
    result: Type
    types: Types
    meter: Meter


@dataclass(frozen=True)
class Function:
    """One function.

    Attributes:
        signatures: How it can be called; the first that fits is taken.
        build: From a call's types to what is called.
    """

    signatures: tuple[Signature, ...]
    build: Build


class Library(dict[str, Function]):
    """Functions by name."""

    def plain(self, name: str, *signatures: str, overflow: int = 0) -> Callable[[Fn], Fn]:
        """Register a function of values.

        Args:
            name: As documents call it.
            signatures: How it can be called.
            overflow: The code of the error of an int that is too large; that of a long is the next.
        """

        def register(function: Fn) -> Fn:
            self.built(name, *signatures)(lambda site: _bounded(function, site, overflow))
            return function

        return register

    def built(self, name: str, *signatures: str) -> Callable[[Fn], Fn]:
        """Register what makes a function for the types of a call."""

        def register(build: Fn) -> Fn:
            self[name] = Function(tuple(map(signature, signatures)), build)
            return build

        return register


def _bounded(function: Call, site: Site, overflow: int) -> Call:
    """Return the function with its result rounded, in range, and paid for."""
    kind, spend = site.result.kind, site.meter.spend
    if site.result == FLOAT:
        return lambda *values: single(float(function(*values)))
    if kind in _WHOLE and overflow:
        return lambda *values: number(function(*values), kind, code=overflow + (kind == "long"))
    if kind not in _SIZED:
        return function

    def call(*values: Any) -> Any:
        answer = function(*values)
        spend(len(answer))
        return answer

    return call


def order(type_: Type, site: Site) -> Callable[[Any, Any], int]:
    """Return the order of a type's values: negative, 0 or positive. NaN is neither larger nor smaller than anything."""
    if type_.kind in _SIMPLE:
        return lambda left, right: (left > right) - (left < right)
    if type_.kind == "enum":
        places = {text: place for place, text in enumerate(site.types.symbols[type_.name])}
        return lambda left, right: places[left] - places[right]
    return _Order(type_, site).compare


def equal(type_: Type, site: Site) -> Callable[[Any, Any], bool]:
    """Return whether two values of a type are the same; NaN is not."""
    if type_.kind in _SIMPLE or type_.kind == "enum":
        return operator.eq
    return _Order(type_, site).same


class _Order:
    """Compares values that have parts."""

    def __init__(self, type_: Type, site: Site) -> None:
        self._type = type_
        self._types = site.types
        self._spend = site.meter.spend

    def compare(self, left: Any, right: Any) -> int:
        return self._compare(left, right, self._type)

    def same(self, left: Any, right: Any) -> bool:
        return self._same(left, right, self._type)

    def _compare(self, left: Any, right: Any, type_: Type) -> int:
        self._spend()
        match type_.kind:
            case "null":
                return 0
            case "union":
                mine, theirs = self._member(left, type_), self._member(right, type_)
                return mine - theirs or self._compare(left, right, type_.parts[mine])
            case "array" | "map" | "record":
                return self._compare_parts(left, right, type_)
            case "enum":
                symbols = self._types.symbols[type_.name]
                return symbols.index(left) - symbols.index(right)
        return int(left > right) - int(left < right)

    def _compare_parts(self, left: Any, right: Any, type_: Type) -> int:
        if type_.kind == "array":
            pairs = (self._compare(one, other, type_.item) for one, other in zip(left, right, strict=False))
            return next((one for one in pairs if one), len(left) - len(right))
        if type_.kind == "map":
            keys = sorted(left), sorted(right)
            if keys[0] != keys[1]:
                return int(keys[0] > keys[1]) - int(keys[0] < keys[1])
            parts = dict.fromkeys(keys[0], type_.item)
        else:
            parts = self._types.fields[type_.name]
        return next((one for key, part in parts.items() if (one := self._compare(left[key], right[key], part))), 0)

    def _same(self, left: Any, right: Any, type_: Type) -> bool:
        self._spend()
        if type_.kind not in _PARTS:
            return bool(left == right)
        if type_.kind == "union":
            mine = self._member(left, type_)
            return mine == self._member(right, type_) and self._same(left, right, type_.parts[mine])
        return self._same_parts(left, right, type_)

    def _same_parts(self, left: Any, right: Any, type_: Type) -> bool:
        match type_.kind:
            case "array":
                return len(left) == len(right) and all(
                    self._same(one, other, type_.item) for one, other in zip(left, right, strict=True)
                )
            case "map":
                return left.keys() == right.keys() and all(
                    self._same(left[key], right[key], type_.item) for key in left
                )
            case _:
                fields = self._types.fields[type_.name].items()
                return all(self._same(left[key], right[key], part) for key, part in fields)

    def _member(self, value: Any, union: Type) -> int:
        return next(place for place, one in enumerate(union.parts) if self._types.belongs(value, one))
