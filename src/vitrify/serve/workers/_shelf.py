"""Shelves: memory that two processes see, so that arrays go between them without a system call a byte.

One side puts arrays there and tells the other where each lies (:class:`Slot`); the other takes copies. Numbers lie
there as they are; text and what may be missing is taken apart into plain arrays (:func:`vitrify.core.arrays.flatten`).
Nothing is pickled. Where the system can, the memory is sealed against shrinking: whoever reads from it is never killed
because the other side cut it off.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import re
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from vitrify.core.arrays import flatten, restore
from vitrify.core.errors import LimitExceededError, MalformedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.core.protocols import Arrays

    Array = np.ndarray[Any, Any]

MOST = 16 * 1024**3
"""Bytes that a shelf has at most."""
_LINE = 64
"""Arrays begin at multiples of so many bytes, which suits every vector instruction."""
_LEAST = 1 << 16
_RANK = 64
_PLAIN = "biufcmM"
_DATA = "data"
_DTYPE = re.compile(r"[<>|=][biufcmM][0-9]{1,2}(\[[0-9]{0,9}[a-zA-Z]{1,2}\])?")


class Slot(msgspec.Struct, frozen=True, array_like=True):
    """Where one plain array lies.

    Attributes:
        name: Of the array that it is a part of.
        part: Which part, as :func:`vitrify.core.arrays.flatten` calls it.
        dtype: NumPy's own text for it.
        shape: Its sizes.
        offset: Bytes from the start of the shelf.
    """

    name: str
    part: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


class Shelf:
    """One direction's memory, seen from one side."""

    def __init__(self, descriptor: int) -> None:
        """Take over an open file."""
        self.descriptor = descriptor
        self._map: mmap.mmap | None = None
        self._size = 0

    @classmethod
    def new(cls) -> Shelf:
        """Return an empty one, which has no name in any folder."""
        if sys.platform != "linux":
            with tempfile.TemporaryFile() as file:
                return cls(os.dup(file.fileno()))
        import fcntl

        descriptor = os.memfd_create("vitrify", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        return cls(descriptor)

    def put(self, arrays: Arrays) -> list[Slot]:
        """Write arrays over whatever lay there, and return where each is.

        Raises:
            UnsupportedModelError: An array holds something that has no portable form.
            LimitExceededError: They are larger than a shelf may be.
        """
        parts = [(name, *part) for name, array in arrays.items() for part in _parts(name, array)]
        slots, end = [], 0
        for name, part, array in parts:
            slots.append(Slot(name, part, array.dtype.str, array.shape, end))
            end += -(-array.nbytes // _LINE) * _LINE
        whole = self._room(end)
        for slot, (_, _, array) in zip(slots, parts, strict=True):
            if array.size:
                np.ndarray(slot.shape, array.dtype, buffer=whole, offset=slot.offset)[...] = array
        return slots

    def take(self, slots: Sequence[Slot]) -> Arrays:
        """Return copies of the arrays that lie there.

        Raises:
            MalformedError: A slot is none, or leads out of the shelf.
        """
        parts: dict[str, dict[str, Array]] = {}
        for slot in slots:
            parts.setdefault(slot.name, {})[slot.part] = self._copy(slot)
        return {
            name: found[_DATA] if len(found) == 1 and _DATA in found else restore(found, where=f"array {name[:200]!r}")
            for name, found in parts.items()
        }

    def close(self) -> None:
        """Let go of the memory."""
        self._map = None
        with contextlib.suppress(OSError):
            os.close(self.descriptor)
        self.descriptor = -1

    def _copy(self, slot: Slot) -> Array:
        dtype = _dtype(slot.dtype)
        if len(slot.shape) > _RANK or min(slot.shape, default=0) < 0 or slot.offset < 0:
            msg = f"array {slot.name[:200]!r}: no place of an array: {slot.shape} at {slot.offset}"
            raise MalformedError(msg)
        count = math.prod(slot.shape)
        if not count:
            return np.empty(slot.shape, dtype)
        end = slot.offset + count * dtype.itemsize
        if end > self._size:
            self._see(end)
        assert self._map is not None
        return np.ndarray(slot.shape, dtype, buffer=self._map, offset=slot.offset).copy()

    def _room(self, size: int) -> mmap.mmap:
        """Return the memory, made larger where it is too small."""
        if size > MOST:
            msg = f"the arrays are {size} bytes; at most {MOST} go to a worker at a time"
            raise LimitExceededError(msg, remedy="ask with fewer rows at a time")
        if self._map is None or size > self._size:
            there = os.fstat(self.descriptor).st_size
            wanted = max(_LEAST, there, 1 << max(size - 1, 1).bit_length())
            if wanted > there:
                os.ftruncate(self.descriptor, wanted)
            self._map, self._size = mmap.mmap(self.descriptor, wanted), wanted
        return self._map

    def _see(self, end: int) -> None:
        """Map what the other side has added."""
        size = os.fstat(self.descriptor).st_size
        if end > size:
            msg = f"an array ends at byte {end} of a shelf of {size}"
            raise MalformedError(msg)
        self._map, self._size = mmap.mmap(self.descriptor, size), size


def _parts(name: str, array: Array) -> list[tuple[str, Array]]:
    if type(array) is np.ndarray and array.dtype.kind in _PLAIN and array.dtype.char not in "gG":
        return [(_DATA, array)]
    return list(flatten(name, np.asanyarray(array)).items())


def _dtype(text: str) -> np.dtype[Any]:
    try:
        if _DTYPE.fullmatch(text):
            return np.dtype(text)
    except (TypeError, ValueError):
        pass
    msg = f"no element type of a plain array: {text[:40]!r}"
    raise MalformedError(msg)
