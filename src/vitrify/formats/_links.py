"""Links in a model's directory: whatever lies behind one is not part of the model, and may be any file of a machine."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from vitrify.core.report import Finding
from vitrify.reading.files import LocalFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.protocols import Files

MAX_ENTRIES = 100_000


def links(files: Files, name: str) -> Iterator[Finding]:
    """Yield each symbolic link below the directory that holds ``name``; none is followed.

    Args:
        files: The model's files; only where they lie in a directory under their own names is there anything to look at.
        name: The file whose path in ``files`` tells where that directory is.
    """
    if not isinstance(files, LocalFiles):
        return
    path, parts = files.path(name), PurePosixPath(name).parts
    if path.parts[-len(parts) :] != parts or len(files.names()) == 1:
        return
    root, left = Path(*path.parts[: -len(parts)]), MAX_ENTRIES
    for folder, folders, found in os.walk(root):
        for one in (*folders, *found):
            left -= 1
            if left < 0:
                return
            here = Path(folder, one)
            if here.is_symlink():
                inside = here.relative_to(root).as_posix()
                yield Finding(
                    place=inside,
                    rule="linked-file",
                    subject=inside,
                    message=f"is a link to {os.fspath(here.readlink())!r}: loading the model would read that file",
                    remedy="put the file itself there, if it is yours",
                )
