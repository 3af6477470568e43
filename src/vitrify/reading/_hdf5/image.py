"""The bytes of an HDF5 file and how they are counted: every address is compared with what is there.

An honest file spends some bytes on everything that it says, but a hostile one points a thousand times at the same
bytes. So each step of reading is counted, and a file may ask for a few more steps than it has bytes to pay for; what
is kept in memory is counted as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.reading._hdf5.checksum import lookup3
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from typing import NoReturn

FREE_STEPS = 20_000
STEP_BYTES = 4
"""No message, link or record of a real file is smaller than four of these; it may be read four times."""
BYTES_A_STEP = 16
"""Bytes of a name or a value that are one step."""
MAX_STEPS = 4_000_000
MAX_KEPT = 100_000
"""Names, attributes and values of variable length that are held at a time; each takes some hundred bytes."""
MAX_NAME = 1 << 16


class Image:
    """What lies between the superblock and the end of the file; addresses count from the superblock."""

    def __init__(self, view: memoryview, *, where: str, address_size: int = 8, length_size: int = 8) -> None:
        """Take the bytes from the superblock on."""
        self.view = view
        self.where = where
        self.address_size = address_size
        self.length_size = length_size
        self._steps = min(FREE_STEPS + len(view) // STEP_BYTES, MAX_STEPS)
        self._kept = 0

    def refuse(self, what: str) -> NoReturn:
        """Raise a MalformedError about this file."""
        refuse(self.where, what)

    def exceed(self, what: str) -> NoReturn:
        """Raise a LimitExceededError about this file."""
        exceed(self.where, what)

    def step(self, count: int = 1) -> None:
        """Count work.

        Raises:
            LimitExceededError: More was asked for than a file of this size can honestly need.
        """
        self._steps -= count
        if self._steps < 0:
            self.exceed("its structures refer to each other more often than a file of its size has reason to")

    def keep(self) -> None:
        """Count something that stays in memory.

        Raises:
            LimitExceededError: There is more of it than in any model.
        """
        self._kept += 1
        if self._kept > MAX_KEPT:
            self.exceed(f"more than {MAX_KEPT} names and values")

    def take(self, address: int | None, size: int, what: str) -> memoryview:
        """Return ``size`` bytes at an address.

        Raises:
            MalformedError: The address is undefined, or they do not lie in the file.
        """
        if address is None:
            self.refuse(f"{what} has no address")
        if address + size > len(self.view):
            self.refuse(f"{what} at {address}, {size} bytes long, ends after the {len(self.view)} bytes of the file")
        return self.view[address : address + size]

    def block(self, address: int | None, size: int, signature: bytes, version: int) -> Cursor:
        """Return what follows a structure's signature and the byte after it, which is its version or its type."""
        self.step()
        what = f"the structure {signature.decode()}"
        view = self.take(address, size, what)
        if bytes(view[:4]) != signature:
            self.refuse(f"no {signature.decode()} at {address}, where one should be")
        if view[4] != version:
            self.refuse(f"{what} at {address} is of version or type {view[4]}, expected {version}")
        return Cursor(self, view, 5, what)

    def verify(self, view: memoryview, what: str) -> None:
        """Compare the checksum at the end of a structure; its bytes count as work.

        Raises:
            MalformedError: It is another.
        """
        self.step(1 + len(view) // BYTES_A_STEP)
        if lookup3(view[:-4]) != int.from_bytes(view[-4:], "little"):
            self.refuse(f"the checksum of {what} is wrong")

    def name(self, view: memoryview, at: int, what: str) -> bytes:
        """Return the bytes from a place up to a NUL; they count as work, since many may share them.

        Raises:
            MalformedError: There is no NUL.
            LimitExceededError: It is longer than any honest name.
        """
        size, end = 64, -1
        while end < 0:
            window = bytes(view[at : at + size])
            end = window.find(b"\0")
            if end < 0 and len(window) < size:
                self.refuse(f"a name in {what} has no end")
            if size > MAX_NAME:
                self.exceed(f"a name in {what} of more than {MAX_NAME} bytes")
            size *= 8
        self.step(1 + end // BYTES_A_STEP)
        return window[:end]

    def cursor(self, view: memoryview, what: str) -> Cursor:
        """Return a cursor at the start of some bytes."""
        return Cursor(self, view, 0, what)


class Cursor:
    """A place in some bytes, moved by each thing that is taken."""

    def __init__(self, image: Image, view: memoryview, at: int, what: str) -> None:
        """Start at an offset; ``what`` names the bytes in messages."""
        self.image = image
        self.view = view
        self.at = at
        self.what = what

    @property
    def left(self) -> int:
        """Bytes that have not been taken."""
        return len(self.view) - self.at

    def take(self, size: int) -> memoryview:
        """Return the next bytes.

        Raises:
            MalformedError: There are not so many.
        """
        if size > self.left:
            self.image.refuse(f"{self.what} is cut off: {size} bytes wanted, {self.left} left")
        self.at += size
        return self.view[self.at - size : self.at]

    def skip(self, size: int) -> None:
        """Leave out some bytes, which have to be there."""
        self.take(size)

    def uint(self, size: int) -> int:
        """Return an unsigned integer of so many bytes, little-endian."""
        return int.from_bytes(self.take(size), "little")

    def length(self) -> int:
        """Return a size or count, as wide as the superblock says."""
        return self.uint(self.image.length_size)

    def address(self) -> int | None:
        """Return an address, None for the undefined one."""
        size = self.image.address_size
        value = self.uint(size)
        return None if value == (1 << 8 * size) - 1 else value

    def text(self, size: int) -> str:
        """Return text of a known size, up to its first NUL."""
        return text(bytes(self.take(size)))

    def name(self, *, pad: int = 1) -> str:
        """Return NUL-terminated text and move behind it, to a multiple of ``pad`` bytes from its start."""
        name = self.image.name(self.view, self.at, self.what)
        self.skip(-(-(len(name) + 1) // pad) * pad)
        return text(name)


def text(data: bytes) -> str:
    """Return text up to its first NUL; bytes that are no UTF-8 are kept as escapes."""
    return data.partition(b"\0")[0].decode("utf-8", "backslashreplace")


def bytes_for(limit: int) -> int:
    """Return how many bytes an integer takes that is at most ``limit``."""
    return max(limit.bit_length() - 1, 0) // 8 + 1
