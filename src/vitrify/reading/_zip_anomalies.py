"""What is in a ZIP file that honest writers never make: two readers would read two different files.

Honest are: sizes and CRC after the data (as PyTorch and every stream writes them), zip64 where it is not needed,
padding in the extra field of a local header, a folder as a member, other versions and times in the two headers.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from vitrify.core.report import Finding
from vitrify.reading import _member_names, _zip_records
from vitrify.reading._zip_records import ALL_ONES_32, DEFERRED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vitrify.reading._zip_records import Ending, Entry, Local

NAME = "zip-name"
"""The rule of what is wrong with a name as a path."""
_TOLD_TWICE = 0b0010_1000_0100_1001
"""Flags that change what is read: encrypted, deferred, strongly encrypted, UTF-8, masked."""
_ENCRYPTED = 0b0010_0000_0100_0001
_PATCHED = 0b10_0000
_NEWEST = 63
"""Tenths of the specification's version; a local header may say anything."""
_METHODS = frozenset({0, 8})
_DOS_FOLDER = 0x10
"""PyTorch's reader gives memory that nothing was written to for such a member."""
_PLAIN = frozenset({0, stat.S_IFREG, stat.S_IFDIR})


def of(
    view: memoryview, end: Ending, entries: Sequence[Entry], locals_: Sequence[Local], where: str
) -> Iterator[Finding]:
    """Yield every anomaly of the file and of its members."""
    for oddity in end.oddities:
        yield finding(where, oddity, "zip-ambiguous")
    for entry, local in zip(entries, locals_, strict=True):
        place = f"{where}: {entry.name:.200}"
        yield from _member(entry, place)
        if odd := entry.strange + local.strange:
            yield finding(place, f"{odd} bytes of no known kind in its extra fields", "zip-hidden-bytes")
        for difference in _differences(entry, local):
            yield finding(place, f"its directory and its own header have different {difference}", "zip-ambiguous")
    for name, how in _member_names.collisions(entry.name for entry in entries):
        rule = NAME if how.endswith(_member_names.SOMEWHERE) else "zip-duplicate"
        yield finding(f"{where}: {name:.200}", f"this name {how}", rule)
    yield from _gaps(view, end, entries, locals_, where)


def finding(place: str, message: str, rule: str) -> Finding:
    """Return a finding about a file that nobody should use."""
    remedy = "do not use this file: honest tools do not write it, and readers differ in what they take from it"
    return Finding(place=place, message=message, rule=rule, remedy=remedy)


def _member(entry: Entry, place: str) -> Iterator[Finding]:
    if reason := _member_names.flaw(entry.name):
        yield finding(place, f"this name {reason}", NAME)
    if entry.other is not None and entry.other != entry.name.encode():
        yield finding(place, f"a second name, {entry.other.decode('utf-8', 'replace')!r:.200}", "zip-ambiguous")
    if entry.flags & _ENCRYPTED:
        yield finding(place, "is encrypted: what it holds cannot be looked at", "zip-encrypted")
    mode = entry.attributes >> 16
    if stat.S_IFMT(mode) not in _PLAIN:
        yield finding(place, f"is no file but {_kind(mode)}", "zip-link")
    if not entry.name.endswith("/") and (entry.attributes & _DOS_FOLDER or stat.S_ISDIR(mode)):
        yield finding(place, "is a file by its name and a folder by its attributes", "zip-ambiguous")
    if entry.name.endswith("/") and entry.size:
        yield finding(place, "a folder with content", "zip-hidden-bytes")
    if entry.needs > _NEWEST or entry.flags & _PATCHED:
        yield finding(place, f"needs a reader of version {entry.needs}, or a patch, that nobody has", "zip-ambiguous")
    if entry.method not in _METHODS:
        message = f"is packed by method {entry.method}, which is not read here"
        remedy = "unpack it and pack it again with deflate"
        yield Finding(place=place, message=message, rule="zip-method", verdict="not checked", remedy=remedy)


def _kind(mode: int) -> str:
    return "a symbolic link" if stat.S_ISLNK(mode) else "a device, a pipe or the like"


def _differences(entry: Entry, local: Local) -> Iterator[str]:
    """Yield what the two headers do not agree in; deferred numbers may be zero before the data."""
    if entry.raw != local.raw:
        yield f"names, {local.raw.decode('utf-8', 'replace')!r:.200} before the data"
    if (entry.flags ^ local.flags) & _TOLD_TWICE:
        yield "flags"
    if entry.method != local.method:
        yield "methods"
    deferred = entry.flags & local.flags & DEFERRED
    pairs = (("checksums", entry.crc, local.crc), ("sizes", entry.packed, local.packed))
    for what, listed, before in (*pairs, ("sizes", entry.size, local.size)):
        if before != listed and not (deferred and before in {0, ALL_ONES_32}):
            yield what


def _gaps(
    view: memoryview, end: Ending, entries: Sequence[Entry], locals_: Sequence[Local], where: str
) -> Iterator[Finding]:
    """Yield bytes that no member has, and members that have the same ones."""
    # Offsets count from the archive's own first byte; what is before it was found at its end.
    at = end.shift
    for entry, local in sorted(zip(entries, locals_, strict=True), key=lambda pair: pair[0].header):
        if entry.header < at:
            yield finding(f"{where}: {entry.name:.200}", "overlaps another member", "zip-overlap")
        elif entry.header > at:
            yield finding(where, f"{entry.header - at} bytes at {at} that no member has", "zip-hidden-bytes")
        at = local.data + entry.packed
        if entry.flags & DEFERRED:
            told = _zip_records.descriptor(view, entry, at)
            if not told:
                message = "what stands behind it is not what its directory says"
                yield finding(f"{where}: {entry.name:.200}", message, "zip-ambiguous")
            at += told
    if at != end.start:
        yield finding(where, f"{end.start - at} bytes at {at} that no member has", "zip-hidden-bytes")
