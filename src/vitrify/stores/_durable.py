"""Making bytes last: fsync, rename, locks, and what a failing disk means in words."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vitrify.core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SPACE = "free some disk space (vitrify gc removes what nothing leads to), then run it again"
_ACCESS = "make it writable for this user, or choose another place for the store: set VITRIFY_HOME"
_PLACE = "move away what stands in the way, or choose another place for the store: set VITRIFY_HOME"
_REMEDIES = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EFBIG: "raise the limit on the size of files (ulimit -f), then run it again",
    errno.EACCES: _ACCESS,
    errno.EPERM: _ACCESS,
    errno.EROFS: _ACCESS,
    errno.ENOTDIR: _PLACE,
    errno.EEXIST: _PLACE,
    errno.EISDIR: _PLACE,
    errno.ENOENT: "make the directory first (mkdir -p)",
    errno.EMFILE: "raise the limit on open files (ulimit -n), then run it again",
    errno.EIO: "check the disk: the operating system could not read or write it",
}


@contextmanager
def storing(what: str) -> Iterator[None]:
    """Turn an operating system's error into a :class:`StoreError` that says what could not be done."""
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        msg = f"could not {what}: {error.strerror or error}{where}"
        raise StoreError(msg, remedy=_REMEDIES.get(error.errno or 0, "")) from error


def sync(path: Path) -> None:
    """Make a file's content, or a directory's entries, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Make a directory and its parents, and make them durable."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    sync(path.parent)


@contextmanager
def replacing(path: Path, temporary: Path) -> Iterator[int]:
    """Yield a descriptor to write to; when the block ends well, its file has durably replaced ``path``.

    ``temporary`` must not exist and must lie in the same file system. If the block raises, it is deleted.
    """
    descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
    try:
        try:
            yield descriptor
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def seal(descriptor: int) -> None:
    """Make a finished file read-only and durable; who may read it stays as its umask had it."""
    os.fchmod(descriptor, os.fstat(descriptor).st_mode & 0o444)
    os.fsync(descriptor)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write every byte: one ``write`` may take fewer."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


@contextmanager
def locked(path: Path, *, shared: bool = False, wait: bool = True) -> Iterator[None]:
    """Hold an advisory lock on a file; the kernel lets go of it when the process dies.

    It is unlocked and not only closed, because a child forked meanwhile shares the open file.

    Raises:
        FileNotFoundError: There is no such file.
        BlockingIOError: Another holds it, and ``wait`` is false.
    """
    descriptor = os.open(path, os.O_RDONLY if shared else os.O_RDWR)  # NFS wants it so
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)
