"""Sorted tables of LevelDB, which TensorFlow keeps a checkpoint's index in: keys and values, in blocks.

Blocks that are compressed are refused: TensorFlow writes none. Checksums are not computed; what is wrong in a value is
found by whoever parses it.

Source: https://github.com/google/leveldb/blob/main/doc/table_format.md.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from vitrify.reading._protobuf_wire import varint
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)
MAX_ENTRIES = 1_000_000
MAX_KEYS = 32 * 1024 * 1024
"""Bytes of all keys together: a key may repeat the one before it at the cost of nothing."""

_FOOTER = 48
_TRAILER = 5


def is_table(view: memoryview) -> bool:
    """Say whether bytes end as a table does."""
    return len(view) >= _FOOTER and view[-len(MAGIC) :] == MAGIC


def entries(view: memoryview, *, where: str) -> Iterator[tuple[bytes, memoryview]]:
    """Yield each key and value, in the order of the keys.

    Raises:
        MalformedError: It is no table, or a block leaves it.
        LimitExceededError: A block is compressed, or there is more than a checkpoint's index has.
    """
    if not is_table(view):
        refuse(where, "no sorted table (its last eight bytes are others)")
    footer = view[-_FOOTER:]
    _, at = _handle(footer, 0, where)
    index, _ = _handle(footer, at, where)
    left, room, last = MAX_ENTRIES, MAX_KEYS, None
    for _, handle in _block(view, index, where):
        for key, value in _block(view, _handle(handle, 0, where)[0], where):
            left, room = left - 1, room - len(key)
            if left < 0 or room < 0:
                exceed(where, f"more than {MAX_ENTRIES} entries, or {MAX_KEYS} bytes of keys")
            if last is not None and key <= last:
                refuse(where, f"the key {key[:60]!r} is not after the one before it")
            last = key
            yield key, value


def _handle(view: memoryview, at: int, where: str) -> tuple[tuple[int, int], int]:
    start, at = varint(view, at, len(view), where)
    length, at = varint(view, at, len(view), where)
    return (start, length), at


def _block(view: memoryview, handle: tuple[int, int], where: str) -> Iterator[tuple[bytes, memoryview]]:
    start, length = handle
    if start + length + _TRAILER > len(view) - _FOOTER or length < _TRAILER - 1:
        refuse(where, f"a block of {length} bytes at byte {start} of {len(view)}")
    if view[start + length] != 0:
        exceed(where, "a compressed block, which TensorFlow does not write")
    block = view[start : start + length]
    restarts = int.from_bytes(block[-4:], "little")
    end = length - 4 - 4 * restarts
    if end < 0:
        refuse(where, f"{restarts} restarts in a block of {length} bytes")
    key, at = b"", 0
    while at < end:
        shared, at = varint(block, at, end, where)
        fresh, at = varint(block, at, end, where)
        size, at = varint(block, at, end, where)
        if shared > len(key) or at + fresh + size > end:
            refuse(where, "an entry that leaves its block")
        key = key[:shared] + bytes(block[at : at + fresh])
        if len(key) > MAX_KEYS:
            exceed(where, f"a key of {len(key)} bytes")
        yield key, block[at + fresh : at + fresh + size]
        at += fresh + size
