"""Avro's types as PFA uses them.

Source: https://dmg.org/pfa/docs/avro_types/
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

NUMBERS = ("int", "long", "float", "double")
_PRIMITIVES = frozenset({*NUMBERS, "null", "boolean", "string", "bytes"})
_LIMITS = {"int": 1 << 31, "long": 1 << 63}
_DEEPEST = 64
_SINGLE = struct.Struct("<f")
_PARTS = {"record": "fields", "enum": "symbols"}
_WRITTEN = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}


class PfaError(Exception):
    """A run-time error of the language, with its standard code.

    Source: https://dmg.org/pfa/docs/library/ (each function lists its codes).
    """

    def __init__(self, message: str, code: int = 0) -> None:
        """Keep both."""
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Type:
    """One type; a named one is known by its name, and its parts by :class:`Types`.

    Attributes:
        kind: ``int``, ``array``, ``union``, ``record``, ``function`` ...
        name: Of a record, an enumeration or fixed bytes.
        parts: Of an array or map its element; of a union its members; of a function its parameters and its result.
    """

    kind: str
    name: str = ""
    parts: tuple[Type, ...] = ()

    def __str__(self) -> str:
        """Return it as the language writes it, shortened."""
        if self.name:
            return self.name
        inner = ", ".join(map(str, self.parts))
        return f"{self.kind}({inner})" if inner else self.kind

    @property
    def item(self) -> Type:
        """The element of an array or a map."""
        return self.parts[0]

    @property
    def numeric(self) -> bool:
        """Whether it is a number."""
        return self.kind in NUMBERS


NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, STRING, NOTHING = (
    Type(kind) for kind in ("null", "boolean", "int", "long", "float", "double", "string", "nothing")
)
"""The last is the type of what never comes back: an error."""


def array(item: Type) -> Type:
    """Return the type of arrays of something."""
    return Type("array", parts=(item,))


def function(*parts: Type) -> Type:
    """Return the type of a function: its parameters, then its result."""
    return Type("function", parts=parts)


@dataclass
class Types:
    """The named types of one document."""

    fields: dict[str, dict[str, Type]] = field(default_factory=dict)
    symbols: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _written: dict[str, dict[str, Any]] = field(default_factory=dict)

    def note(self, document: Any) -> None:
        """Note every named type of a document: it may be used before the place where it is declared."""
        left = [document]
        while left:
            one = left.pop()
            if isinstance(one, list):
                left += one
            elif isinstance(one, dict):
                kind, name = one.get("type"), one.get("name")
                if isinstance(kind, str) and isinstance(name, str) and _PARTS.get(kind) in one:
                    self._written.setdefault(name.rpartition(".")[2], one)
                left += (value for key, value in one.items() if key != "init")

    def read(self, written: Any, where: str, depth: int = 0) -> Type:
        """Return a type as it is written.

        Raises:
            MalformedError: It is none.
        """
        if depth > _DEEPEST:
            refuse(where, f"types within types, more than {_DEEPEST} deep")
        if isinstance(written, str):
            return self._named(written, where)
        if isinstance(written, list):
            return Type("union", parts=tuple(self.read(one, where, depth + 1) for one in written))
        if not isinstance(written, dict) or not isinstance(kind := written.get("type"), (str, dict, list)):
            refuse(where, f"{written!r:.80} is no type")
        match kind:
            case "array":
                return array(self.read(written.get("items"), where, depth + 1))
            case "map":
                return Type("map", parts=(self.read(written.get("values"), where, depth + 1),))
            case "record" | "enum" | "fixed":
                return self._declare(kind, written, where, depth)
            case _:
                return self.read(kind, where, depth + 1)

    def _named(self, name: str, where: str) -> Type:
        if name in _PRIMITIVES:
            return Type(name)
        short = name.rpartition(".")[2]
        for kind, known in (("record", self.fields), ("enum", self.symbols)):
            if short in known:
                return Type(kind, short)
        if short not in self._written:
            refuse(where, f"a type {name!r:.80} that nothing declares")
        return self.read(self._written[short], where)

    def _declare(self, kind: str, written: dict[str, Any], where: str, depth: int) -> Type:
        name, parts = written.get("name"), written.get(_PARTS.get(kind, ""))
        if not isinstance(name, str) or not isinstance(parts, list):
            refuse(where, f"a {kind} without a name or parts, or of bytes")
        name = name.rpartition(".")[2]
        if name in self.fields or name in self.symbols:
            if self._written.get(name) != written:
                refuse(where, f"the type {name!r:.80} is declared twice, each time differently")
            return Type(kind, name)
        self._written[name] = written
        if kind == "enum":
            self.symbols[name] = tuple(map(str, parts))
            return Type(kind, name)
        self.fields[name] = {}  # it may hold itself
        for one in parts:
            if not isinstance(one, dict) or not isinstance(one.get("name"), str):
                refuse(where, f"a field of {name!r:.80} without a name")
            self.fields[name][one["name"]] = self.read(one.get("type"), where, depth + 1)
        return Type(kind, name)

    def value(self, data: Any, type_: Type, where: str, depth: int = 0) -> Any:
        """Return JSON data as a value of a type: unions untagged, floats rounded.

        Raises:
            MalformedError: It is none.
        """
        if depth > _DEEPEST * 8:
            refuse(where, "values within values, too deep")
        if type_.kind == "union":
            return self._member(data, type_, where, depth)
        if type_.numeric and isinstance(data, (int, float)) and not isinstance(data, bool):
            return number(data, type_.kind, where)
        if type_.kind in {"float", "double"} and isinstance(data, str) and data in _WRITTEN:
            return float(_WRITTEN[data])
        if type_.kind == "array" and isinstance(data, list):
            return [self.value(one, type_.item, where, depth + 1) for one in data]
        if isinstance(data, dict) and type_.kind in {"map", "record"}:
            return self._parts(data, type_, where, depth)
        if not self.belongs(data, type_):
            refuse(where, f"{data!r:.80} is no {type_}")
        return data

    def _parts(self, data: dict[str, Any], type_: Type, where: str, depth: int) -> dict[str, Any]:
        if type_.kind == "map":
            return {key: self.value(one, type_.item, where, depth + 1) for key, one in data.items()}
        fields = self.fields[type_.name]
        if missing := fields.keys() - data.keys():
            refuse(where, f"a {type_.name} without {sorted(missing)!s:.200}")
        return {key: self.value(data[key], one, where, depth + 1) for key, one in fields.items()}

    def _member(self, data: Any, union: Type, where: str, depth: int) -> Any:
        tagged = next(iter(data)) if isinstance(data, dict) and len(data) == 1 else None
        one = next((one for one in union.parts if tagged in {str(one), one.kind} and tagged is not None), None)
        if one is not None and (one.kind != "record" or tagged == one.name):
            return self.value(data[tagged], one, where, depth + 1)
        number_ = isinstance(data, (int, float)) and not isinstance(data, bool)
        one = next((one for one in union.parts if self.belongs(data, one) or (one.numeric and number_)), None)
        if one is None:
            refuse(where, f"{data!r:.80} is none of {union}")
        return self.value(data, one, where, depth + 1)

    def belongs(self, value: Any, type_: Type) -> bool:
        """Say whether a value is of a type: which member of a union it is."""
        match type_.kind:
            case "union":
                return any(self.belongs(value, one) for one in type_.parts)
            case "array":
                return isinstance(value, list) and all(self.belongs(one, type_.item) for one in value)
            case "map":
                return isinstance(value, dict) and all(self.belongs(one, type_.item) for one in value.values())
            case "record":
                return self._is_record(value, self.fields[type_.name])
            case "enum":
                return isinstance(value, str) and value in self.symbols[type_.name]
        return _is_simple(value, type_.kind)

    def _is_record(self, value: Any, fields: dict[str, Type]) -> bool:
        if not isinstance(value, dict) or value.keys() != fields.keys():
            return False
        return all(self.belongs(value[key], one) for key, one in fields.items())


_CLASSES = {"float": float, "double": float, "string": str, "boolean": bool, "null": type(None)}


def _is_simple(value: Any, kind: str) -> bool:
    limit = _LIMITS.get(kind)
    if limit is None:
        return isinstance(value, _CLASSES.get(kind, ()))
    return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit


def number(value: float, kind: str, where: str = "", *, code: int = 18000) -> Any:
    """Return a number as a type holds it.

    Args:
        value: The number.
        kind: The type's name.
        where: For messages, where it was read.
        code: The error's where a whole number is too large.

    Raises:
        PfaError: A whole number is beyond the type's range.
        MalformedError: It is not whole, and the type is.
    """
    if kind == "double":
        return float(value)
    if kind == "float":
        return single(float(value))
    if isinstance(value, float) and (not math.isfinite(value) or value != int(value)):
        refuse(where, f"{value} is no {kind}")
    if not -_LIMITS[kind] <= value < _LIMITS[kind]:
        msg = f"{kind} overflow"
        raise PfaError(msg, code)
    return int(value)


def single(value: float) -> float:
    """Return a number rounded to single precision."""
    try:
        rounded: float = _SINGLE.unpack(_SINGLE.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def promoted(*types: Type) -> Type | None:
    """Return the widest of some numbers; None where one is none."""
    if not all(one.numeric for one in types):
        return None
    return max(types, key=lambda one: NUMBERS.index(one.kind))


def accepts(wanted: Type, given: Type) -> bool:
    """Say whether a value of one type may stand where another is wanted.

    Source: https://dmg.org/pfa/docs/avro_types/ (type promotion: int to long to float to double; members to unions).
    """
    if given in {wanted, NOTHING}:
        return True
    if wanted.kind == "union":
        members = given.parts if given.kind == "union" else (given,)
        return all(any(accepts(one, member) for one in wanted.parts) for member in members)
    if wanted.numeric and given.numeric:
        return NUMBERS.index(given.kind) <= NUMBERS.index(wanted.kind)
    if wanted.kind == given.kind and wanted.kind in {"array", "map"}:
        return accepts(wanted.item, given.item)
    if wanted.kind == given.kind == "function" and len(wanted.parts) == len(given.parts):
        pairs = list(zip(wanted.parts, given.parts, strict=True))
        return all(accepts(theirs, ours) for ours, theirs in pairs[:-1]) and accepts(*pairs[-1])
    return False


def common(types: Iterable[Type]) -> Type:
    """Return the narrowest type that takes them all; a union where there is no other."""
    found: list[Type] = []
    for one in types:
        for member in one.parts if one.kind == "union" else (one,):
            if member == NOTHING or any(accepts(known, member) for known in found):
                continue
            found = [known for known in found if not accepts(member, known)] + [member]
    if not found:
        return NOTHING
    return found[0] if len(found) == 1 else Type("union", parts=tuple(found))


def converter(wanted: Type, given: Type, types: Types) -> Callable[[Any], Any] | None:
    """Return what makes a value of one type one of another that accepts it; None where it is one already."""
    if given in {wanted, NOTHING}:
        return None
    if wanted.kind == "union":
        return _to_member(wanted, given, types)
    if wanted.numeric and given.numeric:
        return _to_number(wanted, given)
    return _to_parts(wanted, given, types)


def _to_number(wanted: Type, given: Type) -> Callable[[Any], Any] | None:
    if wanted == FLOAT:
        return lambda value: single(float(value))
    return float if wanted == DOUBLE and given != FLOAT else None


def _to_parts(wanted: Type, given: Type, types: Types) -> Callable[[Any], Any] | None:
    if wanted.kind in {"array", "map"} and (inner := converter(wanted.item, given.item, types)):
        if wanted.kind == "array":
            return lambda value: [inner(one) for one in value]
        return lambda value: {key: inner(one) for key, one in value.items()}
    if wanted.kind == "function" and (result := converter(wanted.parts[-1], given.parts[-1], types)):
        return lambda call: lambda *values: result(call(*values))
    return None


def _to_member(wanted: Type, given: Type, types: Types) -> Callable[[Any], Any] | None:
    members = given.parts if given.kind == "union" else (given,)
    steps = [(one, converter(_member_of(wanted, one), one, types)) for one in members]
    if not any(step for _, step in steps):
        return None

    def convert(value: Any) -> Any:
        for one, step in steps:
            if types.belongs(value, one):
                return step(value) if step else value
        return value

    return convert


def _member_of(union: Type, one: Type) -> Type:
    return one if one in union.parts else next(member for member in union.parts if accepts(member, one))
