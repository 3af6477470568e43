"""MLIR bytecode: strings, dialects, attributes as bytes, and the operations with what each defines and uses.

Specification: https://mlir.llvm.org/docs/BytecodeFormat/, versions 0 to 6. What the bytes of an attribute or type mean
is its dialect's to say; here they are only delimited. Every index is compared with what it counts, and a budget bounds
how many operations, operands and results are handed out, so that the size of the values follows that of the file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Callable

MAGIC = b"ML\xefR"
NEWEST = 6
DEEPEST = 64
ITEMS = 50_000
"""Operations, operands, results and table entries that are handed out of any file, and one more for each 16 bytes."""

_STRINGS, _DIALECTS, _ATTRIBUTES, _OFFSETS, _IR, _, _, _, _PROPERTIES = range(9)
_ALIGNED = 0x80
_VERSIONED, _LAZY, _USES, _ELIDED, _NATIVE = 1, 2, 3, 4, 5
"""Versions that brought: versions of dialects, sections for isolated regions, orders of uses, elided locations of
arguments, properties."""
_HAS_ATTRIBUTES, _HAS_RESULTS, _HAS_OPERANDS, _HAS_SUCCESSORS, _HAS_REGIONS, _HAS_USES, _HAS_PROPERTIES = (
    1 << bit for bit in range(7)
)


class Entry(NamedTuple):
    """An attribute or a type: its bytes, in its dialect's own encoding or else as text."""

    dialect: str
    data: memoryview
    encoded: bool


@dataclass(slots=True)
class Region:
    """The arguments of the first block by (value, type), and the operations of all blocks in order."""

    arguments: list[tuple[int, int]] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


@dataclass(slots=True)
class Operation:
    """One operation. Numbers are indices of attributes and types, and for values those of the scope around it."""

    name: str
    attributes: int | None
    properties: memoryview | None
    results: list[tuple[int, int]]
    operands: list[int]
    regions: list[Region]


@dataclass(frozen=True, slots=True)
class Bytecode:
    """A whole file."""

    version: int
    producer: str
    strings: list[str]
    dialects: list[str]
    attributes: list[Entry]
    types: list[Entry]
    top: Region


class Cursor:
    """A place in bytes, from which numbers are read."""

    __slots__ = ("at", "end", "view", "where")

    def __init__(self, view: memoryview, where: str, at: int = 0, end: int | None = None) -> None:
        """Start at ``at``; nothing beyond ``end`` is read."""
        self.view, self.where, self.at = view, where, at
        self.end = len(view) if end is None else end

    @property
    def empty(self) -> bool:
        """Whether all was read."""
        return self.at >= self.end

    def byte(self) -> int:
        """Return one byte."""
        self.skip(1)
        return self.view[self.at - 1]

    def skip(self, size: int) -> int:
        """Go on by ``size`` bytes; return where they begin."""
        start = self.at
        if size > self.end - start:
            refuse(self.where, f"is cut off: {size} bytes expected at {start}, {self.end - start} are there")
        self.at = start + size
        return start

    def number(self) -> int:
        """Return an unsigned number: the zeros at the low end of the first byte say how many bytes follow."""
        first = self.byte()
        if first & 1:
            return first >> 1
        if first == 0:
            start = self.skip(8)
            return int.from_bytes(self.view[start : start + 8], "little")
        size = (first & -first).bit_length()
        start = self.skip(size - 1) - 1
        return int.from_bytes(self.view[start : start + size], "little") >> size

    def flagged(self) -> tuple[int, bool]:
        """Return a number and the flag that is packed with it."""
        number = self.number()
        return number >> 1, bool(number & 1)

    def signed(self) -> int:
        """Return a signed number."""
        number = self.number()
        return (number >> 1) ^ -(number & 1)

    def index(self, count: int, what: str) -> int:
        """Return a number that has to be below ``count``."""
        return self.below(self.number(), count, what)

    def below(self, number: int, count: int, what: str) -> int:
        """Return a number; refuse one that is not below ``count``."""
        if number >= count:
            refuse(self.where, f"names {what} {number}, of {count}")
        return number

    def section(self) -> tuple[int, Cursor]:
        """Return the number of a section, and a cursor in it."""
        kind = self.byte()
        size = self.number()
        if kind & _ALIGNED:
            alignment = self.number()
            if not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
                refuse(self.where, f"has a section that is aligned to {alignment}")
            self.skip(-self.at % alignment)
        start = self.skip(size)
        return kind & ~_ALIGNED, Cursor(self.view, self.where, start, start + size)


def parse(view: memoryview, *, where: str) -> Bytecode:
    """Return what a file of bytecode holds.

    Raises:
        MalformedError: It is no bytecode, of a version that is not known, or says something impossible.
        LimitExceededError: It nests deeper than 64, or has more operations and values than its size allows.
    """
    return _Reader(view, where).read()


def producer(start: bytes) -> str:
    """Return who wrote a file, from its first bytes: ``StableHLO_v1.0.0``; empty where it cannot be read."""
    at = start.find(b"\0")
    return start[len(MAGIC) + 1 : at].decode("utf-8", "replace") if start.startswith(MAGIC) and at > 0 else ""


class _Scope:
    """The numbers of values that are taken: of the isolated region that is being read."""

    __slots__ = ("following", "top")

    def __init__(self) -> None:
        self.following = self.top = 0


class _Reader:
    def __init__(self, view: memoryview, where: str) -> None:
        self.view, self.where = view, where
        self.items = ITEMS + len(view) // 16

    def take(self, count: int) -> int:
        self.items -= count
        if self.items < 0:
            exceed(self.where, "has more operations and values than a file of its size needs")
        return count

    def read(self) -> Bytecode:
        cursor = Cursor(self.view, self.where)
        if bytes(self.view[: len(MAGIC)]) != MAGIC:
            refuse(self.where, "is no MLIR bytecode")
        cursor.skip(len(MAGIC))
        self.version = cursor.number()
        if self.version > NEWEST:
            refuse(self.where, f"is bytecode of version {self.version}; read are those up to {NEWEST}")
        start = cursor.at
        while cursor.byte():
            pass
        name = str(self.view[start : cursor.at - 1], "utf-8", "replace")
        sections: dict[int, Cursor] = {}
        while not cursor.empty:
            kind, inner = cursor.section()
            if kind > _PROPERTIES:
                refuse(self.where, f"has a section {kind}, which bytecode does not have: another file may hide there")
            if kind in sections:
                refuse(self.where, f"has section {kind} twice")
            sections[kind] = inner
        if missing := {_STRINGS, _DIALECTS, _ATTRIBUTES, _OFFSETS, _IR} - sections.keys():
            refuse(self.where, f"has no section {min(missing)}")
        self.strings = self.read_strings(sections[_STRINGS])
        self.dialects, self.names = self.read_dialects(sections[_DIALECTS])
        attributes, types = self.read_entries(sections[_OFFSETS], sections[_ATTRIBUTES])
        self.counts = len(attributes), len(types)
        self.properties = self.read_properties(sections.get(_PROPERTIES))
        top = Region()
        self.block(sections[_IR], top, _Scope(), 0, first=True)
        return Bytecode(self.version, name, self.strings, self.dialects, attributes, types, top)

    def read_strings(self, cursor: Cursor) -> list[str]:
        """Return the strings; the lengths come first, that of the last string before all others."""
        lengths = [cursor.number() for _ in range(self.take(cursor.number()))]
        found = []
        for length in reversed(lengths):
            start = cursor.skip(length)
            found.append(str(self.view[start : start + max(0, length - 1)], "utf-8", "replace"))
        return found

    def read_dialects(self, cursor: Cursor) -> tuple[list[str], list[str]]:
        """Return the dialects, and the names of operations with their dialect's before them."""
        dialects = []
        for _ in range(self.take(cursor.number())):
            number, versioned = cursor.flagged() if self.version >= _VERSIONED else (cursor.number(), False)
            dialects.append(self.strings[cursor.below(number, len(self.strings), "string")])
            if versioned:
                cursor.section()
        if self.version >= _ELIDED:
            cursor.number()
        names: list[str] = []

        def name(dialect: str) -> None:
            number = cursor.flagged()[0] if self.version >= _NATIVE else cursor.number()
            names.append(f"{dialect}.{self.strings[cursor.below(number, len(self.strings), 'string')]}")

        while not cursor.empty:
            self.grouped(cursor, dialects, name)
        return dialects, names

    def grouped(self, cursor: Cursor, dialects: list[str], entry: Callable[[str], None]) -> None:
        """Read a run of entries that belong to one dialect."""
        dialect = dialects[cursor.index(len(dialects), "dialect")]
        for _ in range(self.take(cursor.number())):
            entry(dialect)

    def read_entries(self, cursor: Cursor, data: Cursor) -> tuple[list[Entry], list[Entry]]:
        """Return the attributes and the types; one section has their sizes, the other their bytes."""
        counts = self.take(cursor.number()), self.take(cursor.number())
        found: list[Entry] = []

        def entry(dialect: str) -> None:
            size, encoded = cursor.flagged()
            start = data.skip(size)
            found.append(Entry(dialect, self.view[start : start + size], encoded))

        while len(found) < sum(counts):
            self.grouped(cursor, self.dialects, entry)
        return found[: counts[0]], found[counts[0] : sum(counts)]

    def read_properties(self, cursor: Cursor | None) -> list[memoryview]:
        if cursor is None:
            return []
        found = []
        for _ in range(self.take(cursor.number())):
            size = cursor.number()
            start = cursor.skip(size)
            found.append(self.view[start : start + size])
        return found

    def block(self, cursor: Cursor, region: Region, scope: _Scope, depth: int, *, first: bool) -> None:
        """Read a block: how many operations it has, its arguments, the operations."""
        count, arguments = cursor.flagged()
        if arguments:
            values = [self.argument(cursor, scope) for _ in range(self.take(cursor.number()))]
            if first:
                region.arguments = values
            if self.version >= _USES and cursor.byte():
                self.skip_uses(cursor, len(values))
        for _ in range(self.take(count)):
            region.operations.append(self.operation(cursor, scope, depth))

    def argument(self, cursor: Cursor, scope: _Scope) -> tuple[int, int]:
        number, located = cursor.flagged() if self.version >= _ELIDED else (cursor.number(), True)
        kind = cursor.below(number, self.counts[1], "type")
        if located:
            cursor.index(self.counts[0], "attribute")
        return self.define(scope), kind

    def define(self, scope: _Scope) -> int:
        scope.following += 1
        if scope.following > scope.top:
            refuse(self.where, f"a region defines more values than the {scope.top} that it declares")
        return scope.following - 1

    def operation(self, cursor: Cursor, scope: _Scope, depth: int) -> Operation:
        attributes, types = self.counts
        name = self.names[cursor.index(len(self.names), "operation name")]
        mask = cursor.byte()
        cursor.index(attributes, "attribute")
        held = cursor.index(attributes, "attribute") if mask & _HAS_ATTRIBUTES else None
        properties = None
        if mask & _HAS_PROPERTIES and self.version >= _NATIVE:
            properties = self.properties[cursor.index(len(self.properties), "properties")]
        results, operands = [], []
        if mask & _HAS_RESULTS:
            kinds = [cursor.index(types, "type") for _ in range(self.take(cursor.number()))]
            results = [(self.define(scope), kind) for kind in kinds]
        if mask & _HAS_OPERANDS:
            operands = [cursor.index(scope.top, "value") for _ in range(self.take(cursor.number()))]
        if mask & _HAS_SUCCESSORS:
            for _ in range(self.take(cursor.number())):
                cursor.number()
        if mask & _HAS_USES and self.version >= _USES:
            self.skip_uses(cursor, len(results))
        regions = self.regions(cursor, scope, depth + 1) if mask & _HAS_REGIONS else []
        return Operation(name, held, properties, results, operands, regions)

    def regions(self, cursor: Cursor, scope: _Scope, depth: int) -> list[Region]:
        """Read the regions of an operation; isolated ones count values anew, and lie in a section of their own."""
        if depth > DEEPEST:
            exceed(self.where, f"regions nest deeper than {DEEPEST}")
        count, isolated = cursor.flagged()
        self.take(count)
        if isolated:
            scope = _Scope()
            if self.version >= _LAZY:
                kind, cursor = cursor.section()
                if kind != _IR:
                    refuse(self.where, f"has section {kind} where the operations of a region should be")
        return [self.region(cursor, scope, depth) for _ in range(count)]

    def region(self, cursor: Cursor, scope: _Scope, depth: int) -> Region:
        region = Region()
        blocks = self.take(cursor.number())
        if not blocks:
            return region
        outer = scope.following, scope.top
        scope.following, scope.top = scope.top, scope.top + self.take(cursor.number())
        for place in range(blocks):
            self.block(cursor, region, scope, depth, first=place == 0)
        scope.following, scope.top = outer
        return region

    def skip_uses(self, cursor: Cursor, values: int) -> None:
        """Skip the order in which values are used."""
        for _ in range(self.take(cursor.number()) if values > 1 else 1):
            if values > 1:
                cursor.number()
            count, _ = cursor.flagged()
            for _ in range(self.take(count)):
                cursor.number()
