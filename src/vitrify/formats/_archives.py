"""What all formats that are archives do alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from vitrify.reading.files import HeldFiles, only
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vitrify.core.protocols import Files


class Archive(Protocol):
    """A ZIP or TAR file that is open."""

    def read(self, name: str) -> memoryview:
        """Return a member's content."""


def one_file(files: Files, entry: Mapping[str, Any]) -> tuple[memoryview, str]:
    """Return the bytes and the name of the file that the entry names, or else of the only one.

    Raises:
        MalformedError: There is not exactly one.
    """
    name = entry.get("file", only(files))
    if name is None or name not in files.names():
        refuse("archive", f"one file was expected, not {len(files.names())}")
    return files.map(name), str(name)


def parts_of(archive: Archive, names: Iterable[str], *, where: str) -> Iterator[tuple[str, Files]]:
    """Yield these members, each as a file of its own, with its place in the archive; not those that are empty.

    Raises:
        MalformedError: A member is not what the archive says.
        LimitExceededError: They are too much for a file of this size.
    """
    for name in names:
        if (content := archive.read(name)).nbytes:
            yield f"{where}: {name}", HeldFiles({name.rpartition("/")[2] or name: content})
