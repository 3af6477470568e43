"""Files by name, wherever their bytes are: on this machine's disk, or inside another file.

Both classes implement :class:`vitrify.core.protocols.Files`; so does an artifact. Whoever looks at a model takes
that protocol and need not know which it is.
"""

from __future__ import annotations

import mmap
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from vitrify.core.errors import ReferenceNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import NoReturn

    from vitrify.core.protocols import Files

HEAD = 512
MAX_MAPS = 256


class LocalFiles:
    """Files that lie in known places on this machine, under the names that an artifact gives them."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        """Take a path for each name; the caller vouches for the paths."""
        self._paths = dict(sorted(paths.items()))
        self._maps: dict[str, memoryview] = {}

    def names(self) -> tuple[str, ...]:
        """Return the names, sorted."""
        return tuple(self._paths)

    def path(self, name: str) -> Path:
        """Return where a file lies."""
        return self._paths[name] if name in self._paths else _absent(name, self._paths)

    def read(self, name: str) -> bytes:
        """Return a file's bytes, the mapped ones where it was mapped: what is read is what was looked at."""
        return bytes(self._maps[name]) if name in self._maps else self.path(name).read_bytes()

    def map(self, name: str) -> memoryview:
        """Return a file's bytes, memory-mapped once and read-only: all who look see the same."""
        if name not in self._maps:
            if len(self._maps) == MAX_MAPS:  # each holds a file open, and a process may hold about a thousand
                del self._maps[next(iter(self._maps))]
            self._maps[name] = self._map(name)
        return self._maps[name]

    def _map(self, name: str) -> memoryview:
        with self.path(name).open("rb") as stream:
            if self.path(name).stat().st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))


class HeldFiles:
    """Files whose bytes are at hand: the members of an archive, a part of another file."""

    def __init__(self, views: Mapping[str, memoryview]) -> None:
        """Take a read-only view for each name."""
        self._views = {name: view.toreadonly() for name, view in sorted(views.items())}
        self._folder: Path | None = None

    def names(self) -> tuple[str, ...]:
        """Return the names, sorted."""
        return tuple(self._views)

    def map(self, name: str) -> memoryview:
        """Return a file's bytes, read-only; nothing is copied."""
        return self._views[name] if name in self._views else _absent(name, self._views)

    def read(self, name: str) -> bytes:
        """Return a copy of a file's bytes."""
        return bytes(self.map(name))

    def path(self, name: str) -> Path:
        """Return a temporary copy, under a name of our own, that goes when this object goes."""
        import tempfile

        view = self.map(name)
        if self._folder is None:
            folder = tempfile.TemporaryDirectory(prefix="vitrify-")
            weakref.finalize(self, folder.cleanup)
            self._folder = Path(folder.name)
        path = self._folder / str(list(self._views).index(name))
        if not path.exists():
            path.write_bytes(view)
        return path


def only(files: Files) -> str | None:
    """Return the name of the one file there is; None for a directory of any other number."""
    names = files.names()
    return names[0] if len(names) == 1 else None


def head(files: Files, size: int = HEAD) -> bytes:
    """Return the first bytes of the one file there is, at most ``size``; none for a directory."""
    name = only(files)
    return b"" if name is None else bytes(files.map(name)[:size])


def _absent(name: str, known: Iterable[str]) -> NoReturn:
    msg = f"no file {name!r} (there are: {', '.join(known)})"
    raise ReferenceNotFoundError(msg)
