"""A TAR file of which nothing more is known: what is in it is looked at member by member; nothing is unpacked.

Specification: https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.formats._archives import one_file, parts_of
from vitrify.reading import tar
from vitrify.reading.files import only

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding


class Tar:
    """The TAR format, uncompressed."""

    def detect(self, files: Files) -> bool:
        """Say whether a file begins with a header whose checksum is right."""
        name = only(files)
        return name is not None and tar.is_tar(files.map(name))

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the members: name and bytes, or what a link stands for."""
        view, where = one_file(files, entry)
        listed = [
            {"name": member.name, "bytes": member.size, **({"link": member.link} if member.link else {})}
            for member in tar.Tar(view, where=where).members.values()
        ]
        return {"members": listed, "bytes": sum(member["bytes"] for member in listed)}

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield what unpacking would do outside of its directory, and what readers could take differently."""
        view, where = one_file(files, entry)
        yield from tar.Tar(view, where=where).findings()

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterable[tuple[str, Files]]:
        """Yield each member that is a file."""
        view, where = one_file(files, entry)
        archive = tar.Tar(view, where=where)
        yield from parts_of(archive, [one.name for one in archive.members.values() if not one.link], where=where)
