"""What the bytes of attributes and types mean, in the dialects ``builtin`` and ``vhlo`` (versioned StableHLO).

Source: ``BuiltinDialectBytecode.td`` of https://github.com/llvm/llvm-project and ``VhloBytecode.cpp`` of
https://github.com/openxla/stablehlo, whose codes never change. What is not needed here, and what other dialects wrote,
is not looked into.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.formats._stablehlo.module import Type
from vitrify.reading.malformed import refuse
from vitrify.reading.mlir import Cursor

if TYPE_CHECKING:
    from vitrify.reading.mlir import Bytecode, Entry

_DYNAMIC = -(1 << 63)
_MOST_DIMENSIONS = 64
_DEEPEST = 8

_VHLO_NAMES = {
    0: "i1", 2: "bf16", 3: "f16", 4: "f32", 5: "f64", 6: "f8E4M3FN", 7: "f8E5M2", 9: "index", 10: "i4", 11: "i8",
    12: "i16", 13: "i32", 14: "i64", 15: "ui4", 16: "ui8", 17: "ui16", 18: "ui32", 19: "ui64", 22: "token",
    26: "witness", 27: "f8E4M3FNUZ", 28: "f8E5M2FNUZ", 29: "f8E4M3B11FNUZ", 31: "i2", 32: "ui2", 33: "none",
    34: "tf32", 35: "f8E4M3", 36: "f8E3M4", 37: "f4E2M1FN", 38: "f6E2M3FN", 39: "f6E3M2FN", 40: "f8E8M0FNU",
}  # fmt: skip
_VHLO_KINDS = {
    1: "complex", 8: "function", 20: "tensor", 21: "encoded", 23: "tuple", 24: "quantised", 25: "unranked",
    30: "quantised", 41: "tensor", 42: "future",
}  # fmt: skip
_BUILTIN_NAMES = {
    1: "index", 3: "bf16", 4: "f16", 5: "f32", 6: "f64", 7: "f80", 8: "f128", 12: "none",
}  # fmt: skip
_BUILTIN_KINDS = {0: "integer", 2: "function", 9: "complex", 13: "tensor", 14: "encoded", 15: "tuple", 18: "unranked"}
_QUANT = "quant"
_SIGNS = {1: "si", 2: "ui"}

_TEXTS = {("builtin", 2): False, ("builtin", 3): False, ("vhlo", 14): False, ("builtin", 4): True}
"""Codes of attributes that are text; those of ``True`` lead to another attribute that is."""
_LISTS = {("builtin", 0), ("vhlo", 1)}
_DICTIONARIES = {("builtin", 1), ("vhlo", 6)}
_TYPES = {("builtin", 6), ("vhlo", 17)}


class Meaning:
    """The attributes and types of one file, by index."""

    def __init__(self, code: Bytecode, where: str) -> None:
        """Take what was read; nothing is decoded yet."""
        self.code, self.where = code, where
        self.known: dict[int, Type] = {}

    def text(self, index: int, depth: int = 0) -> str | None:
        """Return the text that an attribute is or, a symbol, names; None where it is something else."""
        entry = self._attribute(index)
        if not entry.encoded:
            text = bytes(entry.data[:4096]).rstrip(b"\0").decode("utf-8", "replace")
            return text.strip('@"') if text[:1] in {'"', "@"} else None
        cursor = Cursor(entry.data, self.where)
        leads = _TEXTS.get((entry.dialect, cursor.number()))
        if leads is None:
            return None
        if leads:
            return self.text(cursor.number(), depth + 1) if depth < _DEEPEST else None
        return self.code.strings[cursor.index(len(self.code.strings), "string")]

    def dictionary(self, index: int) -> dict[str, int]:
        """Return the attributes by name that an attribute holds; none where it is no dictionary."""
        entry = self._attribute(index)
        cursor = Cursor(entry.data, self.where)
        if not entry.encoded or (entry.dialect, cursor.number()) not in _DICTIONARIES:
            return {}
        pairs = [(cursor.number(), cursor.number()) for _ in range(self._bounded(cursor.number(), entry))]
        return {self.text(name) or "": value for name, value in pairs}

    def type_of(self, index: int) -> int | None:
        """Return the type that an attribute is; None where it is something else."""
        entry = self._attribute(index)
        cursor = Cursor(entry.data, self.where)
        return cursor.number() if entry.encoded and (entry.dialect, cursor.number()) in _TYPES else None

    def outputs(self, index: int) -> list[Type]:
        """Return what a type of functions gives."""
        entry = self._type(index)
        cursor = Cursor(entry.data, self.where)
        if not entry.encoded or _kind(entry, cursor.number()) != "function":
            return []
        for _ in range(self._bounded(cursor.number(), entry)):
            cursor.number()
        return [self.type(cursor.number()) for _ in range(self._bounded(cursor.number(), entry))]

    def type(self, index: int, depth: int = 0) -> Type:
        """Return a type; where it is made of others more than eight deep, or of itself, that is not said."""
        if depth > _DEEPEST:
            return Type("?")
        if index not in self.known:
            self.known[index] = self._read(index, depth + 1)
        return self.known[index]

    def _read(self, index: int, depth: int) -> Type:
        entry = self._type(index)
        if not entry.encoded:
            return Type(bytes(entry.data[:200]).rstrip(b"\0").decode("utf-8", "replace"))
        cursor = Cursor(entry.data, self.where)
        code = cursor.number()
        kind = _kind(entry, code)
        if kind in {"tensor", "encoded"}:
            if kind == "encoded":
                cursor.number()
            return self._tensor(cursor, entry, depth)
        return Type(self._named(entry, code, kind, cursor, depth))

    def _named(self, entry: Entry, code: int, kind: str, cursor: Cursor, depth: int) -> str:
        """Return the name of a type that is no tensor of known rank."""
        names = {"vhlo": _VHLO_NAMES, "builtin": _BUILTIN_NAMES}.get(entry.dialect, {})
        match kind:
            case "integer":
                width = cursor.number()
                return f"{_SIGNS.get(width & 3, 'i')}{width >> 2}"
            case "unranked":
                return self.type(cursor.number(), depth).name
            case "complex":
                return f"complex<{self.type(cursor.number(), depth).name}>"
            case "quantised":
                cursor.number()
                return f"quantised {self.type(cursor.number(), depth).name}"
        return names.get(code) or kind or f"{entry.dialect} {code}"

    def _tensor(self, cursor: Cursor, entry: Entry, depth: int) -> Type:
        count = self._bounded(cursor.number(), entry)
        if count > _MOST_DIMENSIONS:
            refuse(self.where, f"has a tensor of {count} dimensions")
        sizes = [cursor.signed() for _ in range(count)]
        return Type(self.type(cursor.number(), depth).name, tuple(None if size == _DYNAMIC else size for size in sizes))

    def _bounded(self, count: int, entry: Entry) -> int:
        if count > len(entry.data):
            refuse(self.where, f"has an attribute or type of {count} parts in {len(entry.data)} bytes")
        return count

    def _attribute(self, index: int) -> Entry:
        if not 0 <= index < len(self.code.attributes):
            refuse(self.where, f"names attribute {index}, of {len(self.code.attributes)}")
        return self.code.attributes[index]

    def _type(self, index: int) -> Entry:
        if not 0 <= index < len(self.code.types):
            refuse(self.where, f"names type {index}, of {len(self.code.types)}")
        return self.code.types[index]


def _kind(entry: Entry, code: int) -> str:
    kinds = {"vhlo": _VHLO_KINDS, "builtin": _BUILTIN_KINDS}.get(entry.dialect, {})
    return "quantised" if entry.dialect == _QUANT else kinds.get(code, "")
