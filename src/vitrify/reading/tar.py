"""TAR files, read without believing them and without unpacking them: members are views of the file's bytes.

The harm of a TAR file is done when it is unpacked: a name or a link that leads elsewhere, a device, two members of
one name. :meth:`Tar.findings` lists all that, and what readers could take differently; loading (``strict``) refuses
such a file. Source: POSIX.1-2017, pax; GNU tar's long names and large sizes.
"""

from __future__ import annotations

import posixpath
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from vitrify.core.report import Finding
from vitrify.reading import _member_names, _tar_records
from vitrify.reading._tar_records import BLOCK, FILES, FOLDER, HARD, SYMBOLIC, is_header
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.reading._tar_records import Header

_CHUNK = 1024 * 1024
_DEVICES = {ord("3"): "a device", ord("4"): "a device", ord("6"): "a named pipe"}
_KNOWN = frozenset({*FILES, FOLDER, HARD, SYMBOLIC, *_DEVICES, ord("S")})


class Member(NamedTuple):
    """One member that has content or is a link to one that has.

    Attributes:
        name: Its name, without a leading ``./``.
        size: Bytes of its content.
        offset: Where these begin.
        link: The member that it stands for; empty for a file of its own.
    """

    name: str
    size: int
    offset: int
    link: str


def is_tar(view: memoryview) -> bool:
    """Say, at the cost of one block, whether a TAR file begins here."""
    return is_header(view)


class Tar:
    """A TAR file in memory, uncompressed.

    Args:
        view: The bytes, read-only.
        where: What they are, for messages.
        strict: Whether to refuse a file with any finding, as loading must.

    Raises:
        MalformedError: It is no TAR file, or cut off.
        LimitExceededError: It has more than a million members.
    """

    def __init__(self, view: memoryview, *, where: str, strict: bool = False) -> None:
        """Read all headers; no content."""
        self._view = view
        self._where = where
        self._headers = tuple(_tar_records.headers(view, where))
        if not self._headers:
            refuse(where, "no TAR file: it has no member")
        self._sparse = frozenset(header.offset for header in self._headers if header.sparse)
        members: dict[str, Member] = {}
        for header in self._headers:
            name = _plain(header.name)
            if header.kind in FILES or header.kind in {HARD, SYMBOLIC}:
                link = _target(header) or "" if header.kind in {HARD, SYMBOLIC} else ""
                members.setdefault(name, Member(name, header.size, header.offset, link))
        self.members: Mapping[str, Member] = MappingProxyType(members)
        """The files and links by name, in their order; of two with one name the first."""
        if strict:
            self.require_honest()

    def __contains__(self, name: str) -> bool:
        return name in self.members

    def read(self, name: str) -> memoryview:
        """Return a member's content, not copied; of a link, that of the file that it stands for.

        Raises:
            MalformedError: There is no such member, or a link leads to none.
            LimitExceededError: It is stored with holes.
        """
        member = self.members.get(name)
        if member is not None and member.link:
            member = self.members.get(member.link)
        if member is None or member.link:
            refuse(self._where, f"no member {name!r:.200}, or a link that leads to none")
        if member.offset in self._sparse:
            exceed(self._where, f"member {name!r:.200} is stored with holes, which is not read here")
        return self._view[member.offset : member.offset + member.size]

    def findings(self) -> tuple[Finding, ...]:
        """Return what honest writers never make, and what could not be looked at."""
        return tuple(self._look())

    def require_honest(self) -> None:
        """Refuse the file if there is any finding.

        Raises:
            MalformedError: There is one; the message is the first of them.
        """
        if found := self.findings():
            refuse(found[0].place, found[0].message, remedy=found[0].remedy)

    def _look(self) -> Iterator[Finding]:
        files = {_plain(header.name) for header in self._headers if header.kind in FILES}
        links = {_plain(header.name) for header in self._headers if header.kind == SYMBOLIC}
        for header in self._headers:
            place = f"{self._where}: {header.name:.200}"
            if (reason := _member_names.flaw(header.name)) is not None:
                yield _finding(place, f"this name {reason}", "tar-name")
            if through := _through(header.name, links):
                yield _finding(place, f"would be written through the link {through!r:.200}", "tar-link")
            yield from _kind(header, place, files, links)
            for oddity in header.oddities:
                yield _finding(place, f"it has {oddity}", "tar-ambiguous")
        names = (_plain(header.name) + "/" * header.name.endswith("/") for header in self._headers)
        for name, how in _member_names.collisions(names):
            yield _finding(f"{self._where}: {name:.200}", f"this name {how}", "tar-duplicate")
        yield from self._gaps()

    def _gaps(self) -> Iterator[Finding]:
        """Yield bytes between and behind the members that are not zero."""
        for header in self._headers:
            stop = header.offset + header.size
            if any(self._view[stop : stop + -header.size % BLOCK]):
                yield _finding(
                    f"{self._where}: {header.name:.200}", "bytes in the padding behind it", "tar-hidden-bytes"
                )
        for at in range(_tar_records.end(self._headers[-1]), self._view.nbytes, _CHUNK):
            if bytes(self._view[at : at + _CHUNK]).strip(b"\x00"):
                yield _finding(self._where, "bytes behind its end, which unpacking does not see", "tar-hidden-bytes")
                return


def _kind(header: Header, place: str, files: set[str], links: set[str]) -> Iterator[Finding]:
    if header.kind in {HARD, SYMBOLIC}:
        target = _target(header)
        if target is None:
            yield _finding(place, f"a link out of its directory, to {header.link!r:.200}", "tar-link")
        elif target not in files or _through(target, links):
            yield _finding(place, f"a link to {header.link!r:.200}, which is no file of this archive", "tar-link")
    if header.kind in _DEVICES:
        yield _finding(place, f"would make {_DEVICES[header.kind]}", "tar-device")
    if header.kind not in _KNOWN:
        yield _finding(place, f"is of a kind that nobody knows ({header.kind})", "tar-ambiguous")
    if header.sparse:
        message, remedy = "is stored with holes, which is not read here", "unpack it and pack it again without --sparse"
        yield Finding(place=place, message=message, rule="tar-sparse", verdict="not checked", remedy=remedy)


def _finding(place: str, message: str, rule: str) -> Finding:
    remedy = "do not unpack this file: honest tools do not write it"
    return Finding(place=place, message=message, rule=rule, remedy=remedy)


def _plain(name: str) -> str:
    """Return a name without what means nothing in it."""
    return name.removeprefix("./").rstrip("/")


def _target(header: Header) -> str | None:
    """Return the member that a link leads to, by its text; None where that is outside."""
    if header.link.startswith("/") or "\\" in header.link or not header.link:
        return None
    base = posixpath.dirname(_plain(header.name)) if header.kind == SYMBOLIC else ""
    target = posixpath.normpath(posixpath.join(base, header.link))
    return None if target == ".." or target.startswith(("../", "/")) else target


def _through(name: str, links: set[str]) -> str | None:
    """Return the link that a name runs through; None where there is none."""
    parent = _plain(name)[: _member_names.MAX_NAME].rpartition("/")[0] if links else ""
    while parent and parent not in links:
        parent = parent.rpartition("/")[0]
    return parent or None
