"""The wire format of Protocol Buffers, walked by hand: which field lies where, and a copy without the heavy ones.

The library that parses messages copies every byte of them. A model's file is mostly weights, so before it is parsed,
its skeleton is made: the same message, with a stub of a few bytes in the place of each long ``blob``. A stub starts
with random bytes of this process, so no file can hold one of its own making.

Source: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, NamedTuple

from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_FIELDS = 2_000_000
MAX_KEPT = 32 * 1024 * 1024
"""A skeleton's bytes, of which the library makes objects twice as large; a hundred thousand operators take 21 MiB."""
MAX_DEPTH = 100
"""The library's own limit, in every language."""
SMALL = 4096
"""What is no longer is copied as it is: looking inside would cost more than it saves."""

_STUB = struct.Struct("<16sQQ")
_MARK = os.urandom(16)
_VARINT_BITS = 64


class Layout(NamedTuple):
    """What a skeleton keeps of a message: by number, the messages inside it, its blobs and all other fields."""

    messages: Mapping[int, str]
    blobs: frozenset[int]
    others: frozenset[int]


def varint(view: memoryview | bytes, at: int, end: int, where: str) -> tuple[int, int]:
    """Return the number that starts at ``at``, and where it ends.

    Raises:
        MalformedError: It does not end before ``end``, or has more than 64 bits.
    """
    value = shift = 0
    byte = 128  # the bit that says: more follows
    while byte & 128:
        if at >= end or shift >= _VARINT_BITS:
            refuse(where, f"a number at byte {at} that does not end")
        byte = view[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
    return value, at


def spans(view: memoryview, start: int, end: int, where: str) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield each field of a message: its number, wire type, and where it, its content and its end are.

    Raises:
        MalformedError: A field leaves the message, or is of a wire type that no present writer uses.
    """
    at = start
    while at < end:
        begin = at
        tag = view[at]
        if tag < 128:  # noqa: PLR2004 (one byte)
            at += 1
        else:
            tag, at = varint(view, at, end, where)
        number, kind = tag >> 3, tag & 7
        body = at
        if kind == BYTES:
            if at < end and view[at] < 128:  # noqa: PLR2004 (one byte)
                body = at + 1
                at = body + view[at]
            else:
                length, body = varint(view, at, end, where)
                at = body + length
        elif kind == VARINT:
            _, at = varint(view, at, end, where)
        elif kind in {FIXED64, FIXED32}:
            at += 8 if kind == FIXED64 else 4
        else:
            refuse(where, f"wire type {kind} at byte {begin}, expected a number or a length")
        if at > end or number == 0:
            refuse(where, f"field {number} at byte {begin} leaves its message: the file is cut off, or of another kind")
        yield number, kind, begin, body, at


class Pruner:
    """One message, copied without what is heavy."""

    def __init__(self, view: memoryview, layouts: Mapping[str, Layout], where: str) -> None:
        """Take the bytes and what is to be kept of each kind of message."""
        self._view, self._layouts, self._where = view, layouts, where
        self._left = MAX_FIELDS
        self._room = MAX_KEPT

    def skeleton(self, message: str) -> bytes:
        """Return the message with stubs in the place of long blobs, and without long fields that no layout names.

        Raises:
            MalformedError: A field leaves its message.
            LimitExceededError: There are too many fields, too many bytes are left, or it is nested too deep.
        """
        return bytes(self._walk(message, 0, len(self._view), MAX_DEPTH))

    def _walk(self, message: str, start: int, end: int, depth: int) -> bytearray:
        if depth == 0:
            exceed(self._where, f"messages nested more than {MAX_DEPTH} levels deep")
        layout, view, kept, done = self._layouts[message], self._view, bytearray(), start
        for number, kind, begin, body, stop in spans(view, start, end, self._where):
            self._left -= 1
            if self._left < 0:
                exceed(self._where, f"more than {MAX_FIELDS} fields")
            if stop - body <= SMALL or kind != BYTES:
                continue
            if number in layout.others:
                continue
            self._copy(kept, done, begin)
            done = stop
            if number in layout.blobs:
                _append(kept, number, _STUB.pack(_MARK, body, stop - body))
            elif number in layout.messages:
                _append(kept, number, self._walk(layout.messages[number], body, stop, depth - 1))
        self._copy(kept, done, end)
        return kept

    def _copy(self, kept: bytearray, start: int, end: int) -> None:
        self._room -= end - start
        if self._room < 0:
            exceed(self._where, f"more than {MAX_KEPT} bytes of structure")
        kept += self._view[start:end]


def stub(data: bytes) -> tuple[int, int] | None:
    """Return where a blob that was left out lies, and its length; None for one that is there."""
    if len(data) != _STUB.size or not data.startswith(_MARK):
        return None
    _, at, length = _STUB.unpack(data)
    return at, length


def _append(kept: bytearray, number: int, data: bytes | bytearray) -> None:
    for value in (number << 3 | BYTES, len(data)):
        rest = value
        while rest > 127:  # noqa: PLR2004 (one byte)
            kept.append(rest & 127 | 128)
            rest >>= 7
        kept.append(rest)
    kept += data
