"""A ZIP file of which nothing more is known: what is in it is looked at member by member.

Specification: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.formats._archives import one_file, parts_of
from vitrify.reading.files import only
from vitrify.reading.zip import MAGIC, ends_like_zip, opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding

_METHODS = {0: "stored", 8: "deflate", 9: "deflate64", 12: "bzip2", 14: "lzma", 93: "zstd", 95: "xz"}


class Zip:
    """The ZIP format."""

    def detect(self, files: Files) -> bool:
        """Say whether a file ends in the directory of a ZIP file, whatever it begins with."""
        name = only(files)
        if name is None or not ends_like_zip(files.map(name)):
            return False
        try:
            opened(files.map(name), where=name)
        except LimitExceededError:
            return True
        except MalformedError:
            return bytes(files.map(name)[:4]) == MAGIC
        return True

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the members: name, bytes, bytes in the file, and how they are packed."""
        view, where = one_file(files, entry)
        archive = opened(view, where=where)
        listed = [
            {
                "name": member.name,
                "bytes": member.size,
                "packed": member.packed,
                "method": _METHODS.get(member.method, str(member.method)),
            }
            for member in archive.members.values()
        ]
        return {"members": listed, "bytes": sum(member["bytes"] for member in listed)}

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield what is wrong with the archive itself; what is in its members is asked of them."""
        view, where = one_file(files, entry)
        yield from opened(view, where=where).findings()

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterable[tuple[str, Files]]:
        """Yield each member."""
        view, where = one_file(files, entry)
        archive = opened(view, where=where)
        yield from parts_of(archive, [name for name in archive.members if not name.endswith("/")], where=where)
