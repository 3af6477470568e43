"""How many elements a dataset has, where their bytes are, and what was done to them.

Source: HDF5 File Format Specification 3.0, sections IV.A.2.b (dataspace), .f (fill value), .h (external files),
.i (layout) and .l (filters).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vitrify.reading._hdf5 import header
from vitrify.reading._hdf5.heaps import local_heap

if TYPE_CHECKING:
    from vitrify.reading._hdf5.image import Cursor, Image

Kind = Literal["compact", "contiguous", "chunked", "virtual"]

MAX_RANK = 32
MAX_FILTERS = 32
BUILT_IN = {1: "deflate", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset"}
LZF = 32000
"""Comes compiled into h5py; nothing is searched for."""
_KINDS: tuple[Kind, ...] = ("compact", "contiguous", "chunked", "virtual")
_OLD, _THIRD, _FOURTH, _FIFTH = 2, 3, 4, 5
_RESERVED = 256  # filters below it are the library's own, and unnamed in the newer message
_SINGLE, _IMPLICIT, _FIXED, _EXTENSIBLE, _TREE = 1, 2, 3, 4, 5
INDICES = {0: "tree", 1: "single", 2: "implicit", 3: "fixed array", 4: "extensible array", 5: "new tree"}


@dataclass(frozen=True)
class Filter:
    """One step that was done to each chunk: its registered number, the name the file gives it, its parameters."""

    number: int
    name: str
    values: tuple[int, ...] = ()

    @property
    def native(self) -> bool:
        """Whether HDF5 has to find a library of that name on the machine, and run it."""
        return self.number not in BUILT_IN and self.number != LZF


@dataclass(frozen=True)
class Layout:
    """Where a dataset's bytes are.

    Attributes:
        kind: In the header, in one piece, in chunks, or in other datasets.
        address: Of the piece, of the index of the chunks, or of the list of the other datasets; None for nowhere yet.
        size: Bytes of the piece; of the one chunk there is, after its filters.
        chunk: Sizes of a chunk in elements.
        index: How the chunks are found, a key of ``INDICES``.
        held: The bytes themselves, where they are in the header.
        number: Which object of the heap lists the other datasets.
    """

    kind: Kind
    address: int | None = None
    size: int = 0
    chunk: tuple[int, ...] = ()
    index: int = 0
    held: memoryview | None = None
    number: int = 0


def read_shape(image: Image, message: header.Message) -> tuple[int, ...] | None:
    """Return the sizes of a dataspace, none for a single value; None for a dataspace without any value.

    Raises:
        MalformedError: It is damaged.
    """
    cursor = image.cursor(header.resolve(image, message), "a dataspace")
    version, rank, _ = cursor.uint(1), cursor.uint(1), cursor.uint(1)
    kind = 1
    if version == 1:
        cursor.skip(5)
    elif version == _OLD:
        kind = cursor.uint(1)
    else:
        image.refuse(f"a dataspace of version {version}")
    if rank > MAX_RANK:
        image.refuse(f"a dataspace of {rank} dimensions")
    sizes = tuple(cursor.length() for _ in range(rank))
    return None if kind == _OLD else sizes


def read_layout(image: Image, message: header.Message) -> Layout:
    """Return a layout.

    Raises:
        MalformedError: It is damaged, or of a version that is not known.
    """
    cursor = image.cursor(header.resolve(image, message), "a layout")
    version = cursor.uint(1)
    if 1 <= version <= _OLD:
        return _old_layout(cursor)
    if version not in {_THIRD, _FOURTH, _FIFTH}:
        image.refuse(f"a layout of version {version}")
    number = cursor.uint(1)
    kind = _kind(cursor, number)
    if kind == "compact":
        return Layout(kind, held=cursor.take(cursor.uint(2)))
    if kind == "contiguous":
        return Layout(kind, cursor.address(), cursor.length())
    if kind == "virtual":
        return Layout(kind, cursor.address(), number=cursor.uint(4))
    if version == _THIRD:
        rank = cursor.uint(1)
        address = cursor.address()
        return Layout(kind, address, chunk=_chunk(cursor, rank, 4))
    return _new_chunks(cursor, version)


def _kind(cursor: Cursor, number: int) -> Kind:
    if number >= len(_KINDS):
        cursor.image.refuse(f"a layout of class {number}")
    return _KINDS[number]


def _old_layout(cursor: Cursor) -> Layout:
    rank, kind = cursor.uint(1), _kind(cursor, cursor.uint(1))
    cursor.skip(5)
    if rank > MAX_RANK + 1:
        cursor.image.refuse(f"a layout of {rank} dimensions")
    address = None if kind == "compact" else cursor.address()
    sizes = [cursor.uint(4) for _ in range(rank)]
    if kind == "compact":
        return Layout(kind, held=cursor.take(cursor.uint(4)))
    if kind == "chunked":
        return Layout(kind, address, chunk=_sizes(cursor, sizes))
    return Layout(kind, address, math.prod(sizes))


def _new_chunks(cursor: Cursor, version: int) -> Layout:
    flags, rank, width = cursor.uint(1), cursor.uint(1), cursor.uint(1)
    if not 1 <= width <= 8:  # noqa: PLR2004 (bytes of an integer)
        cursor.image.refuse(f"chunk sizes of {width} bytes")
    chunk, index, size = _chunk(cursor, rank, width), cursor.uint(1), 0
    if index not in {_SINGLE, _IMPLICIT, _FIXED, _EXTENSIBLE, _TREE}:
        cursor.image.refuse(f"an index of chunks of type {index}")
    if index == _SINGLE and flags & 2:
        size = cursor.length() if version == _FOURTH else cursor.uint(width)
        cursor.skip(4)
    elif index in {_FIXED, _EXTENSIBLE, _TREE}:
        cursor.skip({_FIXED: 1, _EXTENSIBLE: 5, _TREE: 6}[index])
    return Layout("chunked", cursor.address(), size, chunk, index)


def _chunk(cursor: Cursor, rank: int, width: int) -> tuple[int, ...]:
    if not 1 < rank <= MAX_RANK + 1:
        cursor.image.refuse(f"chunks of {rank - 1} dimensions")
    return _sizes(cursor, [cursor.uint(width) for _ in range(rank)])


def _sizes(cursor: Cursor, sizes: list[int]) -> tuple[int, ...]:
    """Leave out the last size, which is an element's in bytes."""
    if not sizes or 0 in sizes:
        cursor.image.refuse(f"chunks of sizes {sizes[:-1]}")
    return tuple(sizes[:-1])


def read_filters(image: Image, message: header.Message) -> tuple[Filter, ...]:
    """Return the filters, in the order in which they were applied.

    Raises:
        MalformedError: The message is damaged.
    """
    cursor = image.cursor(header.resolve(image, message), "a list of filters")
    version, count = cursor.uint(1), cursor.uint(1)
    if version not in {1, 2} or count > MAX_FILTERS:
        image.refuse(f"a list of {count} filters, version {version}")
    cursor.skip(6 if version == 1 else 0)
    found = []
    for _ in range(count):
        number = cursor.uint(2)
        size = cursor.uint(2) if version == 1 or number >= _RESERVED else 0
        cursor.skip(2)
        values = cursor.uint(2)
        name = cursor.text(-(-size // 8) * 8 if version == 1 else size)
        found.append(Filter(number, name or BUILT_IN.get(number, ""), tuple(cursor.uint(4) for _ in range(values))))
        cursor.skip(4 if version == 1 and values % 2 else 0)
    return tuple(found)


def read_external(image: Image, message: header.Message) -> tuple[str, ...]:
    """Return the names of the files that hold a dataset's bytes.

    Raises:
        MalformedError: The message is damaged.
    """
    cursor = image.cursor(header.resolve(image, message), "a list of external files")
    cursor.skip(4 + 2)
    used = cursor.uint(2)
    heap, names = local_heap(image, cursor.address()), []
    for _ in range(used):
        image.step()
        names.append(heap.name(cursor.length()))
        cursor.length()
        cursor.length()
    return tuple(names)


def read_fill(image: Image, message: header.Message, size: int) -> bytes:
    """Return the bytes of an element that was never written; zeros where the file does not say.

    Raises:
        MalformedError: The message is damaged.
    """
    cursor = image.cursor(header.resolve(image, message), "a fill value")
    if message.kind == header.OLD_FILL:
        defined = True
    elif (version := cursor.uint(1)) == _THIRD:
        defined = bool(cursor.uint(1) & 0x20)
    else:
        cursor.skip(2)
        defined = bool(cursor.uint(1)) or version == 1
    value = bytes(cursor.take(cursor.uint(4))) if defined else b""
    return value if len(value) == size else bytes(size)
