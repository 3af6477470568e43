"""What in an HDF5 file leads out of it, loads native code or asks for more memory than it has bytes.

HDF5 itself follows links to other files, reads data from any file that a dataset names, and searches the machine for
a library that undoes a filter. Source: HDF5 File Format Specification 3.0, and HDF5's "Dynamically loaded filters".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.report import Finding
from vitrify.reading.hdf5 import Dataset, ExternalLink, Node, OtherLink, SoftLink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.reading.hdf5 import File

MIN_BOMB = 64 * 1024 * 1024
MAX_EXPANSION = 128
"""Weights do not compress further than this, or hardly; zeros do, and are not checked."""
_BLOCK = 1 << 20
_REMEDY = "ask whoever made it to copy all data into the file"


def hazards(file: File, *, plain: bool) -> Iterator[Finding]:
    """Yield the findings.

    Args:
        file: The file.
        plain: Whether what wrote it writes no links but names of objects, so that any other is a finding.

    Raises:
        MalformedError: Something in it is damaged.
        LimitExceededError: It goes on for longer than a file of its size should.
    """
    yield from _around(file)
    total, seen, told = 0, set(), False
    limit = max(MIN_BOMB, MAX_EXPANSION * file.size)
    for path, node in file.walk():
        place = f"{file.where}: {path}"
        if not isinstance(node, Node):
            yield from _link(file, place, path, node, plain=plain)
            continue
        if node.address in seen:
            continue
        seen.add(node.address)
        yield from _references(node, place)
        if isinstance(node, Dataset):
            yield from _dataset(node, place)
            total += node.declared
            if total > limit and not told:
                told = True
                message = f"its datasets up to here unpack to {total} bytes; the file has {file.size}"
                remedy = "read it one dataset at a time, in parts"
                yield Finding(place=place, message=message, rule="shape-bomb", verdict="not checked", remedy=remedy)


def _around(file: File) -> Iterator[Finding]:
    for what, view in (("before its beginning", file.before), ("after its end", file.after)):
        if not blank(view):
            message = f"{len(view)} bytes {what}, which HDF5 does not read and other programs may"
            yield Finding(place=file.where, message=message, rule="hidden-bytes", remedy="copy it with h5repack")
    if file.driver:
        message = "it is one of several files that HDF5 opens together"
        yield Finding(place=file.where, message=message, rule="external-driver", remedy="copy it with h5repack")


def blank(view: memoryview) -> bool:
    """Say whether there are only zeros."""
    zeros = bytes(_BLOCK)
    return all(view[at : at + _BLOCK] == zeros[: len(view) - at] for at in range(0, len(view), _BLOCK))


def _link(
    file: File, place: str, path: str, link: SoftLink | ExternalLink | OtherLink, *, plain: bool
) -> Iterator[Finding]:
    if isinstance(link, ExternalLink):
        message = (
            f"a link to {link.target!r:.200} in another file, {link.file!r:.200}, which is opened when it is followed"
        )
        yield Finding(place=place, message=message, rule="external-link", subject=link.file, remedy=_REMEDY)
    elif isinstance(link, OtherLink):
        message = f"a link of type {link.number}, which somebody's own code follows"
        yield Finding(place=place, message=message, rule="user-link", subject=str(link.number), remedy=_REMEDY)
    elif plain:
        message = f"a soft link to {link.target!r:.200}, where only objects are written"
        yield Finding(place=place, message=message, rule="soft-link", subject=link.target, remedy=_REMEDY)
    elif file.resolve(link, path) is None:
        message = f"a soft link to {link.target!r:.200}, which is no object of this file"
        yield Finding(place=place, message=message, rule="soft-link", subject=link.target, remedy=_REMEDY)


def _references(node: Node, place: str) -> Iterator[Finding]:
    kinds = [attribute.type for attribute in node.attrs.values()]
    kinds += [node.type] if isinstance(node, Dataset) else []
    if any(part.outside for kind in kinds for part in kind.parts()):
        message = "references of a kind that can name another file"
        yield Finding(place=place, message=message, rule="external-reference", verdict="not checked", remedy=_REMEDY)


def _dataset(node: Dataset, place: str) -> Iterator[Finding]:
    for name in node.external:
        message = f"its data is read from another file, {name!r:.200}"
        yield Finding(place=place, message=message, rule="external-data", subject=name, remedy=_REMEDY)
    if node.layout.kind == "virtual":
        name = next(iter(node.virtual_sources), "")
        message = f"a virtual dataset, whose data is read from other datasets, the first in {name!r:.200}"
        yield Finding(place=place, message=message, rule="virtual-dataset", subject=name, remedy=_REMEDY)
    for step in node.filters:
        if step.native:
            message = f"filter {step.number} {step.name!r:.100}: HDF5 searches a library for it, and runs it"
            remedy = "ask for it compressed with gzip, or not at all"
            yield Finding(place=place, message=message, rule="native-filter", subject=str(step.number), remedy=remedy)
    written = node.layout.held is not None or node.layout.address is not None
    if written and node.stored is not None and not node.external:
        node.view()  # refuses what is not there
