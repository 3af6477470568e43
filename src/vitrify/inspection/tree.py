"""The files of a directory, as far as it is one: what a link leads to is only looked at where that is meant.

A link to a file inside the directory is followed, and so is one of Hugging Face's cache, whose snapshots link to
blobs beside them. No other link is: whoever made the directory could have it point to any file of this machine.
Pipes, sockets and devices are never opened. What was left out is told.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from vitrify.core.errors import UsageError
from vitrify.core.report import Finding
from vitrify.reading.files import LocalFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MAX_FILES = 1_000_000
_BLOB = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SNAPSHOTS, _BLOBS = "snapshots", "blobs"


class Tree(LocalFiles):
    """The files of a directory, and what of it was left out."""

    def __init__(self, paths: Mapping[str, Path], left_out: Iterable[Finding] = ()) -> None:
        """Take a path for each name, and a finding for each entry that was not taken."""
        super().__init__(paths)
        self.left_out = tuple(left_out)


def tree(root: Path) -> Tree:
    """Return a directory's files under their paths inside it.

    Raises:
        UsageError: It cannot be listed, or holds more than ``MAX_FILES`` entries.
    """
    base = Path(os.path.realpath(root))
    blobs = _blobs(base)
    found: dict[str, Path] = {}
    left_out = []
    for name, path, mode in _entries(root):
        if stat.S_ISREG(mode):
            found[name] = path
        elif not stat.S_ISLNK(mode):
            left_out.append(_special(name))
        elif (target := _target(path, base, blobs)) is not None:
            found[name] = target
        else:
            left_out.append(_link(name, path))
    return Tree(found, left_out)


def _entries(root: Path) -> Iterator[tuple[str, Path, int]]:
    """Yield everything that is no directory: its name, its path, its mode. Links are not followed."""

    def fail(error: OSError) -> None:
        msg = f"cannot list {error.filename}: {error.strerror}"
        raise UsageError(msg) from error

    count = 0
    for folder, folders, files in os.walk(root, onerror=fail):
        folders.sort()
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in sorted([*files, *links]):
            path = Path(folder, name)
            count += 1
            if count > MAX_FILES:
                msg = f"{root} holds more than {MAX_FILES} files"
                raise UsageError(msg, remedy="name the folders in it one by one")
            yield path.relative_to(root).as_posix(), path, path.lstat().st_mode


def _blobs(base: Path) -> Path | None:
    """Return where the blobs of a Hugging Face cache lie, if this is a snapshot of one."""
    return base.parent.parent / _BLOBS if base.parent.name == _SNAPSHOTS else None


def _target(path: Path, base: Path, blobs: Path | None) -> Path | None:
    """Return the file that a link leads to, if that is a plain file in an allowed place."""
    try:
        target = Path(os.path.realpath(path, strict=True))
        if not stat.S_ISREG(target.stat().st_mode):
            return None
    except (OSError, ValueError):  # it dangles, goes in a circle, or is longer than the system takes
        return None
    inside = target.is_relative_to(base)
    blob = target.parent == blobs and _BLOB.fullmatch(target.name) is not None
    return target if inside or blob else None


def _link(name: str, path: Path) -> Finding:
    try:
        leads = str(path.readlink())
    except OSError:
        leads = "somewhere"
    return Finding(
        place=name,
        message=f"is a link to {leads[:200]!r}, which is outside the directory or no file; it was not followed",
        remedy="put the file itself there, if it belongs to the model",
        rule="link",
        subject=name,
    )


def _special(name: str) -> Finding:
    return Finding(
        place=name,
        message="is a pipe, a socket or a device; it was not opened",
        remedy="remove it: no model has such a thing",
        rule="special-file",
        subject=name,
    )
