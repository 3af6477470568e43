"""The records of a ZIP file: its end, its directory, and the header before each member.

Source: PKWARE APPNOTE 6.3.9, sections 4.3.7 (local header), 4.3.9 (data descriptor), 4.3.12 (central directory),
4.3.14-4.3.16 (ends), 4.5.3 (zip64).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_MEMBERS = 1_000_000
END = b"PK\x05\x06"
DESCRIPTOR = b"PK\x07\x08"
DEFERRED = 1 << 3
"""The flag of a member whose sizes stand behind its data."""
ALL_ONES_32 = 0xFFFFFFFF

_END = struct.Struct("<4s4H2IH")
_LOCATOR = struct.Struct("<4sIQI")
_END64 = struct.Struct("<4sQ2H2I4Q")
_ENTRY = struct.Struct("<4s2x3H4x3I3H4x2I")
_LOCAL = struct.Struct("<4s2x2H4x3I2H")
TAIL = _END.size + 0xFFFF
"""Bytes at the end of a file in which the end of the directory stands, because of a comment behind it."""
_UTF8 = 1 << 11
_ZIP64 = 1
_UNICODE_PATH = 0x7075
_TEXTS = frozenset({_UNICODE_PATH})
"""Blocks that are compared with what they should say."""
_KNOWN = frozenset({_ZIP64, 0x000A, 0x000D, 0x5455, 0x5855, 0x7855, 0x7875, 0x9901, 0xA220, 0xCAFE, 0xD935})
"""Times, owners, encryption, alignment: numbers, of which none is long."""
_LONGEST_BLOCK = 32


class Ending(NamedTuple):
    """Where the directory lies, and what is odd about the end of the file.

    ``shift`` is how far all offsets are off, because of bytes before the archive.
    """

    start: int
    stop: int
    members: int
    shift: int
    comment: bytes
    oddities: tuple[str, ...]


class Entry(NamedTuple):
    """One entry of the directory.

    ``header`` is where its local header lies, ``needs`` the version that reads it, ``other`` a second name it claims,
    ``strange`` how many bytes of its extra field are of no kind that is known.
    """

    name: str
    raw: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    header: int
    attributes: int
    needs: int
    other: bytes | None
    strange: int


@dataclass(frozen=True, slots=True)
class Local:
    """What stands before a member: the same again, except where the flags defer it."""

    raw: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    data: int
    strange: int


def ending(view: memoryview, where: str) -> Ending:
    """Find the directory.

    Raises:
        MalformedError: There is no end, or it points outside of the file.
        LimitExceededError: It has too many members.
    """
    first = max(0, view.nbytes - TAIL)
    tail = bytes(view[first:])
    found = tail.rfind(END)
    if found < 0 or found + _END.size > len(tail):
        refuse(where, "no zip file: it has no end of a zip directory")
    comment = tail[found + _END.size :]
    numbers, stop, oddities = _numbers(view, first + found, where)
    disk, home, here, count, size, offset, length = numbers
    if disk or home or here != count:
        refuse(where, "a part of a zip archive on several disks")
    if count > MAX_MEMBERS:
        exceed(where, f"{count} members, more than {MAX_MEMBERS}")
    start = stop - size
    if start < 0 or offset > start:
        refuse(where, "its directory is said to lie outside of it")
    if len(comment) != length:
        oddities.append(f"{len(comment)} bytes after its end, which declares {length}")
    if (again := tail.find(END, max(0, start - first), found)) >= 0:
        oddities.append(f"a second end of a directory at {first + again}")
    if start != offset:
        oddities.append(f"{start - offset} bytes before the archive, or between its directory and its end")
    return Ending(start, stop, count, start - offset, comment, tuple(oddities))


def comment_ends(tail: bytes, found: int) -> bool:
    """Say whether the comment behind the end at ``found`` is as long as that says."""
    if found + _END.size > len(tail):
        return False
    length: int = _END.unpack_from(tail, found)[7]
    return found + _END.size + length == len(tail)


def _numbers(view: memoryview, at: int, where: str) -> tuple[tuple[int, ...], int, list[str]]:
    """Return the numbers of the end, those of the zip64 end where there is one; where the directory stops; oddities."""
    _, *narrow = _END.unpack_from(view, at)
    wide = _ending64(view, at, where)
    if wide is None:
        if ALL_ONES_32 in narrow[4:6]:
            refuse(where, "its zip64 end is missing")
        return tuple(narrow), at, []
    stop, declared, numbers = wide
    oddities = []
    ones = (0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, ALL_ONES_32, ALL_ONES_32)
    if any(short not in {full, long} for short, full, long in zip(narrow, ones, numbers, strict=False)):
        oddities.append("its two ends (zip and zip64) disagree")
    if declared != stop:
        oddities.append("the zip64 end is not where its locator says")
    return (*numbers, narrow[6]), stop, oddities


def _ending64(view: memoryview, at: int, where: str) -> tuple[int, int, tuple[int, ...]] | None:
    """Return where the zip64 end lies, where its locator says that, and its numbers; None where there is none."""
    place = at - _LOCATOR.size
    if place < 0 or bytes(view[place : place + 4]) != b"PK\x06\x07":
        return None
    _, disk, declared, disks = _LOCATOR.unpack_from(view, place)
    if disk or disks > 1:
        refuse(where, "a part of a zip archive on several disks")
    # Bytes before the archive shift it; without an extensible part it lies right before its locator.
    for start in (declared, place - _END64.size):
        if 0 <= start <= place - _END64.size and bytes(view[start : start + 4]) == b"PK\x06\x06":
            _, length, _, _, *numbers = _END64.unpack_from(view, start)
            if start + 12 + length == place:
                return start, declared, tuple(numbers)
    return refuse(where, "a zip64 locator that leads to no zip64 end")


def entries(view: memoryview, end: Ending, where: str) -> Iterator[Entry]:
    """Yield the entries of the directory in its order.

    Raises:
        MalformedError: An entry is cut off, or its count is not the declared one.
    """
    at, count = end.start, 0
    while at < end.stop:
        if at + _ENTRY.size > end.stop:
            refuse(where, "its directory is cut off")
        fields = _ENTRY.unpack_from(view, at)
        signature, needs, flags, method, crc, packed, size, length, extra, comment, attributes, header = fields
        if signature != b"PK\x01\x02":
            refuse(where, f"no directory entry at {at}")
        stop = at + _ENTRY.size + length + extra + comment
        if stop > end.stop:
            refuse(where, "its directory is cut off")
        raw = bytes(view[at + _ENTRY.size : at + _ENTRY.size + length])
        field = bytes(view[at + _ENTRY.size + length : stop - comment])
        blocks = _extra(field)
        size, packed, header = _widened(blocks.get(_ZIP64, b""), (size, packed, header), where)
        other = blocks[_UNICODE_PATH][5:] if _UNICODE_PATH in blocks else None
        place = header + end.shift
        name = decode(raw, flags)
        odd = _strange(field) if field else 0
        yield Entry(name, raw, flags, method, crc, packed, size, place, attributes, needs & 0xFF, other, odd)
        at, count = stop, count + 1
        if count > MAX_MEMBERS:
            exceed(where, f"more than {MAX_MEMBERS} members")
    if count != end.members:
        refuse(where, f"{count} members in its directory, {end.members} at its end")


def local(view: memoryview, entry: Entry, where: str) -> Local:
    """Read the header before a member.

    Raises:
        MalformedError: There is none.
    """
    at = entry.header
    if not 0 <= at <= view.nbytes - _LOCAL.size or bytes(view[at : at + 4]) != b"PK\x03\x04":
        refuse(where, f"no member {entry.name!r:.200} where its directory says")
    _, flags, method, crc, packed, size, length, extra = _LOCAL.unpack_from(view, at)
    data = at + _LOCAL.size + length + extra
    raw = bytes(view[at + _LOCAL.size : at + _LOCAL.size + length])
    if ALL_ONES_32 in {packed, size}:
        blocks = _extra(bytes(view[data - extra : data]))
        size, packed, _ = _widened(blocks.get(_ZIP64, b""), (size, packed, 0), where)
    odd = _strange(bytes(view[data - extra : data])) if extra else 0
    return Local(raw, flags, method, crc, packed, size, data, odd)


def descriptor(view: memoryview, entry: Entry, at: int) -> int:
    """Return the bytes of the data descriptor that stands at a place and agrees with the directory; 0 for none."""
    for signature in (DESCRIPTOR, b""):
        for layout in ("<I2I", "<I2Q"):
            try:
                wanted = signature + struct.pack(layout, entry.crc, entry.packed, entry.size)
            except struct.error:
                continue
            if view[at : at + len(wanted)] == wanted:
                return len(wanted)
    return 0


def decode(raw: bytes, flags: int) -> str:
    """Return a name as text; what is no UTF-8 although it says so keeps its bytes, escaped."""
    return raw.decode("utf-8", "backslashreplace") if flags & _UTF8 else raw.decode("cp437")


def _extra(data: bytes) -> dict[int, bytes]:
    """Return the blocks of an extra field by their tag, the first of each; padding may end it."""
    blocks: dict[int, bytes] = {}
    at = 0
    while at + 4 <= len(data):
        tag, length = struct.unpack_from("<2H", data, at)
        blocks.setdefault(tag, data[at + 4 : at + 4 + length])
        at += 4 + length
    return blocks


def _strange(data: bytes) -> int:
    """Return how many bytes of an extra field are neither of a known kind nor padding: anything may hide there."""
    found = at = 0
    while at + 4 <= len(data):
        tag, length = struct.unpack_from("<2H", data, at)
        if at + 4 + length > len(data):
            break
        block = data[at + 4 : at + 4 + length]
        plain = tag in _TEXTS or (tag in _KNOWN and length <= _LONGEST_BLOCK)
        found += 0 if plain or _is_padding(block) else length
        at += 4 + length
    return found + (0 if _is_padding(data[at:]) else len(data) - at)


def _is_padding(block: bytes) -> bool:
    """Say whether it is one byte again and again, as writers align members."""
    return block.count(block[:1]) == len(block)


def _widened(block: bytes, numbers: tuple[int, int, int], where: str) -> tuple[int, int, int]:
    """Replace each number that is all ones by the next one of the zip64 block."""
    found, at = [], 0
    for number in numbers:
        if number != ALL_ONES_32:
            found.append(number)
            continue
        if at + 8 > len(block):
            refuse(where, "a zip64 number is missing")
        found.append(int.from_bytes(block[at : at + 8], "little"))
        at += 8
    return found[0], found[1], found[2]
