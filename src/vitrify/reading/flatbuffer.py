"""FlatBuffers, read within bounds: tables, vectors, text, numbers and unions by the number of their field.

Specification: https://flatbuffers.dev/internals. The Python runtime of FlatBuffers has no verifier: its offsets may
be negative, which index from the end of the buffer, and the same table may be reached ten thousand times over. Here
an offset is followed only inside the buffer, and a budget that belongs to the buffer, not to the caller, bounds how
many tables are handed out and how much text and how many numbers are copied; so a walk of any shape ends, cycles too.

A field that is absent, as older writers leave it, is empty.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from numpy.typing import NDArray

TABLES = 50_000
"""Tables that are handed out of any buffer, and one more for each 64 bytes of it."""
_COPIES = 16 << 20
_NUMBER = 32
_HEADER = 4
_LONGEST = 1024
"""Bytes of a list of fields: the longest schemas have sixty fields."""


class _Buffer:
    """The bytes, and what may still be taken from them."""

    __slots__ = ("copies", "end", "lists", "tables", "view", "where")

    def __init__(self, view: memoryview, where: str) -> None:
        self.view, self.where, self.end = view, where, 0
        self.tables = TABLES + len(view) // 64
        self.copies = _COPIES + len(view)
        self.lists: dict[int, tuple[int, ...]] = {}

    def bound(self, at: int, size: int) -> None:
        """Refuse what is not inside; remember how far it has been looked at."""
        end = at + size
        if at < 0 or end > len(self.view):
            refuse(self.where, f"points to {size} bytes at {at}, in a buffer of {len(self.view)}")
        self.end = max(self.end, end)

    def number(self, form: str, at: int) -> Any:
        self.bound(at, struct.calcsize(form))
        return struct.unpack_from(form, self.view, at)[0]

    def follow(self, at: int) -> int:
        return at + int(self.number("<I", at))

    def vector(self, at: int) -> tuple[int, int]:
        start = self.follow(at)
        return start + 4, int(self.number("<I", start))

    def table(self, place: int) -> Table:
        """Return the table that the offset at a place leads to."""
        self.tables -= 1
        if self.tables < 0:
            exceed(self.where, "has more tables than a buffer of its size needs, or shares or repeats them")
        at = self.follow(place)
        return Table(self, at, self.fields(at - int(self.number("<i", at))))

    def fields(self, at: int) -> tuple[int, ...]:
        """Return a list of fields, which many tables share: its two sizes, and the offset of each field."""
        known = self.lists.get(at)
        if known is not None:
            return known
        size = int(self.number("<H", at))
        if size < _HEADER or size % 2 or size > _LONGEST:
            refuse(self.where, f"has a list of fields of {size} bytes at {at}")
        self.bound(at, size)
        self.copy(size // 2 * _NUMBER)
        found = self.lists[at] = struct.unpack_from(f"<{size // 2}H", self.view, at)
        return found

    def copy(self, size: int) -> None:
        self.copies -= size
        if self.copies < 0:
            exceed(self.where, "repeats its text and numbers until they are larger than it is")


class Table(NamedTuple):
    """A table inside a buffer. Fields go by their number, from 0, as the schema lists them.

    Attributes:
        buffer: The whole buffer, with the budget that all of its tables share.
        at: Where the table lies in it; the same place is the same table.
        fields: The bytes that its list of fields takes, the bytes that it takes itself, and where each field lies in
            it, 0 for one that is absent.
    """

    buffer: _Buffer
    at: int
    fields: tuple[int, ...]

    def has(self, field: int) -> bool:
        """Say whether a field is there."""
        return self._place(field) is not None

    def number(self, field: int, form: str, default: Any = 0) -> Any:
        """Return a scalar field, by its form in :mod:`struct`: ``<b`` for ``byte``, ``<f`` for ``float``, ``<?`` ..."""
        place = self._place(field)
        return default if place is None else self.buffer.number(form, place)

    def integer(self, field: int, default: int = 0) -> int:
        """Return a signed 32-bit field."""
        return int(self.number(field, "<i", default))

    def table(self, field: int) -> Table:
        """Return a table that a field leads to, which must be there.

        Raises:
            MalformedError: It is not.
        """
        found = self.maybe(field)
        if found is None:
            refuse(self.buffer.where, f"the table at {self.at} has no field {field}")
        return found

    def maybe(self, field: int) -> Table | None:
        """Return a table that a field leads to; None where it is left out."""
        place = self._place(field)
        if place is None:
            return None
        return self.buffer.table(place)

    def union(self, kind: int, field: int) -> tuple[int, Table | None]:
        """Return which of a union's tables it is (0 for none), and the table."""
        which = int(self.number(kind, "<B"))
        return which, self.maybe(field) if which else None

    def tables(self, field: int) -> list[Table]:
        """Return a vector of tables."""
        return [self.buffer.table(place) for place in self._places(field)]

    def texts(self, field: int) -> list[str]:
        """Return a vector of text."""
        return [self._text(place) for place in self._places(field)]

    def text(self, field: int) -> str:
        """Return text."""
        place = self._place(field)
        return "" if place is None else self._text(place)

    def bytes(self, field: int) -> memoryview:
        """Return a vector of bytes, as it lies in the buffer."""
        return self._span(field, 1)

    def count(self, field: int) -> int:
        """Return how many elements a vector says it has: what it holds is not looked at."""
        place = self._place(field)
        return 0 if place is None else self.buffer.vector(place)[1]

    def numbers(self, field: int, code: str = "i") -> list[Any]:
        """Return a vector of numbers, copied; ``code`` is theirs in :mod:`struct`."""
        size = struct.calcsize(f"<{code}")
        span = self._span(field, size)
        self.buffer.copy(_NUMBER * (len(span) // size))
        return list(struct.unpack(f"<{len(span) // size}{code}", span))

    def array(self, field: int, dtype: str) -> NDArray[Any]:
        """Return a vector of numbers or of structs, as it lies in the buffer."""
        import numpy as np

        return np.frombuffer(self._span(field, np.dtype(dtype).itemsize), dtype)

    def inline(self) -> None:
        """Look at all that this table holds itself, though its fields mean nothing to the caller."""
        self.buffer.bound(self.at, self.fields[1])

    def _place(self, field: int) -> int | None:
        """Return where a field lies; None for one that the table's list, which may be shorter, does not have."""
        offset = self.fields[field + 2] if field + 2 < len(self.fields) else 0
        return self.at + offset if offset else None

    def _places(self, field: int) -> range:
        place = self._place(field)
        if place is None:
            return range(0)
        start, count = self.buffer.vector(place)
        self.buffer.bound(start, 4 * count)
        return range(start, start + 4 * count, 4)

    def _span(self, field: int, size: int) -> memoryview:
        place = self._place(field)
        if place is None:
            return self.buffer.view[:0]
        start, count = self.buffer.vector(place)
        self.buffer.bound(start, count * size)
        return self.buffer.view[start : start + count * size]

    def _text(self, place: int) -> str:
        start, count = self.buffer.vector(place)
        self.buffer.bound(start, count)
        self.buffer.copy(count + _NUMBER)
        try:
            return str(self.buffer.view[start : start + count], "utf-8")
        except UnicodeDecodeError as error:
            refuse(self.buffer.where, f"the text at {start} is not UTF-8 ({error.reason})")


def root(view: memoryview, *, where: str) -> Table:
    """Return the table that a buffer starts with.

    Args:
        view: The buffer.
        where: What it is, for errors.

    Raises:
        MalformedError: It leads out of the buffer; so does everything that its tables lead to.
        LimitExceededError: From a table: more was taken from the buffer than an honest one holds.
    """
    return _Buffer(view, where).table(0)


def identifier(start: bytes | memoryview) -> bytes:
    """Return the four bytes by which a buffer's schema is known, from its first eight bytes."""
    return bytes(start[4:8])
