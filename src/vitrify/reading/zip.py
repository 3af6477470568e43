"""ZIP files, read without believing them: one reader for looking, scanning and loading.

The directory at the end of a ZIP file says what is in it, and says most of it again before each member; readers
differ in which of the two they take, in which of two equal names, and in where they begin. So a file is taken to be
honest only where all agree and every byte of it is accounted for: :meth:`Zip.findings` lists where not, and loading
(``strict``) refuses it. Source: PKWARE APPNOTE 6.3.9.
"""

from __future__ import annotations

import copy
import re
import zlib
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from vitrify.core.errors import MalformedError
from vitrify.core.report import Finding
from vitrify.reading import _zip_anomalies, _zip_records
from vitrify.reading._tar_records import is_header
from vitrify.reading.malformed import exceed, refuse
from vitrify.reading.once import once

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAGIC = b"PK\x03\x04"
STORED = 0
DEFLATED = 8

MIN_TOTAL = 48 * 1024 * 1024
MAX_RATIO = 50
"""All that is read, the same twice counting twice, is at most ``MAX_RATIO`` times the file, or ``MIN_TOTAL`` bytes."""

_CHUNK = 1024 * 1024
_GLOBAL = re.compile(rb"(?:^|\n)[ci][\w.]+\n[\w.]+\n")


class Member(NamedTuple):
    """One member as the directory has it.

    Attributes:
        name: Its name; it ends in a slash for a folder.
        size: Bytes of its content.
        packed: Bytes that it takes in the file.
        offset: Where these begin.
        method: How it is packed: ``STORED``, ``DEFLATED``, or another number that is not read here.
        crc: CRC-32 of its content.
        flags: General purpose flags; the lowest bit says that it is encrypted.
    """

    name: str
    size: int
    packed: int
    offset: int
    method: int
    crc: int
    flags: int


class Zip:
    """A ZIP file in memory. Its directory is read at once, its members when they are asked for.

    Args:
        view: The bytes, read-only.
        where: What they are, for messages.
        strict: Whether to refuse a file with any finding, as loading must.
        paths: Whether its names are paths, as they are where somebody may unpack it; else they are only names.

    Raises:
        MalformedError: It is no ZIP file, or its directory points to what is not there.
        LimitExceededError: It has more than a million members.
    """

    def __init__(self, view: memoryview, *, where: str, strict: bool = False, paths: bool = True) -> None:
        """Read the directory and the header of each member; no content."""
        self._view = view
        self._paths = paths
        self._renew(where)
        self._end = _zip_records.ending(view, where)
        self._entries = tuple(_zip_records.entries(view, self._end, where))
        self._locals = tuple(_zip_records.local(view, entry, where) for entry in self._entries)
        members: dict[str, Member] = {}
        for entry, local in zip(self._entries, self._locals, strict=True):
            if local.data + entry.packed > self._end.start:
                refuse(where, f"member {entry.name!r:.200} goes beyond the beginning of the directory")
            facts = (entry.size, entry.packed, local.data, entry.method, entry.crc, entry.flags)
            members.setdefault(entry.name, Member(entry.name, *facts))
        self.members: Mapping[str, Member] = MappingProxyType(members)
        """The members by name, in the order of the directory; of two with one name the first."""
        if strict:
            self.require_honest()

    def _renew(self, where: str) -> None:
        """Begin to count, and to name, anew."""
        self._where = where
        self._left = max(MIN_TOTAL, MAX_RATIO * self._view.nbytes)
        self._findings: tuple[Finding, ...] | None = None

    @property
    def comment(self) -> bytes:
        """What stands behind the end of the directory."""
        return self._end.comment

    @property
    def start(self) -> int:
        """Where its first member's header lies; where there is no member, its directory."""
        return min((entry.header for entry in self._entries), default=self._end.start)

    def __contains__(self, name: str) -> bool:
        return name in self.members

    def read(self, name: str) -> memoryview:
        """Return a member's content, its CRC checked; a stored one is not copied.

        Raises:
            MalformedError: There is no such member, or it is not what the directory says.
            LimitExceededError: It is packed in a way that is not read here, or all that was read is too much.
        """
        content = self.view_raw(name)
        if zlib.crc32(content) != self.members[name].crc:
            refuse(self._where, f"member {name!r:.200} is not what its checksum in the directory says")
        return content

    def view_raw(self, name: str) -> memoryview:
        """Return a member's content without its CRC checked: for numbers that nothing runs, however large.

        Raises:
            MalformedError: There is no such member, or it is not what the directory says.
            LimitExceededError: It is packed in a way that is not read here, or all that was read is too much.
        """
        if name not in self.members:
            refuse(self._where, f"no member {name!r:.200}")
        member = self.members[name]
        packed = self._view[member.offset : member.offset + member.packed]
        if member.flags & 1:
            refuse(self._where, f"member {name!r:.200} is encrypted")
        if member.method not in {STORED, DEFLATED}:
            exceed(self._where, f"member {name!r:.200} is packed by method {member.method}, which is not read here")
        # Stored ones count as well: whoever reads one a thousand times makes a thousand things of it.
        self._left -= member.size
        if self._left < 0:
            exceed(
                self._where, f"member {name!r:.200} and what was read before is more than a file of this size may be"
            )
        if member.method == DEFLATED:
            return self._inflate(member, packed)
        if member.size != member.packed:
            refuse(self._where, f"member {name!r:.200} has two sizes")
        return packed

    def head(self, name: str, size: int) -> bytes:
        """Return the first bytes of a member, at most ``size``, at the cost of these: for a look, unchecked.

        A member that cannot be read gives none.
        """
        member = self.members[name]
        packed = self._view[member.offset : member.offset + member.packed]
        if member.flags & 1 or member.method not in {STORED, DEFLATED}:
            return b""
        if member.method == STORED:
            return bytes(packed[:size])
        try:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed[: size + _CHUNK], size)
        except zlib.error:
            return b""

    def findings(self) -> tuple[Finding, ...]:
        """Return what honest writers never make, and what could not be looked at."""
        if self._findings is None:
            self._findings = tuple(self._look())
        return self._findings

    def require_honest(self) -> None:
        """Refuse the file if there is any finding.

        Raises:
            MalformedError: There is one; the message is the first of them.
        """
        if found := self.findings():
            refuse(found[0].place, found[0].message, remedy=found[0].remedy)

    def _look(self) -> Iterator[Finding]:
        found = _zip_anomalies.of(self._view, self._end, self._entries, self._locals, self._where)
        yield from (one for one in found if self._paths or one.rule != _zip_anomalies.NAME)
        total = sum(entry.size for entry in self._entries if entry.method != STORED)
        if total > max(MIN_TOTAL, MAX_RATIO * self._view.nbytes):
            message = f"its members unpack to {total} bytes, {total // max(1, self._view.nbytes)} times its size"
            remedy = "unpack it with a limit, and look at its members one by one"
            yield Finding(place=self._where, message=message, rule="zip-bomb", verdict="not checked", remedy=remedy)
        text = self.comment.decode("utf-8", "replace")
        plain = all(char.isprintable() or char in "\t\r\n" for char in text) and "\ufffd" not in text
        if self.comment and (not plain or b"PK" in self.comment or _GLOBAL.search(self.comment)):
            message = f"{len(self.comment)} bytes after the directory that are no comment"
            yield _zip_anomalies.finding(self._where, message, "zip-hidden-bytes")

    def _inflate(self, member: Member, packed: memoryview) -> memoryview:
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            # One byte more than was declared shows a member that would go on.
            content = unpacker.decompress(packed, member.size + 1)
        except zlib.error as error:
            refuse(self._where, f"member {member.name!r:.200} is damaged ({error})")
        if len(content) != member.size or not unpacker.eof or unpacker.unused_data:
            refuse(self._where, f"member {member.name!r:.200} is not as long as the directory says")
        return memoryview(content)


def ends_like_zip(view: memoryview) -> bool:
    """Say, at the cost of a look at the end, whether this may be a ZIP file, whatever it begins with.

    A TAR file whose last member is one is none: what is behind a member shows where that ends.
    """
    tail = bytes(view[-_zip_records.TAIL :])
    found = tail.rfind(_zip_records.END)
    if found < 0 or not is_header(view):
        return found >= 0
    return _zip_records.comment_ends(tail, found)


def opened(view: memoryview, *, where: str) -> Zip:
    """Return the ZIP file in these bytes; while they are at hand its directory is read once, whoever asks.

    That it is none is kept too: a broken file may have as many entries as an honest one.

    Raises:
        MalformedError: As of :class:`Zip`.
        LimitExceededError: As of :class:`Zip`.
    """
    kept = _tried(view, "")
    if isinstance(kept, MalformedError):
        msg = f"{where}{kept.message}"
        raise type(kept)(msg, remedy=kept.remedy)
    fresh = copy.copy(kept)
    fresh._renew(where)  # noqa: SLF001 (our own class)
    return fresh


@once
def _tried(view: memoryview, where: str) -> Zip | MalformedError:
    try:
        return Zip(view, where=where)
    except MalformedError as error:
        error.__traceback__ = error.__context__ = error.__cause__ = None  # their frames would keep the view
        return error
