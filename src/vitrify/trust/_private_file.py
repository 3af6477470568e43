"""Files of keys and signatures: made once and whole, read up to a bound."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING

from vitrify.core.errors import ConflictError, MalformedError, StoreError

if TYPE_CHECKING:
    from pathlib import Path

MAX_KEY_BYTES = 64 * 1024


def create(path: Path, data: bytes, *, mode: int) -> None:
    """Write a new file durably; nobody ever sees it half written, and nothing is replaced.

    Args:
        path: Nothing may be there yet; its directory is made, for this user only, where it is missing.
        data: The content.
        mode: Who may read it; the file never had more rights than this.

    Raises:
        ConflictError: Something is there.
        StoreError: It cannot be written.
    """
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            _write(temporary, data, mode)
            os.link(temporary, path)  # which, unlike a rename, fails where something is
        finally:
            temporary.unlink(missing_ok=True)
        _sync(path.parent)
    except FileExistsError as error:
        msg = f"{path} is there already, and is not replaced"
        raise ConflictError(msg, remedy="choose another name, or move it away") from error
    except OSError as error:
        msg = f"could not write {path}: {error.strerror or error}"
        raise StoreError(msg, remedy="check the path, its rights and the space on the disk") from error


def replace(path: Path, data: bytes) -> None:
    """Write a file durably, in place of what was there; nobody ever sees it half written.

    Raises:
        StoreError: It cannot be written.
    """
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}")
    try:
        try:
            _write(temporary, data, 0o644)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync(path.parent)
    except OSError as error:
        msg = f"could not write {path}: {error.strerror or error}"
        raise StoreError(msg, remedy="check the path, its rights and the space on the disk") from error


def read_key(path: Path) -> bytes:
    """Return a key file's content; it raises what :func:`read_small` raises."""
    return read_small(path, MAX_KEY_BYTES)


def read_small(path: Path, limit: int) -> bytes:
    """Return a file's content.

    Raises:
        StoreError: It cannot be read.
        MalformedError: It has more than ``limit`` bytes.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
    except OSError as error:
        msg = f"could not read {path}: {error.strerror or error}"
        raise StoreError(msg, remedy="check the path and its rights") from error
    if len(data) > limit:
        msg = f"{path}: more than {limit} bytes"
        raise MalformedError(msg)
    return data


def _write(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(descriptor)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems cannot; the file itself is durable
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
