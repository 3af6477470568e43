"""Files that lie in known places on this machine, under the names that an artifact gives them."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

from vitrify.core.errors import ReferenceNotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class LocalFiles:
    """Implements :class:`vitrify.core.protocols.Files` over plain paths, which the caller vouches for."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        """Take a path for each name."""
        self._paths = dict(sorted(paths.items()))

    def names(self) -> tuple[str, ...]:
        """Return the names, sorted."""
        return tuple(self._paths)

    def path(self, name: str) -> Path:
        """Return where a file lies."""
        try:
            return self._paths[name]
        except KeyError:
            msg = f"no file {name!r} (there are: {', '.join(self._paths)})"
            raise ReferenceNotFoundError(msg) from None

    def read(self, name: str) -> bytes:
        """Return a file's bytes."""
        return self.path(name).read_bytes()

    def map(self, name: str) -> memoryview:
        """Return a file's bytes, memory-mapped and read-only."""
        with self.path(name).open("rb") as stream:
            if self.path(name).stat().st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
