"""What was already hashed, so that opening an artifact again costs no hashing.

A line a blob is appended to one file: its digest, and the inode, size, modification and change time that the
file had when its content was that. While these are the same, so is the content, unless the file was changed
within one tick of the file system's clock after it was hashed. So what changed only just now is hashed but not
remembered, as Git does it (``Documentation/technical/racy-git.txt``).

The file is a cache: it may be deleted, lost or torn at any time, at the price of hashing again. It defends
against accidents, not against somebody who may write to the store: they may write here too.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from typing import TYPE_CHECKING

from vitrify.core.digest import Digest
from vitrify.core.errors import CorruptError, ReferenceNotFoundError
from vitrify.stores._durable import storing, write_all

if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path

    State = tuple[int, int, int, int]

_LINE = re.compile(rb"([0-9a-f]{64}) (\d{1,20}) (\d{1,20}) (\d{1,20}) (\d{1,20})")
_MAX_BYTES = 64 * 1024 * 1024
_SECOND = 1_000_000_000
_COARSE_TICK = 2 * _SECOND
_FINE_TICK = _SECOND // 10
"""Ten times the longest tick of Linux. A file system that keeps whole seconds shows it: no stamp has a fraction."""

RESTORE = "save the model again, or import it from an export: a good copy takes the place of the bad one"


class Verified:
    """The verification cache of one store. Threads and processes may share it."""

    def __init__(self, path: Path) -> None:
        """Read the file when it is first needed, and again when another process has added to it."""
        self._path = path
        self._known: dict[str, State] = {}
        self._read: State | None = None
        self._lock = threading.Lock()

    def knows(self, path: Path, digest: Digest) -> bool:
        """Say whether this file is the one that was hashed to this digest, unchanged."""
        try:
            state = _state(path.stat())
        except OSError:
            return False
        return self._load().get(digest.hex) == state

    def check(self, path: Path, digest: Digest) -> None:
        """Return if the file's content has this digest; hash it only where that is not known.

        Raises:
            ReferenceNotFoundError: There is no such file.
            CorruptError: The content is different; the message has both digests.
        """
        if not self.knows(path, digest):
            self.hash(path, digest)

    def hash(self, path: Path, digest: Digest) -> None:
        """Do as :meth:`check`, hashing in any case."""
        started = time.time_ns()
        with storing(f"read blob {digest}"):
            try:
                before = _state(path.stat())
                found = Digest.of_file(path)
                after = _state(path.stat())
            except FileNotFoundError as error:
                raise missing(path, digest) from error
        if found != digest:
            raise corrupt(digest, found, place=str(path))
        if before == after and _settled(after, started):
            self._remember(digest, after)

    def compact(self, keep: Container[str]) -> None:
        """Forget every blob whose hex digest is not in ``keep``. The store's index lock must be held."""
        with self._lock:
            lines = [_line(name, state) for name, state in self._parse().items() if name in keep]
            temporary = self._path.with_name(f"tmp-{os.getpid()}")
            with contextlib.suppress(OSError):
                temporary.write_bytes(b"".join(lines))
                temporary.replace(self._path)

    def _remember(self, digest: Digest, state: State) -> None:
        with self._lock, contextlib.suppress(OSError):  # a store that cannot be written to can still be read
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            try:
                write_all(descriptor, _line(digest.hex, state))
            finally:
                os.close(descriptor)

    def _load(self) -> dict[str, State]:
        with self._lock:
            try:
                state = _state(self._path.stat())
            except OSError:
                return {}
            if state != self._read:
                self._known, self._read = self._parse(), state
            return self._known

    def _parse(self) -> dict[str, State]:
        try:
            with self._path.open("rb") as stream:
                data = stream.read(_MAX_BYTES)
        except OSError:
            return {}
        known: dict[str, State] = {}
        for line in data.split(b"\n"):
            if match := _LINE.fullmatch(line):
                inode, size, modified, changed = (int(number) for number in match.groups()[1:])
                known[match[1].decode()] = (inode, size, modified, changed)
        return known


def missing(path: Path, digest: Digest) -> ReferenceNotFoundError:
    """Return the error for a blob that is not there."""
    return ReferenceNotFoundError(f"no blob {digest} in this store (expected at {path})", remedy=RESTORE)


def corrupt(expected: Digest, found: Digest, *, place: str) -> CorruptError:
    """Return the error for content that is not what its digest promises."""
    return CorruptError(f"{place} is corrupt: expected {expected}, found {found}", remedy=RESTORE)


def _state(status: os.stat_result) -> State:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _settled(state: State, now: int) -> bool:
    changed = state[3]
    tick = _FINE_TICK if changed % _SECOND else _COARSE_TICK
    return changed + tick < now


def _line(name: str, state: State) -> bytes:
    return f"{name} {state[0]} {state[1]} {state[2]} {state[3]}\n".encode()
