"""A stream that hashes and flushes in other threads while the calling thread writes."""

from __future__ import annotations

import hashlib
import io
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vitrify.core.digest import Digest
from vitrify.core.errors import StoreError
from vitrify.stores._durable import seal, storing, write_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor, Future
    from pathlib import Path

    from typing_extensions import Buffer

_GATHERED = 1024 * 1024
"""Small writes are gathered to this many bytes; larger ones reach the disk and the hash without a copy."""

_INLINE = 64 * 1024
"""What is smaller is hashed sooner than it is handed to another thread."""

_FLUSHED = 64 * 1024 * 1024
"""Bytes after which the disk is told to start, so that the last fsync finds little to do."""


@contextmanager
def hashed_stream(path: Path, hashers: Executor, syncers: Executor) -> Iterator[HashedStream]:
    """Create a file and yield a stream to it; unless it was finished, it is closed when the block ends."""
    with storing(f"write {path.name}"):
        stream = HashedStream(path, hashers, syncers)
    try:
        yield stream
    finally:
        stream.abandon()


class HashedStream(io.RawIOBase):
    """A file that is written once from start to end.

    It has no ``fileno`` and cannot seek, so that no library can write past the hash. The first failure is kept
    and raised again: a library that swallows it does not turn half a file into a whole one.
    """

    def __init__(self, path: Path, hashers: Executor, syncers: Executor) -> None:
        """Create the file."""
        super().__init__()
        self._path = path
        self._descriptor: int | None = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        self._hashers = hashers
        self._syncers = syncers
        self._hash = hashlib.sha256()
        self._size = 0
        self._flushed = 0
        self._flushing: Future[None] | None = None
        self._failure: StoreError | None = None
        self.buffered = io.BufferedWriter(self, _GATHERED)

    def writable(self) -> bool:
        """Say yes."""
        return True

    def write(self, data: Buffer, /) -> int:
        """Write all of it. The caller may change the buffer afterwards: nothing is kept of it.

        Raises:
            StoreError: The disk would not take it, now or at an earlier write.
        """
        if self._failure:
            raise self._failure
        assert self._descriptor is not None
        with memoryview(data).cast("B") as view:
            hashing = self._hashers.submit(self._hash.update, view) if len(view) > _INLINE else None
            try:
                with storing(f"write {self._path.name}"):
                    write_all(self._descriptor, view)
            except StoreError as error:
                self._failure = error
                raise
            finally:
                if hashing:
                    hashing.result()
                else:
                    self._hash.update(view)
            self._size += len(view)
            self._flush_early(self._descriptor)
            return len(view)

    def finish(self) -> tuple[int, Digest, Future[None]]:
        """Write what was gathered; return the size, the digest, and a future that is done when it is durable.

        Raises:
            StoreError: The disk would not take it, now or at an earlier write.
        """
        if not self.buffered.closed:
            self.buffered.flush()
        if self._failure:
            raise self._failure
        assert self._descriptor is not None
        durable = self._syncers.submit(_seal_and_close, self._descriptor, self._flushing)
        self._descriptor = None
        return self._size, Digest(self._hash.hexdigest()), durable

    def abandon(self) -> None:
        """Close the file, unless it was finished."""
        self.close()  # first, so that the buffer has nowhere to flush to when it goes
        if self._descriptor is not None:
            if self._flushing:
                self._flushing.exception()
            os.close(self._descriptor)
            self._descriptor = None

    def _flush_early(self, descriptor: int) -> None:
        if self._size - self._flushed < _FLUSHED or (self._flushing and not self._flushing.done()):
            return
        if self._flushing:
            with storing(f"write {self._path.name}"):
                self._flushing.result()
        self._flushed = self._size
        self._flushing = self._syncers.submit(os.fdatasync, descriptor)


def _seal_and_close(descriptor: int, flushing: Future[None] | None) -> None:
    try:
        if flushing:
            flushing.result()
        seal(descriptor)
    finally:
        os.close(descriptor)
