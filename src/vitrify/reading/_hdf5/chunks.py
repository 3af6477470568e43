"""Chunks: a dataset that lies in pieces, put together within a limit.

Source: HDF5 File Format Specification 3.0, sections III.A.1 (the old index) and VII (the new ones).
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.reading._hdf5 import storage
from vitrify.reading._hdf5.trees import CHUNK, old_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.reading._hdf5.image import Image

Place = tuple[int, int, int, tuple[int, ...]]
"""Address, stored size, mask of the filters that were left out, offsets in elements."""


@dataclass(frozen=True)
class Array:
    """A chunked dataset.

    Attributes:
        layout: Where the chunks are.
        filters: What was done to them, in order.
        shape: Of the dataset.
        size: Bytes of an element.
        fill: The bytes of an element that no chunk holds.
    """

    layout: storage.Layout
    filters: tuple[storage.Filter, ...]
    shape: tuple[int, ...]
    size: int
    fill: bytes

    @property
    def chunk(self) -> int:
        """Bytes of a chunk without filters."""
        return math.prod(self.layout.chunk) * self.size


def assemble(image: Image, array: Array, most: int) -> bytes:
    """Return the elements in C order; ``most`` is how many bytes there may be, of the dataset and of all its chunks.

    Raises:
        MalformedError: A chunk is damaged, or not where it should be.
        LimitExceededError: They are more, or need a filter or an index that is not read here.
    """
    import numpy as np

    parts, shape = array.layout.chunk, array.shape
    if len(parts) != len(shape):
        image.refuse(f"chunks of {len(parts)} dimensions in a dataset of {len(shape)}")
    total = math.prod(-(-length // part) for length, part in zip(shape, parts, strict=True)) * array.chunk
    if max(array.chunk, total) > most:
        image.exceed(f"chunks of {max(array.chunk, total)} bytes, more than {most}")
    whole = np.full(shape, np.void(array.fill), dtype=f"V{array.size}")
    seen = set()
    for address, stored, mask, offsets in _places(image, array):
        outside = any(at % part or at >= end for at, part, end in zip(offsets, parts, shape, strict=True))
        if outside or offsets in seen:
            image.refuse(f"a chunk at {offsets}, outside of its dataset or there twice")
        seen.add(offsets)
        data = _undo(image, image.take(address, stored, "a chunk"), array, mask)
        block: Any = np.frombuffer(data, dtype=whole.dtype).reshape(parts)
        there = tuple(slice(at, at + part) for at, part in zip(offsets, parts, strict=True))
        room = whole[there].shape
        whole[there] = block[tuple(slice(0, length) for length in room)]
    return whole.tobytes()


def _places(image: Image, array: Array) -> Iterator[Place]:
    layout, shape, chunk = array.layout, array.shape, array.chunk
    if layout.address is None:
        return
    kind = storage.INDICES[layout.index]
    if kind == "tree":
        for key, address in old_tree(image, layout.address, CHUNK, 8 + 8 * (len(shape) + 1)):
            cursor = image.cursor(key, "a chunk's key")
            stored, mask = cursor.uint(4), cursor.uint(4)
            yield address, stored, mask, tuple(cursor.uint(8) for _ in shape)
    elif kind == "single":
        yield layout.address, layout.size if array.filters and layout.size else chunk, 0, (0,) * len(shape)
    elif kind == "implicit":
        address, counts = layout.address, [range(0, end, part) for end, part in zip(shape, layout.chunk, strict=True)]
        for offsets in _product(counts):
            image.step()
            yield address, chunk, 0, offsets
            address += chunk
    else:
        image.exceed(f"chunks found by a {kind}, which is not read here")


def _product(ranges: list[range]) -> Iterator[tuple[int, ...]]:
    if not ranges:
        yield ()
        return
    for first in ranges[0]:
        for rest in _product(ranges[1:]):
            yield (first, *rest)


def _undo(image: Image, data: memoryview, array: Array, mask: int) -> memoryview:
    """Undo the filters, last applied first; nothing in between may be larger than a chunk and its checksum."""
    chunk = array.chunk
    for number, step in reversed(tuple(enumerate(array.filters))):
        if mask >> number & 1:
            continue
        name = storage.BUILT_IN.get(step.number)
        if name == "deflate":
            data = _inflate(image, data, chunk + 4)
        elif name == "fletcher32":
            data = data[:-4]
        elif name == "shuffle":
            data = _unshuffle(data, array.size)
        else:
            image.exceed(f"the filter {step.name or step.number}, which is not undone here")
    if len(data) != chunk:
        image.refuse(f"a chunk of {len(data)} bytes, expected {chunk}")
    return data


def _inflate(image: Image, data: memoryview, most: int) -> memoryview:
    inflater = zlib.decompressobj()
    try:
        found = inflater.decompress(data, most)
    except zlib.error as error:
        image.refuse(f"a chunk that does not inflate ({error})")
    if not inflater.eof:
        image.refuse("a chunk that inflates to more than it may, or is cut off")
    return memoryview(found)


def _unshuffle(data: memoryview, size: int) -> memoryview:
    import numpy as np

    count = len(data) // size
    table = np.frombuffer(data[: count * size], np.uint8).reshape(size, count)
    return memoryview(table.T.tobytes() + bytes(data[count * size :]))
