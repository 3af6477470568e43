"""A compressed file of which nothing more is known: what is in it is looked at as a file of its own.

gzip, zlib, bzip2, xz, lzma, LZ4 and Zstandard; :mod:`vitrify.reading.compressed` links their specifications.
Specification of the most common: https://www.rfc-editor.org/rfc/rfc1952
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MissingDependencyError
from vitrify.core.report import Finding
from vitrify.formats._archives import one_file
from vitrify.reading import compressed
from vitrify.reading.files import HeldFiles, only

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Files


class Compressed:
    """One stream, or several of one kind that are one content."""

    def detect(self, files: Files) -> bool:
        """Say whether a file begins with a stream of a known kind, some of whose content can be had."""
        name = only(files)
        codec = None if name is None else compressed.codec(files.map(name))
        return codec is not None and name is not None and compressed.is_stream(files.map(name))

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the kind of the stream, and how many bytes it expands to."""
        view, where = one_file(files, entry)
        content = compressed.expanded(view, where=where)
        return {"compression": compressed.codec(view), "packed": view.nbytes, "bytes": content.nbytes}

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield that nothing could be looked at, where the package that expands it is missing; else nothing."""
        view, where = one_file(files, entry)
        try:
            compressed.expanded(view, where=where)
        except MissingDependencyError as error:
            yield unread(where, error)

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterable[tuple[str, Files]]:
        """Yield the content."""
        view, where = one_file(files, entry)
        try:
            content = compressed.expanded(view, where=where)
        except MissingDependencyError:
            return  # ``hazards`` says it
        yield f"{where}: content", HeldFiles({"content": content})


def unread(where: str, error: MissingDependencyError) -> Finding:
    """Return the finding about a stream that only a missing package can expand."""
    return Finding(
        place=where, message=error.message, remedy=error.remedy, rule="missing-package", verdict="not checked"
    )
