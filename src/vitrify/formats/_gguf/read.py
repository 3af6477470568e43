"""The header of a GGUF file, read within bounds: metadata, and where each tensor lies. No tensor is read.

A file is a magic, a version, two counts, the metadata, a list of tensors and, from the next multiple of the
alignment on, their bytes. Version 1 counts in 32 bits, later ones in 64; either may be big-endian.

Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, Literal

from vitrify.formats._gguf.types import BLOCKS
from vitrify.reading.malformed import exceed, refuse

MAGIC = b"GGUF"
ALIGNMENT = 32
"""Where ``general.alignment`` does not say otherwise."""

MAX_ENTRIES = 200_000
"""Metadata keys, and tensors. The largest models have some thousand of each."""
MAX_ELEMENTS = 16_000_000
"""Elements of all arrays of text or arrays together: a vocabulary has some hundred thousand."""
MAX_TEXT = 1024 * 1024
"""Bytes of text that is kept; longer text is only measured."""
MAX_KEPT = 16 * 1024 * 1024
"""Bytes of all text that is kept."""
SHOWN = 8
"""Elements of an array that are kept."""

_MAX_NAME = 65_535
_MAX_DIMENSIONS = 8
_MAX_NESTING = 4
_MAX_ALIGNMENT = 2**24
_VERSIONS = (1, 2, 3)
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _ARRAY = 8, 9
_KINDS = {
    0: "uint8",
    1: "int8",
    2: "uint16",
    3: "int16",
    4: "uint32",
    5: "int32",
    6: "float32",
    7: "bool",
    8: "string",
    9: "array",
    10: "uint64",
    11: "int64",
    12: "float64",
}


@dataclass(frozen=True)
class Listed:
    """An array of the metadata: its element type, how many, and the first few."""

    kind: str
    count: int
    first: tuple[Any, ...]


@dataclass(frozen=True)
class Long:
    """Text of the metadata that is too long to be kept: its bytes."""

    size: int


@dataclass(frozen=True)
class Tensor:
    """One tensor.

    Attributes:
        name: Unique.
        kind: Number of its ggml type.
        shape: Fastest dimension first, as the file has it.
        start: Offset from the start of the data, inclusive.
        size: Bytes; None where the type is not known.
    """

    name: str
    kind: int
    shape: tuple[int, ...]
    start: int
    size: int | None


@dataclass(frozen=True)
class Header:
    """What a file says about itself.

    Attributes:
        version: Of the format, 1 to 3.
        order: Byte order.
        metadata: By key: a number, truth, text, :class:`Listed` or :class:`Long`.
        tensors: In the order of the file.
        alignment: Bytes.
        end: Where the header ends.
        data: Where the tensors' bytes start.
    """

    version: int
    order: Literal["little", "big"]
    metadata: dict[str, Any]
    tensors: tuple[Tensor, ...]
    alignment: int
    end: int
    data: int


def is_gguf(head: bytes) -> bool:
    """Say whether a file that starts like this is one."""
    return head[:4] == MAGIC and ((head[4:5] in {b"\1", b"\2", b"\3"} and head[5:8] == b"\0\0\0") or _is_big(head))


def parse(data: memoryview, *, where: str) -> Header:
    """Read and check the header.

    Raises:
        MalformedError: A length, type, count, shape or offset is not what the format allows.
        LimitExceededError: There are more keys, tensors or array elements than any model has.
    """
    if not is_gguf(bytes(data[:8])):
        refuse(where, f"not a GGUF file of version 1 to 3 (it starts with {bytes(data[:8])!r})")
    big = _is_big(bytes(data[:8]))
    version = data[7] if big else data[4]
    reader = _Reader(data, where, ">" if big else "<", wide=version > 1)
    tensors, keys = (reader.count(what) for what in ("tensors", "metadata keys"))
    metadata: dict[str, Any] = {}
    for _ in range(keys):
        key = reader.name("a metadata key")
        if key in metadata:
            refuse(where, f"the metadata key {key!r} stands twice")
        metadata[key] = reader.value(reader.scalar("I"), key)
    alignment = _alignment(metadata, where)
    listed = tuple(reader.tensor() for _ in range(tensors))
    if len({tensor.name for tensor in listed}) != len(listed):
        refuse(where, "two tensors have the same name")
    start = -(-reader.at // alignment) * alignment
    for tensor in listed:
        _check(tensor, len(data) - start, alignment, where)
    return Header(version, "big" if big else "little", metadata, listed, alignment, reader.at, start)


class _Reader:
    """A place in the file, and what may still be kept of it."""

    def __init__(self, data: memoryview, where: str, order: str, *, wide: bool) -> None:
        self._data, self._where, self.at = data, where, 8
        self._forms = {code: struct.Struct(order + code) for code in {*_SCALARS.values()}}
        self._length = self._forms["Q" if wide else "I"]
        self._elements, self._kept = MAX_ELEMENTS, MAX_KEPT

    def scalar(self, code: str) -> Any:
        return self._unpack(self._forms[code])

    def _unpack(self, form: struct.Struct) -> Any:
        self._need(form.size)
        self.at += form.size
        return form.unpack_from(self._data, self.at - form.size)[0]

    def _need(self, size: int) -> None:
        if size > len(self._data) - self.at:
            refuse(self._where, f"{size} bytes wanted at {self.at}, in a file of {len(self._data)}: it is cut off")

    def count(self, what: str) -> int:
        number: int = self._unpack(self._length)
        if number > MAX_ENTRIES:
            exceed(self._where, f"{number} {what}, more than {MAX_ENTRIES}")
        return number

    def name(self, what: str) -> str:
        size: int = self._unpack(self._length)
        self._need(size)
        if size > _MAX_NAME:
            refuse(self._where, f"{what} of {size} bytes, more than {_MAX_NAME}")
        self.at += size
        try:
            return bytes(self._data[self.at - size : self.at]).decode()
        except ValueError:
            refuse(self._where, f"{what} at {self.at - size} is no UTF-8")

    def value(self, kind: int, key: str, depth: int = 0) -> Any:
        if kind == _TEXT:
            return self._text()
        if kind == _ARRAY:
            return self._array(key, depth + 1)
        if kind not in _SCALARS:
            refuse(self._where, f"{key}: unknown type {kind}")
        return self._finite(self.scalar(_SCALARS[kind]))

    @staticmethod
    def _finite(number: Any) -> Any:
        """Return the number, or text where JSON has none for it."""
        return str(number) if isinstance(number, float) and not math.isfinite(number) else number

    def _text(self) -> str | Long:
        size: int = self._unpack(self._length)
        self._need(size)
        self.at += size
        if size > min(MAX_TEXT, self._kept):
            return Long(size)
        self._kept -= size
        return bytes(self._data[self.at - size : self.at]).decode(errors="backslashreplace")

    def _array(self, key: str, depth: int) -> Listed:
        kind: int = self.scalar("I")
        count: int = self._unpack(self._length)
        if depth > _MAX_NESTING or kind not in _KINDS:
            refuse(self._where, f"{key}: arrays nested more than {_MAX_NESTING} deep, or of the unknown type {kind}")
        if kind in _SCALARS:
            return self._numbers(kind, count)
        if count > (self._elements if kind == _TEXT else MAX_ENTRIES):
            exceed(self._where, f"{key}: {count} elements, more than any vocabulary has")
        self._elements = max(self._elements - count, 0)
        self._need(count * self._length.size)
        first = tuple(self.value(kind, key, depth) for _ in range(min(count, SHOWN)))
        if kind == _TEXT:
            self._skip_texts(count - len(first))
        else:
            for _ in range(count - len(first)):
                self.value(kind, key, depth)
        return Listed(_KINDS[kind], count, first)

    def _numbers(self, kind: int, count: int) -> Listed:
        form = self._forms[_SCALARS[kind]]
        self._need(count * form.size)
        first = tuple(
            self._finite(form.unpack_from(self._data, self.at + form.size * place)[0])
            for place in range(min(count, SHOWN))
        )
        self.at += count * form.size
        return Listed(_KINDS[kind], count, first)

    def _skip_texts(self, count: int) -> None:
        """Go over texts: a vocabulary has hundreds of thousands, so this loop does nothing else."""
        at, unpack, step = self.at, self._length.unpack_from, self._length.size
        try:
            for _ in range(count):
                at += step + unpack(self._data, at)[0]
        except (struct.error, OverflowError):
            at = len(self._data) + 1
        self._need(at - self.at)
        self.at = at

    def tensor(self) -> Tensor:
        name = self.name("a tensor's name")
        rank: int = self.scalar("I")
        if rank > _MAX_DIMENSIONS:
            refuse(self._where, f"tensor {name!r}: {rank} dimensions, more than {_MAX_DIMENSIONS}")
        shape = tuple(self._unpack(self._length) for _ in range(rank))
        kind: int = self.scalar("I")
        start: int = self.scalar("Q")
        return Tensor(name, kind, shape, start, self._bytes(name, kind, shape))

    def _bytes(self, name: str, kind: int, shape: tuple[int, ...]) -> int | None:
        if kind not in BLOCKS:
            return None
        elements, size = BLOCKS[kind].elements, BLOCKS[kind].size
        row = shape[0] if shape else 1
        if row % elements:
            refuse(self._where, f"tensor {name!r}: rows of {row} elements, no multiple of its blocks of {elements}")
        return math.prod(shape) // elements * size


def _is_big(head: bytes) -> bool:
    return head[:4] == MAGIC and head[4:7] == b"\0\0\0" and head[7:8] in {b"\1", b"\2", b"\3"}


def _alignment(metadata: dict[str, Any], where: str) -> int:
    alignment = metadata.get("general.alignment", ALIGNMENT)
    if type(alignment) is not int or not 0 < alignment <= _MAX_ALIGNMENT or alignment & (alignment - 1):
        refuse(where, f"an alignment of {alignment!r}, where a power of two was expected")
    return alignment


def _check(tensor: Tensor, size: int, alignment: int, where: str) -> None:
    if tensor.start % alignment:
        refuse(where, f"tensor {tensor.name!r} starts at {tensor.start}, no multiple of {alignment}")
    if tensor.start + (tensor.size or 0) > size:
        needs = "" if tensor.size is None else f" and takes {tensor.size} bytes"
        refuse(where, f"tensor {tensor.name!r} starts at {tensor.start}{needs}, where there are {max(size, 0)}")
