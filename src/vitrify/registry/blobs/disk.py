"""Blobs in an OCI image layout on disk; other OCI tools can read the directory.

Content is written under ``.vitrify/incoming``, and moved to ``blobs/sha256`` when it is whole, checked and durable.
What a killed process left there is deleted by the next that writes: its lock is free.

Source: OCI image specification 1.1, ``image-layout.md``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vitrify.core.digest import CHUNK, Digest
from vitrify.core.errors import ReferenceNotFoundError
from vitrify.core.manifest import INDEX_TYPE
from vitrify.registry.blobs import check_range, checking, wrong_size
from vitrify.stores._durable import locked, make_directory, replacing, seal, storing, sync, write_all
from vitrify.stores._index import PRIVATE, Index
from vitrify.stores._stream import hashed_stream
from vitrify.stores._verified import corrupt
from vitrify.stores.oci_layout import OciLayout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP})
_WRITERS = 0o222
_SMALL = 1024 * 1024
"""What is not larger is written sooner than threads are started to hash and sync it."""


class DiskBlobs:
    """See :class:`vitrify.registry.blobs.Blobs`.

    Attributes:
        root: The layout's directory; made by the first write.
    """

    def __init__(self, root: Path) -> None:
        """Touch nothing yet."""
        self.root = root.absolute()
        self._layout = OciLayout(self.root)
        self._incoming = self.root / PRIVATE / "incoming"
        self._prepared = False

    def __repr__(self) -> str:
        return f"DiskBlobs({str(self.root)!r})"

    def put(self, digest: Digest, size: int, chunks: Iterable[bytes | memoryview]) -> None:
        """Keep content; see :meth:`vitrify.registry.blobs.Blobs.put`."""
        if self._there(digest, size):
            return
        if size <= _SMALL:
            data = b"".join(checking(digest, size, chunks))
            with self.temporary() as path, storing(f"write {digest}"), path.open("xb", buffering=0) as file:
                write_all(file.fileno(), data)
                seal(file.fileno())
                self.settle(path, digest)
            return
        with self.temporary() as path, ThreadPoolExecutor(1) as hasher, ThreadPoolExecutor(1) as syncer:
            count = 0
            with hashed_stream(path, hasher, syncer) as stream:
                for chunk in chunks:
                    count += len(chunk)
                    if count > size:
                        raise wrong_size(digest, size, "more")
                    stream.buffered.write(chunk)
                found, actual, durable = stream.finish()
            with storing(f"write {digest}"):
                durable.result()
            if found != size:
                raise wrong_size(digest, size, str(found))
            if actual != digest:
                raise corrupt(digest, actual, place="what was sent")
            self.settle(path, digest)

    def read(self, digest: Digest, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yield content; see :meth:`vitrify.registry.blobs.Blobs.read`."""
        path = self.path(digest)
        end = check_range(digest, path.stat().st_size, start, stop)
        return _pieces(path, digest, start, end)

    def size(self, digest: Digest) -> int | None:
        """Return the number of bytes, or None where the digest is not there."""
        try:
            return self._layout.place(digest).stat().st_size
        except FileNotFoundError:
            return None

    def delete(self, digest: Digest) -> None:
        """Delete; deleting what is not there is no error."""
        with storing(f"delete {digest}"):
            self._layout.place(digest).unlink(missing_ok=True)

    def digests(self) -> Iterator[Digest]:
        """Yield the digest of everything that is there, sorted."""
        return self._layout.digests()

    def path(self, digest: Digest) -> Path:
        """Return the file that holds the content, for whoever sends or maps it; nothing is hashed.

        Raises:
            ReferenceNotFoundError: The digest is not there.
        """
        path = self._layout.place(digest)
        if not path.is_file():
            raise _absent(digest, self.root)
        return path

    def link(self, digest: Digest, path: Path) -> None:
        """Keep a local file, without a copy where that is safe; it is hashed.

        A file that somebody may still write to, or that lies in another file system, is copied.

        Raises:
            CorruptError: Its content is not what the digest promises.
            StoreError: It could not be read or linked.
        """
        with storing(f"read {path}"):
            status = path.stat()
        if self._there(digest, status.st_size):
            return
        if not status.st_mode & _WRITERS:
            with self.temporary() as temporary, storing(f"link {path}"):
                try:
                    os.link(path, temporary)
                except OSError as error:
                    if error.errno not in _NO_LINK:
                        raise
                else:
                    if (found := Digest.of_file(temporary)) != digest:
                        raise corrupt(digest, found, place=str(path))
                    sync(temporary)
                    self.settle(temporary, digest)
                    return
        self.put(digest, status.st_size, _pieces(path, digest, 0, status.st_size))

    @contextmanager
    def temporary(self) -> Iterator[Path]:
        """Yield a place for content on its way; what still lies there when the block ends is deleted."""
        self.prepare()
        path = self._incoming / secrets.token_hex(8)
        lock = path.with_suffix(".lock")
        with contextlib.ExitStack() as stack:
            with storing("make a place for what comes in"):
                while not lock.exists():  # another's sweep may delete it before it is locked
                    lock.touch()
                    with contextlib.suppress(FileNotFoundError):
                        stack.enter_context(locked(lock))
            try:
                yield path
            finally:
                path.unlink(missing_ok=True)
                lock.unlink(missing_ok=True)

    def settle(self, path: Path, digest: Digest) -> None:
        """Move durable, checked content to its place."""
        place = self._layout.place(digest)
        with storing(f"keep {digest}"):
            path.replace(place)
            sync(place.parent)

    def prepare(self) -> None:
        """Make the layout, if it is not there.

        Raises:
            UsageError: The directory holds something else.
            StoreError: It cannot be made.
        """
        if self._prepared:
            return
        self._layout.index.create()
        index = self.root / "index.json"
        with storing(f"make {self.root}"):
            make_directory(self._incoming)
            if not index.exists():
                empty = Index(schema_version=2, media_type=INDEX_TYPE, manifests=()).to_json()
                with (
                    self._layout.index.lock(),
                    replacing(index, self._incoming / f"{secrets.token_hex(8)}.index") as descriptor,
                ):
                    write_all(descriptor, empty)
            self._sweep()
        self._prepared = True

    def _there(self, digest: Digest, size: int) -> bool:
        found = self.size(digest)
        if found is not None and found != size:
            raise wrong_size(digest, size, str(found))
        return found is not None

    def _sweep(self) -> None:
        for lock in self._incoming.glob("*.lock"):
            with contextlib.suppress(OSError), locked(lock, wait=False):
                lock.with_suffix("").unlink(missing_ok=True)
                lock.unlink(missing_ok=True)


def _absent(digest: Digest, where: object) -> ReferenceNotFoundError:
    return ReferenceNotFoundError(f"no content {digest} in {where}", remedy="upload it first")


def _pieces(path: Path, digest: Digest, start: int, end: int) -> Iterator[bytes]:
    """Yield a part of a file; of one that was cut short meanwhile, what is left."""
    if start == end:
        return
    with storing(f"read {digest}"):
        try:
            stream = path.open("rb", buffering=0)
        except FileNotFoundError:
            raise _absent(digest, path.parent) from None
        with stream:
            stream.seek(start)
            while start < end and (piece := stream.read(min(CHUNK, end - start))):
                start += len(piece)
                yield piece
