"""Uploads in object storage, which any of several servers may go on with.

An upload is ``uploads/<id>/promise`` and objects called after the offset at which their bytes begin. Each is made
only where there is none, so that of two who add at one offset one is refused. A commit reads them back, hashes them
and writes the blob: S3 does not compute the SHA-256 of content that came in parts, and nothing else may vouch for it.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import CorruptError, LimitExceededError
from vitrify.registry.blobs import wrong_size
from vitrify.registry.blobs._upload import Upload, check_id, check_size, elsewhere, incomplete, new_id, unknown
from vitrify.registry.blobs.s3 import PART, calling

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vitrify.core.digest import Digest
    from vitrify.registry.blobs.s3 import S3Blobs

_MOST_PIECES = 10_000
_PROMISE_BYTES = 4096


class S3Uploads:
    """See :class:`vitrify.registry.blobs.uploads.Uploads`."""

    def __init__(self, blobs: S3Blobs) -> None:
        """Ask for nothing yet."""
        self._blobs = blobs

    def start(self, digest: Digest, size: int) -> str:
        """Begin; see :meth:`vitrify.registry.blobs.uploads.Uploads.start`."""
        import obstore

        check_size(size)
        upload = new_id()
        with calling("start an upload"):
            obstore.put(self._blobs.bucket, _promise(upload), Upload(digest=str(digest), size=size).to_json())
        return upload

    def offset(self, upload: str) -> int:
        """Return what has arrived; see :meth:`vitrify.registry.blobs.uploads.Uploads.offset`."""
        self._read(upload)
        return _end(self._pieces(upload))

    def append(self, upload: str, offset: int, chunks: Iterable[bytes | memoryview]) -> int:
        """Add bytes; see :meth:`vitrify.registry.blobs.uploads.Uploads.append`."""
        promise = self._read(upload)
        pieces = self._pieces(upload)
        end = _end(pieces)
        if end != offset:
            raise elsewhere(upload, offset, end)
        count, length = len(pieces), max(PART, -(-promise.size * 2 // _MOST_PIECES))
        gathered = bytearray()

        def keep() -> None:
            nonlocal end, count
            if gathered:
                if count >= _MOST_PIECES:
                    msg = f"upload {upload}: more than {_MOST_PIECES} pieces"
                    raise LimitExceededError(msg, remedy="start again, and send more with each request")
                self._create(upload, end, bytes(gathered))
                end, count = end + len(gathered), count + 1
                gathered.clear()

        try:
            for chunk in chunks:
                if end + len(gathered) + len(chunk) > promise.size:
                    break
                gathered += chunk
                if len(gathered) >= length:
                    keep()
            else:
                keep()
                return end
        except Exception:
            keep()  # whoever sends may be gone: what arrived stays
            raise
        raise wrong_size(promise.content, promise.size, "more")

    def commit(self, upload: str) -> Digest:
        """Put it among the blobs; see :meth:`vitrify.registry.blobs.uploads.Uploads.commit`."""
        promise = self._read(upload)
        pieces = self._pieces(upload)
        if (end := _end(pieces)) != promise.size:
            raise incomplete(upload, end, promise.size)
        try:
            self._blobs.put(promise.content, promise.size, self._content(upload, pieces))
        except CorruptError:
            self._delete(upload)
            raise
        self._delete(upload)
        return promise.content

    def abort(self, upload: str) -> None:
        """Give it up; see :meth:`vitrify.registry.blobs.uploads.Uploads.abort`."""
        self._delete(check_id(upload))

    def expire(self, older_than: float) -> int:
        """Give up the old ones; see :meth:`vitrify.registry.blobs.uploads.Uploads.expire`."""
        import obstore

        latest: dict[str, datetime] = {}
        with calling("list the uploads"):
            for batch in obstore.list(self._blobs.bucket, prefix="uploads/"):
                for entry in batch:
                    upload = entry["path"].split("/")[-2]
                    latest[upload] = max(latest.get(upload, entry["last_modified"]), entry["last_modified"])
        now = datetime.now(UTC)
        old = [upload for upload, changed in latest.items() if (now - changed).total_seconds() >= older_than]
        for upload in old:
            self._delete(upload)
        return len(old)

    def _read(self, upload: str) -> Upload:
        import obstore

        with calling(f"read upload {upload[:64]}", absent=unknown(upload)):
            answer = obstore.get(self._blobs.bucket, _promise(check_id(upload)))
            if answer.meta["size"] > _PROMISE_BYTES:
                raise unknown(upload)
            data = bytes(answer.bytes())
        return Upload.from_json(data, where=f"upload {upload}")

    def _pieces(self, upload: str) -> dict[int, int]:
        """Return where each piece that follows the one before begins, and its length, in order."""
        import obstore

        found: dict[int, int] = {}
        with calling(f"list upload {upload}"):
            for batch in obstore.list(self._blobs.bucket, prefix=f"uploads/{upload}/"):
                for entry in batch:
                    name = entry["path"].rpartition("/")[2]
                    if name.isdecimal():
                        found[int(name)] = entry["size"]
        pieces: dict[int, int] = {}
        end = 0
        while end in found:
            pieces[end] = found[end]
            end += found[end]
        return pieces

    def _create(self, upload: str, offset: int, data: bytes) -> None:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with calling(f"write upload {upload}"):
            try:
                obstore.put(self._blobs.bucket, f"uploads/{upload}/{offset:020d}", data, mode="create")
            except AlreadyExistsError:
                raise elsewhere(upload, offset, _end(self._pieces(upload))) from None

    def _content(self, upload: str, pieces: dict[int, int]) -> Iterator[memoryview]:
        import obstore

        for offset in pieces:
            with calling(f"read upload {upload}", absent=unknown(upload)):
                data: Any = obstore.get(self._blobs.bucket, f"uploads/{upload}/{offset:020d}").bytes()
            yield memoryview(data)

    def _delete(self, upload: str) -> None:
        """The promise goes first: without it there is no upload, whatever else a crash leaves."""
        import obstore

        with calling(f"give up upload {upload}"), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._blobs.bucket, _promise(upload))
            for batch in obstore.list(self._blobs.bucket, prefix=f"uploads/{upload}/"):
                obstore.delete(self._blobs.bucket, [entry["path"] for entry in batch])


def _promise(upload: str) -> str:
    return f"uploads/{upload}/promise"


def _end(pieces: dict[int, int]) -> int:
    return sum(pieces.values())
