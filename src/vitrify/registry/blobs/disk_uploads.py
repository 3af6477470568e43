"""Uploads in a directory beside the blobs: one file a promise, one for the bytes.

The length of the second is the offset. After a power cut it may be longer than what the disk really has; so the
content is hashed at the commit, unless this process saw every byte of it pass.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vitrify.core.digest import Digest
from vitrify.registry.blobs import wrong_size
from vitrify.registry.blobs._upload import Upload, busy, check_id, check_size, elsewhere, incomplete, new_id, unknown
from vitrify.stores._durable import locked, make_directory, replacing, seal, storing, sync, write_all
from vitrify.stores._index import PRIVATE, read_bounded
from vitrify.stores._verified import corrupt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from vitrify.registry.blobs.disk import DiskBlobs

_PROMISE_BYTES = 4096
_REMEMBERED = 256
"""Hashes of so many uploads are kept between their requests."""


class DiskUploads:
    """See :class:`vitrify.registry.blobs.uploads.Uploads`."""

    def __init__(self, blobs: DiskBlobs) -> None:
        """Touch nothing yet."""
        self._blobs = blobs
        self._root = blobs.root / PRIVATE / "uploads"
        self._hashes: OrderedDict[str, tuple[int, hashlib._Hash]] = OrderedDict()
        self._lock = threading.Lock()

    def start(self, digest: Digest, size: int) -> str:
        """Begin; see :meth:`vitrify.registry.blobs.uploads.Uploads.start`."""
        check_size(size)
        self._blobs.prepare()
        upload = new_id()
        with storing("start an upload"):
            make_directory(self._root)
            self._bytes(upload).touch()
            with replacing(self._promise(upload), self._root / f"{upload}.new") as descriptor:
                write_all(descriptor, Upload(digest=str(digest), size=size).to_json())
        return upload

    def offset(self, upload: str) -> int:
        """Return what has arrived; see :meth:`vitrify.registry.blobs.uploads.Uploads.offset`."""
        self._read(upload)
        try:
            return self._bytes(upload).stat().st_size
        except FileNotFoundError:
            raise unknown(upload) from None

    def append(self, upload: str, offset: int, chunks: Iterable[bytes | memoryview]) -> int:
        """Add bytes; see :meth:`vitrify.registry.blobs.uploads.Uploads.append`."""
        promise = self._read(upload)
        with self._held(upload) as path, path.open("r+b", buffering=0) as stream:
            end = stream.seek(0, os.SEEK_END)
            if end != offset:
                raise elsewhere(upload, offset, end)
            state = self._take(upload, offset)
            try:
                for chunk in chunks:
                    if end + len(chunk) > promise.size:
                        raise wrong_size(promise.content, promise.size, "more")
                    with storing(f"write upload {upload}"):
                        write_all(stream.fileno(), memoryview(chunk))
                    end += len(chunk)
                    if state is not None:
                        state.update(chunk)
            finally:
                with storing(f"write upload {upload}"):
                    if stream.seek(0, os.SEEK_END) != end:  # half of a chunk was written: it was not hashed
                        stream.truncate(end)
                    os.fsync(stream.fileno())
                self._remember(upload, end, state)
        return end

    def commit(self, upload: str) -> Digest:
        """Put it among the blobs; see :meth:`vitrify.registry.blobs.uploads.Uploads.commit`."""
        promise = self._read(upload)
        with self._held(upload) as path, storing(f"commit upload {upload}"):
            size = path.stat().st_size
            if size != promise.size:
                raise incomplete(upload, size, promise.size)
            state = self._take(upload, size)
            found = Digest(state.hexdigest()) if state is not None and size else Digest.of_file(path)
            if found != promise.content:
                self._delete(upload)
                raise corrupt(promise.content, found, place="what was uploaded")
            with path.open("rb") as stream:
                seal(stream.fileno())
            self._blobs.settle(path, promise.content)
            self._delete(upload)
        return promise.content

    def abort(self, upload: str) -> None:
        """Give it up; see :meth:`vitrify.registry.blobs.uploads.Uploads.abort`."""
        with storing(f"give up upload {upload[:64]}"):
            self._delete(check_id(upload))

    def expire(self, older_than: float) -> int:
        """Give up the old ones; see :meth:`vitrify.registry.blobs.uploads.Uploads.expire`."""
        latest = time.time() - older_than
        count = 0
        for promise in self._root.glob("*.json"):
            with contextlib.suppress(FileNotFoundError):
                path = promise.with_suffix("")
                changed = path.stat().st_mtime if path.exists() else 0.0
                if max(changed, promise.stat().st_mtime) > latest:
                    continue
                with contextlib.ExitStack() as stack:
                    try:
                        if path.exists():
                            stack.enter_context(locked(path, wait=False))
                    except BlockingIOError:
                        continue
                    self._delete(path.name)
                    count += 1
        self._sweep(latest)
        return count

    def _sweep(self, latest: float) -> None:
        """Delete what a start that was killed has left: bytes, or half a promise, without a promise."""
        for path in self._root.glob("*"):
            with contextlib.suppress(FileNotFoundError):
                alone = path.suffix == ".new" or not self._promise(path.stem).exists()
                if alone and path.stat().st_mtime <= latest:
                    path.unlink()

    @contextmanager
    def _held(self, upload: str) -> Iterator[Path]:
        """Hold the lock of an upload, which is the file of its bytes."""
        path = self._bytes(upload)
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locked(path, wait=False))
            except FileNotFoundError:
                raise unknown(upload) from None
            except BlockingIOError:
                raise busy(upload) from None
            if not path.exists():  # it was committed between the two
                raise unknown(upload)
            yield path

    def _read(self, upload: str) -> Upload:
        data = read_bounded(self._promise(check_id(upload)), _PROMISE_BYTES)
        if data is None:
            raise unknown(upload)
        return Upload.from_json(data, where=f"upload {upload}")

    def _take(self, upload: str, offset: int) -> hashlib._Hash | None:
        """Return the hash of all bytes up to ``offset``, if this process has it; nobody else gets it then."""
        with self._lock:
            known, state = self._hashes.pop(upload, (0, hashlib.sha256()))
        return state if known == offset else None

    def _remember(self, upload: str, offset: int, state: hashlib._Hash | None) -> None:
        if state is None:
            return
        with self._lock:
            self._hashes[upload] = offset, state
            while len(self._hashes) > _REMEMBERED:
                self._hashes.popitem(last=False)

    def _delete(self, upload: str) -> None:
        """The promise goes first: without it there is no upload, whatever else a crash leaves."""
        if self._root.is_dir():
            self._promise(upload).unlink(missing_ok=True)
            self._bytes(upload).unlink(missing_ok=True)
            sync(self._root)
        with self._lock:
            self._hashes.pop(upload, None)

    def _promise(self, upload: str) -> Path:
        return self._root / f"{upload}.json"

    def _bytes(self, upload: str) -> Path:
        return self._root / upload
