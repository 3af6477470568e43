"""The superblock: where the file begins, how wide its addresses are, where its root is.

Source: HDF5 File Format Specification 3.0, section II.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vitrify.reading._hdf5.image import Image
from vitrify.reading.hdf5_start import SIGNATURE, start
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from vitrify.reading._hdf5.image import Cursor

_WIDTHS = (2, 4, 8)
_BYTES = 256
_LATEST_WITH_TABLE = 1
_LATEST = 3


@dataclass(frozen=True)
class Superblock:
    """What it says.

    Attributes:
        image: The bytes from it on.
        start: How many bytes of the user are before it.
        version: 0 to 3.
        root: Address of the root group's object header.
        extension: Address of the object header with what did not fit in here.
        driver: Whether the file is a part of several, put together by a driver.
        end: How many bytes from the superblock on belong to HDF5.
    """

    image: Image
    start: int
    version: int
    root: int | None
    extension: int | None
    driver: bool
    end: int


def read(view: memoryview, *, where: str) -> Superblock:
    """Return the superblock.

    Raises:
        MalformedError: There is none, it is cut off or damaged, or the file is.
    """
    begin = start(view)
    if begin is None:
        refuse(where, "no HDF5 file: it has no superblock")
    image = Image(view[begin:], where=where)
    cursor = image.cursor(image.view[:_BYTES], "the superblock")
    cursor.skip(len(SIGNATURE))
    version = cursor.uint(1)
    if version > _LATEST:
        image.refuse(f"superblock of version {version}, known are 0 to {_LATEST}")
    table = version <= _LATEST_WITH_TABLE
    found = _with_table(cursor, image, begin, version) if table else _plain(cursor, image, begin, version)
    if found.end > len(image.view):
        image.refuse(f"cut off: {len(image.view)} of {found.end} bytes")
    return found


def _with_table(cursor: Cursor, image: Image, begin: int, version: int) -> Superblock:
    cursor.skip(4)  # versions of parts that never had a second one
    _widths(cursor, image)
    cursor.skip(1 + 4 + 4 + (4 if version else 0))  # reserved, sizes of tree nodes, flags
    base = cursor.address()
    cursor.address()  # free space
    end = cursor.address()
    driver = cursor.address()
    cursor.length()  # the root's entry: its name
    root = cursor.address()
    return Superblock(image, begin, version, root, None, driver is not None, _end(image, end, base, begin))


def _plain(cursor: Cursor, image: Image, begin: int, version: int) -> Superblock:
    _widths(cursor, image)
    cursor.skip(1)
    base = cursor.address()
    extension = cursor.address()
    end = cursor.address()
    root = cursor.address()
    image.verify(image.take(0, cursor.at + 4, "the superblock"), "the superblock")
    return Superblock(image, begin, version, root, extension, driver=False, end=_end(image, end, base, begin))


def _widths(cursor: Cursor, image: Image) -> None:
    image.address_size, image.length_size = cursor.uint(1), cursor.uint(1)
    if image.address_size not in _WIDTHS or image.length_size not in _WIDTHS:
        image.refuse(f"addresses of {image.address_size} bytes and lengths of {image.length_size}")


def _end(image: Image, end: int | None, base: int | None, begin: int) -> int:
    """Return the end counted from the superblock: it is written as counted from the base that was true back then."""
    if end is None or base is None:
        image.refuse("the superblock names no base or no end")
    if base not in {0, begin}:
        image.refuse(f"its addresses count from {base}, but it starts at {begin}")
    return end - base
