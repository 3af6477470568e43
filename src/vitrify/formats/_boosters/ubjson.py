"""Universal Binary JSON, read within bounds: no count, length or depth is believed before it fits the bytes.

Source: the Universal Binary JSON specification, draft 12, https://ubjson.org. Arrays of one number type come back
as NumPy arrays, as they lie in the file; all else as the values of JSON.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from vitrify.core.errors import MalformedError

MAX_DEPTH = 64

_SCALARS = {b"i": ">b", b"U": ">B", b"I": ">h", b"l": ">i", b"L": ">q", b"d": ">f", b"D": ">d"}
_ARRAYS = {b"i": "i1", b"U": "u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
_CONSTANTS = {b"Z": None, b"T": True, b"F": False}
_INTEGERS = frozenset(b"iUIlL")


def parse(data: bytes | memoryview, *, where: str) -> Any:
    """Parse one value that fills all of ``data``.

    Args:
        data: The bytes.
        where: What they are, for the error message.

    Raises:
        MalformedError: They are no UBJSON; the message has the offset.
    """
    reader = _Reader(memoryview(data))
    try:
        value = reader.value(reader.take(1), MAX_DEPTH)
    except (ValueError, struct.error) as error:
        msg = f"{where}: no UBJSON at byte {reader.at} of {len(data)} ({error})"
        raise MalformedError(msg) from error
    if reader.at != len(data):
        msg = f"{where}: {len(data) - reader.at} bytes after the end of the UBJSON value"
        raise MalformedError(msg)
    return value


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        return bytes(self._view(size))

    def value(self, marker: bytes, depth: int) -> Any:
        if depth == 0:
            msg = f"nested more than {MAX_DEPTH} levels deep"
            raise ValueError(msg)
        if marker in _SCALARS:
            form = _SCALARS[marker]
            return struct.unpack(form, self._view(struct.calcsize(form)))[0]
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        match marker:
            case b"S":
                return self._text()
            case b"C":
                return self.take(1).decode("ascii")
            case b"[":
                return self._array(depth)
            case b"{":
                return self._object(depth)
        msg = f"unknown type {marker!r}"
        raise ValueError(msg)

    def _view(self, size: int) -> memoryview:
        if not 0 <= size <= len(self._data) - self.at:
            msg = f"{size} bytes wanted, {len(self._data) - self.at} left"
            raise ValueError(msg)
        self.at += size
        return self._data[self.at - size : self.at]

    def _peek(self) -> bytes:
        return bytes(self._data[self.at : self.at + 1])

    def _length(self) -> int:
        marker = self.take(1)
        if marker not in {bytes([code]) for code in _INTEGERS}:
            msg = f"a length of type {marker!r}"
            raise ValueError(msg)
        length: int = self.value(marker, 1)
        # Every element takes a byte at least, so that no count can ask for more than the file holds.
        if not 0 <= length <= len(self._data) - self.at:
            msg = f"a length of {length}, with {len(self._data) - self.at} bytes left"
            raise ValueError(msg)
        return length

    def _text(self) -> str:
        return self.take(self._length()).decode()

    def _header(self) -> tuple[bytes | None, int | None]:
        """Read a container's optional element type and count."""
        kind = None
        if self._peek() == b"$":
            self.at += 1
            kind = self.take(1)
            if kind in _CONSTANTS or self._peek() != b"#":
                msg = f"a container of {kind!r} without a count, or without content"
                raise ValueError(msg)
        if self._peek() != b"#":
            return kind, None
        self.at += 1
        return kind, self._length()

    def _array(self, depth: int) -> Any:
        kind, count = self._header()
        if kind in _ARRAYS and count is not None:
            dtype = np.dtype(_ARRAYS[kind])
            return np.frombuffer(self._view(count * dtype.itemsize), dtype)
        if count is not None:
            return [self.value(kind or self.take(1), depth - 1) for _ in range(count)]
        items = []
        while (marker := self.take(1)) != b"]":
            items.append(self.value(marker, depth - 1))
        return items

    def _object(self, depth: int) -> dict[str, Any]:
        kind, count = self._header()
        members: dict[str, Any] = {}
        while len(members) != count if count is not None else self._peek() != b"}":
            key = self._text()
            if key in members:
                msg = f"two members are called {key!r}"
                raise ValueError(msg)
            members[key] = self.value(kind or self.take(1), depth - 1)
        if count is None:
            self.at += 1
        return members
