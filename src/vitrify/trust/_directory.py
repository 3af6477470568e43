"""The files of a directory, by path and digest: what a signature over a directory covers."""

from __future__ import annotations

import hashlib
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vitrify.core.errors import LimitExceededError, MalformedError, StoreError, UsageError
from vitrify.core.manifest import check_filepath

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

MAX_FILES = 100_000
MAX_FOLDERS_DEEP = 64


@dataclass(frozen=True)
class Listing:
    """What lies in a directory.

    Attributes:
        files: SHA-256 in hex by path, in the order of :func:`order`.
        odd: What is neither a plain file nor a folder, and paths that some system reads otherwise: path to reason.
        skipped: The paths that were asked to be left out and are there, sorted.
    """

    files: dict[str, str]
    odd: dict[str, str]
    skipped: tuple[str, ...]


def order(path: str) -> tuple[str, ...]:
    """Return what paths are sorted by: their parts, as the OpenSSF tool sorts them (``a/b`` before ``a.b``)."""
    return tuple(path.split("/"))


def listing(root: Path, skip: Collection[str]) -> Listing:
    """Hash every file below a directory; no link is followed, and what is skipped is not looked into.

    Raises:
        UsageError: It is no directory.
        LimitExceededError: More than ``MAX_FILES`` files, or folders more than ``MAX_FOLDERS_DEEP`` deep.
        StoreError: Something cannot be read.
    """
    if not root.is_dir():
        msg = f"{root} is no directory"
        raise UsageError(msg, remedy="name the directory that holds the model's files")
    paths: list[str] = []
    odd: dict[str, str] = {}
    skipped: list[str] = []
    for entry, path in _walk(root, "", frozenset(skip), skipped, 0):
        if reason := _odd(entry, path):
            odd[path] = reason
        else:
            paths.append(path)
        if len(paths) + len(odd) > MAX_FILES:
            msg = f"{root}: more than {MAX_FILES} files"
            raise LimitExceededError(msg)
    paths.sort(key=order)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        digests = list(pool.map(lambda path: _hash(root / path), paths))
    return Listing(dict(zip(paths, digests, strict=True)), odd, tuple(sorted(skipped)))


def _walk(
    root: Path, folder: str, skip: frozenset[str], skipped: list[str], depth: int
) -> Iterator[tuple[os.DirEntry[str], str]]:
    """Yield all that is no folder, and a path for each; note what is skipped."""
    if depth > MAX_FOLDERS_DEEP:
        msg = f"{root}: folders more than {MAX_FOLDERS_DEEP} deep"
        raise LimitExceededError(msg)
    try:
        entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
    except OSError as error:
        raise _unreadable(error) from error
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if path in skip:
            skipped.append(path)
        elif entry.is_dir(follow_symlinks=False):
            yield from _walk(root, path, skip, skipped, depth + 1)
        else:
            yield entry, path


def _odd(entry: os.DirEntry[str], path: str) -> str:
    if entry.is_symlink():
        return "a symbolic link: what it leads to is not part of the directory"
    if not entry.is_file(follow_symlinks=False):
        return "neither a file nor a folder"
    try:
        path.encode()
        check_filepath(path)
    except (UnicodeEncodeError, MalformedError):
        return "a name that some system reads otherwise"
    return ""


def _hash(path: Path) -> str:
    """Hash one plain file; a link that was put in its place meanwhile is not followed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb", buffering=0) as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                msg = f"{path} was replaced while it was read"
                raise StoreError(msg)
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(error) from error


def _unreadable(error: OSError) -> StoreError:
    msg = f"could not read {error.filename}: {error.strerror or error}"
    return StoreError(msg, remedy="check the path and its rights")
