"""7z archives: recognised, and not read. A model inside of one has to be unpacked before it can be looked at.

Specification: https://www.7-zip.org/recover.html (start header)
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

from vitrify.core.report import Finding
from vitrify.formats._archives import one_file
from vitrify.reading.files import head
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Files

MAGIC = b"7z\xbc\xaf\x27\x1c"
_START = struct.Struct("<6s2BIQQI")


class SevenZip:
    """The 7z format."""

    def detect(self, files: Files) -> bool:
        """Say whether a file begins as 7z files do."""
        return head(files, len(MAGIC)) == MAGIC

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the format's version, and the bytes of its directory.

        Raises:
            MalformedError: The start header is damaged, or points outside of the file.
        """
        view, where = one_file(files, entry)
        if view.nbytes < _START.size or view[: len(MAGIC)] != MAGIC:
            refuse(where, "no 7z file")
        _, major, minor, crc, offset, size, _ = _START.unpack_from(view)
        if zlib.crc32(view[12 : _START.size]) != crc or offset + size > view.nbytes - _START.size:
            refuse(where, "a 7z file whose start header is damaged or points outside of it")
        return {"versions": {"7z": f"{major}.{minor}"}, "directory_bytes": size}

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield that it was not looked at."""
        yield Finding(
            place=one_file(files, entry)[1],
            message="a 7z archive, which is not read here; PyTorch and pickle cannot load it either",
            rule="archive-not-read",
            subject="7z",
            verdict="not checked",
            remedy="unpack it, and scan what comes out",
        )
