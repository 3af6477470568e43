"""FlatBuffers tables, read within bounds.

Source: the FlatBuffers binary format, https://flatbuffers.dev/internals. Offsets are followed only inside the
buffer; a field that is absent, as older writers leave it, is empty.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Table:
    """A table inside a buffer. Whatever does not fit the buffer raises ``ValueError``.

    Attributes:
        data: The whole buffer.
        at: Where the table lies in it.
    """

    data: memoryview
    at: int

    @classmethod
    def root(cls, data: memoryview) -> Self:
        """Return the table that a buffer starts with."""
        return cls(data, _number(data, "<I", 0))

    def integer(self, field: int, default: int = 0) -> int:
        """Return a 32-bit field."""
        place = self._place(field)
        return default if place is None else _number(self.data, "<i", place)

    def table(self, field: int) -> Table:
        """Return a table that a field leads to, which must be there."""
        place = self._place(field)
        if place is None:
            msg = f"the table at {self.at} has no field {field}"
            raise ValueError(msg)
        return self._follow(place)

    def array(self, field: int, dtype: str) -> NDArray[Any]:
        """Return a vector of numbers or of structs, as it lies in the buffer."""
        start, count = self._vector(field)
        size = np.dtype(dtype).itemsize
        _bound(self.data, start, count * size)
        return np.frombuffer(self.data[start : start + count * size], dtype)

    def tables(self, field: int) -> list[Table]:
        """Return a vector of tables."""
        start, count = self._vector(field)
        _bound(self.data, start, 4 * count)
        return [self._follow(start + 4 * index) for index in range(count)]

    def text(self, field: int) -> str:
        """Return a string."""
        return self.array(field, "u1").tobytes().decode()

    def _place(self, field: int) -> int | None:
        """Return where a field lies, by the table's list of fields, which may be shared and shorter."""
        fields = self.at - _number(self.data, "<i", self.at)
        entry = 4 + 2 * field
        if entry >= _number(self.data, "<H", fields):
            return None
        offset = _number(self.data, "<H", fields + entry)
        return self.at + offset if offset else None

    def _follow(self, place: int) -> Table:
        return Table(self.data, place + _number(self.data, "<I", place))

    def _vector(self, field: int) -> tuple[int, int]:
        place = self._place(field)
        if place is None:
            return 0, 0
        start = place + _number(self.data, "<I", place)
        return start + 4, _number(self.data, "<I", start)


def _number(data: memoryview, form: str, at: int) -> int:
    _bound(data, at, struct.calcsize(form))
    number: int = struct.unpack_from(form, data, at)[0]
    return number


def _bound(data: memoryview, at: int, size: int) -> None:
    if at < 0 or at + size > len(data):
        msg = f"{size} bytes at {at}, in a buffer of {len(data)}"
        raise ValueError(msg)
