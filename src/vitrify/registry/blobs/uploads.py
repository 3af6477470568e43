"""Uploads that are resumed: content that arrives over several requests, each of which may be the last.

What arrived lasts: after the death of a client or of a server, :meth:`Uploads.offset` says from where to go on.

>>> uploads = open_uploads(blobs)                    # doctest: +SKIP
>>> upload = uploads.start(digest, size)             # doctest: +SKIP
>>> uploads.append(upload, 0, chunks)                # doctest: +SKIP
>>> uploads.append(upload, uploads.offset(upload), more)  # doctest: +SKIP
>>> uploads.commit(upload)                           # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from vitrify.core.errors import UsageError
from vitrify.registry.blobs._upload import MOST_BYTES, check_id, check_size, unknown
from vitrify.registry.blobs.disk import DiskBlobs
from vitrify.registry.blobs.disk_uploads import DiskUploads
from vitrify.registry.blobs.s3 import S3Blobs
from vitrify.registry.blobs.s3_uploads import S3Uploads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.core.digest import Digest
    from vitrify.registry.blobs import Blobs

__all__ = ["MOST_BYTES", "Uploads", "check_id", "check_size", "open_uploads", "unknown"]


class Uploads(Protocol):
    """Content on its way. Any process that sees the same place may go on with an upload that another began."""

    def start(self, digest: Digest, size: int) -> str:
        """Return the id of a new upload, which nobody can guess.

        Raises:
            UsageError: The size is negative or above ``MOST_BYTES``.
            StoreError: It could not be made.
        """

    def offset(self, upload: str) -> int:
        """Return how many bytes have arrived for good.

        Raises:
            ReferenceNotFoundError: There is no such upload: it was committed, given up, or has expired.
        """

    def append(self, upload: str, offset: int, chunks: Iterable[bytes | memoryview]) -> int:
        """Add bytes at ``offset`` and return the new offset. What arrived before ``chunks`` raised stays.

        Raises:
            ConflictError: ``offset`` is not where it ended, or somebody else adds to it now.
            CorruptError: More arrived than was promised; of this call's bytes, those within the promise may stay.
            ReferenceNotFoundError: There is no such upload.
            StoreError: They could not be written.
        """

    def commit(self, upload: str) -> Digest:
        """Put the content among the blobs and return its digest.

        Raises:
            ConflictError: Not all of it has arrived, or somebody adds to it now.
            CorruptError: It is not what the digest promised; the upload is gone.
            ReferenceNotFoundError: There is no such upload.
        """

    def abort(self, upload: str) -> None:
        """Give an upload up; giving up what is not there is no error."""

    def expire(self, older_than: float) -> int:
        """Give up what nothing was added to for so many seconds, and return how many those were."""


def open_uploads(blobs: Blobs) -> Uploads:
    """Return the uploads that end among these blobs; they lie beside them.

    Raises:
        UsageError: These blobs are of a kind that takes no uploads.
    """
    if isinstance(blobs, DiskBlobs):
        return DiskUploads(blobs)
    if isinstance(blobs, S3Blobs):
        return S3Uploads(blobs)
    msg = f"{blobs!r} takes no uploads"
    raise UsageError(msg, remedy="use a directory or s3://bucket/prefix")
