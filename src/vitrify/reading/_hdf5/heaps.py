"""Heaps: where names, values of variable length and dense lists lie.

Source: HDF5 File Format Specification 3.0, sections III.D (local), III.E (global) and III.G (fractal).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vitrify.reading._hdf5.image import bytes_for, text
from vitrify.reading._hdf5.trees import new_tree

if TYPE_CHECKING:
    from vitrify.reading._hdf5.image import Cursor, Image

_LARGE = 1  # records of this type lead to objects that are too large for a heap's blocks


@dataclass(frozen=True)
class LocalHeap:
    """The names of an old group."""

    image: Image
    data: memoryview

    def name(self, offset: int) -> str:
        """Return the name at an offset."""
        return text(self.image.name(self.data, offset, "a heap of names"))


def local_heap(image: Image, address: int | None) -> LocalHeap:
    """Return the local heap at an address."""
    cursor = image.block(address, 8 + 2 * image.length_size + image.address_size, b"HEAP", 0)
    cursor.skip(3)
    size = cursor.length()
    cursor.length()
    return LocalHeap(image, image.take(cursor.address(), size, "a heap of names"))


class GlobalHeap:
    """Values of variable length, in collections that are read once each."""

    def __init__(self, image: Image) -> None:
        """Read nothing yet."""
        self._image = image
        self._known: dict[int, dict[int, memoryview]] = {}

    def object(self, address: int | None, number: int) -> memoryview:
        """Return an object's bytes.

        Raises:
            MalformedError: There is none.
        """
        if address is None:
            self._image.refuse("a value of variable length that is nowhere")
        if address not in self._known:
            self._known[address] = self._read(address)
        if number not in self._known[address]:
            self._image.refuse(f"no object {number} in the heap at {address}")
        return self._known[address][number]

    def _read(self, address: int) -> dict[int, memoryview]:
        image = self._image
        head = image.block(address, 8 + image.length_size, b"GCOL", 1)
        head.skip(3)
        cursor = image.cursor(image.take(address, head.length(), "a heap of values"), "a heap of values")
        cursor.skip(head.at)
        found: dict[int, memoryview] = {}
        while cursor.left >= 8 + image.length_size:
            image.step()
            number = cursor.uint(2)
            cursor.skip(6)
            size = cursor.length()
            if not number:  # the free space at the end
                break
            image.keep()
            found[number] = cursor.take(size)
            cursor.skip(min(-size % 8, cursor.left))
        return found


class FractalHeap:
    """The links or attributes of an object that has many."""

    def __init__(self, image: Image, address: int | None) -> None:
        """Read the heap's header.

        Raises:
            MalformedError: It is damaged.
            LimitExceededError: Its blocks went through filters.
        """
        self._image = image
        size = 26 + 12 * image.length_size + 3 * image.address_size
        cursor = image.block(address, size, b"FRHP", 0)
        self.id_size = cursor.uint(2)
        filters = cursor.uint(2)
        flags = cursor.uint(1)
        self._checked = bool(flags & 2)
        largest = cursor.uint(4)
        cursor.length()
        self._large = cursor.address()
        cursor.skip(9 * image.length_size + image.address_size)
        self._width, self._start, self._most = cursor.uint(2), cursor.length(), cursor.length()
        bits = cursor.uint(2)
        cursor.skip(2)
        self._root, self._rows = cursor.address(), cursor.uint(2)
        if filters:
            image.exceed("a list that was compressed, which is not read here")
        image.verify(cursor.view, "a fractal heap")
        if not (_power(self._start) and _power(self._most) and self._start <= self._most and _power(self._width)):
            image.refuse("a fractal heap whose blocks double from no power of two")
        if not 0 < bits <= 64:  # noqa: PLR2004 (bits of an offset)
            image.refuse(f"a fractal heap of 2^{bits} bytes")
        self._offset_size = -(-bits // 8)
        self._length_size = min(-(-(self._most.bit_length() - 1) // 8), bytes_for(largest))

    def object(self, name: memoryview) -> memoryview:
        """Return the bytes that a heap ID leads to.

        Raises:
            MalformedError: They are not in the heap.
            LimitExceededError: They are not in its blocks but somewhere else in the file.
        """
        cursor = self._image.cursor(name, "a heap ID")
        kind = cursor.uint(1) >> 4
        if kind == 2:  # noqa: PLR2004 (a tiny object is its own ID)
            size = (name[0] & 0x0F) + 1
            return cursor.take(size)
        if kind == 1:
            return self._outside(cursor)
        offset, size = cursor.uint(self._offset_size), cursor.uint(self._length_size)
        address, start, block = self._find(offset)
        if offset - start + size > block:
            self._image.refuse("an object of a heap that does not lie in one block")
        return self._image.take((address or 0) + offset - start, size, "an object of a heap")

    def _outside(self, cursor: Cursor) -> memoryview:
        """Return an object that is too large for a block, whose ID says where it is or which record of a tree does."""
        image = self._image
        if self.id_size > image.address_size + image.length_size:
            return image.take(cursor.address(), cursor.length(), "a large object of a heap")
        number = bytes(cursor.take(min(image.length_size, cursor.left))).ljust(image.length_size, b"\0")
        records = (image.cursor(one, "the record of a large object") for one in new_tree(image, self._large, (_LARGE,)))
        found = {bytes(one.view[-image.length_size :]): one for one in records}.get(number)
        if found is None:
            image.refuse("no record of a large object of a heap")
        return image.take(found.address(), found.length(), "a large object of a heap")

    def _find(self, offset: int) -> tuple[int | None, int, int]:
        """Return address, offset and size of the direct block that holds an offset."""
        address, rows, base = self._root, self._rows, 0
        if not rows:
            self._open(address, b"FHDB", 0)
            return address, 0, self._start
        while True:
            row, size = 0, self._start
            left = offset - base
            while left >= size * self._width:
                left -= size * self._width
                size = size * 2 if row else size
                row += 1
            if row >= rows:
                self._image.refuse("an object outside of its heap")
            column = left // size
            cursor = self._open(address, b"FHIB", base, (row * self._width + column + 1) * self._image.address_size)
            cursor.skip((row * self._width + column) * self._image.address_size)
            address, base = cursor.address(), offset - left % size
            if size <= self._most:
                self._open(address, b"FHDB", base)
                return address, base, size
            rows = (size // (self._start * self._width)).bit_length()

    def _open(self, address: int | None, signature: bytes, offset: int, more: int = 0) -> Cursor:
        size = 5 + self._image.address_size + self._offset_size
        cursor = self._image.block(address, size + more, signature, 0)
        cursor.address()
        if cursor.uint(self._offset_size) != offset:
            self._image.refuse("a block of a heap that belongs somewhere else in it")
        return cursor


def _power(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0
