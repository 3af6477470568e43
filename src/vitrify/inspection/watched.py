"""Directories, file by file: which of them were opened, and each branch as files of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from vitrify.reading.files import HeldFiles, LocalFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from vitrify.core.protocols import Files

DEEPEST = 32
"""Folders in folders that are asked for a format of their own; files below are still looked at, one by one."""


class Watched:
    """A directory that remembers which of its files were opened, and holds none of them open itself.

    A process may have about a thousand files open; a folder has as many as it likes.
    """

    def __init__(self, files: Files) -> None:
        """Take the files to watch."""
        self._files = files
        self._opened: set[str] = set()
        self._views: WeakValueDictionary[str, memoryview] = WeakValueDictionary()

    def opened(self) -> set[str]:
        """Return the names that were opened since this was last asked."""
        opened, self._opened = self._opened, set()
        return opened

    def names(self) -> tuple[str, ...]:
        """Return the names, sorted; that opens none."""
        return self._files.names()

    def read(self, name: str) -> bytes:
        """Return a file's bytes."""
        self._opened.add(name)
        return self._files.read(name)

    def map(self, name: str) -> memoryview:
        """Return a file's bytes, read-only, open for as long as the caller holds them."""
        self._opened.add(name)
        view = self._views.get(name)
        if view is None:
            alone = single(self._files, name)
            view = self._views[name] = alone.map(alone.names()[0])
        return view

    def path(self, name: str) -> Path:
        """Return where a file lies."""
        self._opened.add(name)
        return self._files.path(name)


def single(files: Files, name: str) -> Files:
    """Return one of the files, under the last part of its name."""
    return _chosen(files, {name.rpartition("/")[2] or name: name})


def branches(files: Files, names: Iterable[str], level: int) -> Iterator[tuple[str, Files]]:
    """Yield a directory's files, each on its own and under an empty name; then each folder in it under its name.

    Args:
        files: The directory.
        names: Those of its files that are wanted.
        level: How many folders it lies in.
    """
    folders: dict[str, dict[str, str]] = {}
    for name in names:
        folder, slash, rest = name.partition("/")
        if slash and rest and level < DEEPEST:
            folders.setdefault(folder, {})[rest] = name
        else:
            yield name.rpartition("/")[0], single(files, name)
    for folder, inside in folders.items():
        yield folder, _chosen(files, inside)


def _chosen(files: Files, names: dict[str, str]) -> Files:
    """Return some of the files under other names."""
    if isinstance(files, LocalFiles):
        return LocalFiles({new: files.path(old) for new, old in names.items()})
    return HeldFiles({new: files.map(old) for new, old in names.items()})
