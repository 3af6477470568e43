"""A sink over a plain directory, and the files written to it: what a store gives, without the store."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from vitrify.reading.files import LocalFiles

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vitrify.core.manifest import FileKind


class DirectorySink:
    """Implements :class:`vitrify.core.protocols.Sink`.

    As in a store, a file lies under another name than its own, and a name is written once.
    """

    def __init__(self, root: Path) -> None:
        """Write into ``root``, an empty directory."""
        self.root = root
        self.paths: dict[str, Path] = {}

    @contextmanager
    def path(self, name: str, kind: FileKind) -> Iterator[Path]:
        """Yield where to write one file."""
        del kind
        assert name not in self.paths, f"{name} is written twice"
        self.paths[name] = self.root / f"blob{len(self.paths)}"
        yield self.paths[name]

    @contextmanager
    def open(self, name: str, kind: FileKind) -> Iterator[BinaryIO]:
        """Write one file as a stream."""
        with self.path(name, kind) as target, target.open("xb") as stream:
            yield stream

    def files(self) -> LocalFiles:
        """Return what was written."""
        return LocalFiles(self.paths)

    def contents(self) -> dict[str, bytes]:
        """Return the bytes of every file."""
        return {name: path.read_bytes() for name, path in self.paths.items()}
