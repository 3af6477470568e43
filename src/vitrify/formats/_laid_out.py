"""Files under their own names in a folder, for libraries that read nothing but a path."""

from __future__ import annotations

import shutil
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vitrify.core.errors import MalformedError

if TYPE_CHECKING:
    from pathlib import Path

    from vitrify.core.protocols import Files


def lay_out(files: Files, folder: Path) -> None:
    """Give each file its own name in a folder, as libraries that take a path ask for it; nothing is copied.

    Raises:
        MalformedError: A name leads out of the folder.
    """
    for name in files.names():
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            msg = f"the file name {name!r} leads out of the model"
            raise MalformedError(msg)
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            target.symlink_to(files.path(name).resolve())
        except OSError:  # a system without links
            shutil.copyfile(files.path(name), target)
