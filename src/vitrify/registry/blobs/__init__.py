"""Where the registry keeps content: by digest, on disk or in object storage, whole or not at all.

>>> blobs = open_blobs("/srv/models")                          # doctest: +SKIP
>>> blobs = open_blobs("s3://bucket/models?region=eu-west-1")  # doctest: +SKIP
>>> blobs.put(digest, size, chunks)                            # doctest: +SKIP
>>> b"".join(blobs.read(digest, 0, 100))                       # doctest: +SKIP

Content that arrives in several requests: :mod:`vitrify.registry.blobs.uploads`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from vitrify.core.digest import Digest
from vitrify.core.errors import CorruptError, UsageError
from vitrify.stores._verified import corrupt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Blobs", "open_blobs"]


class Blobs(Protocol):
    """Bytes by digest. Any number of processes may use one place at once.

    What is written appears whole and checked, or not. Who deletes must know that nobody is about to need it: a
    :meth:`put` of what is there does nothing.
    """

    def put(self, digest: Digest, size: int, chunks: Iterable[bytes | memoryview]) -> None:
        """Keep ``size`` bytes, which are hashed on their way; durable when it returns.

        Where the digest is there already, nothing is read from ``chunks``.

        Raises:
            CorruptError: The bytes are more or fewer than ``size``, or not what the digest promises; nothing is kept.
            StoreError: They could not be written; nothing is kept.
            UnavailableError: The object storage cannot be reached; nothing is kept.
        """

    def read(self, digest: Digest, start: int = 0, stop: int | None = None) -> Iterator[bytes | memoryview]:
        """Yield the bytes from ``start`` up to but without ``stop``, in pieces of 1 MiB or more but for the last.

        They are not hashed again: whoever wants all of them does that.

        Raises:
            ReferenceNotFoundError: The digest is not there; raised by the call, not by the first piece.
            UsageError: The range is none of this content.
        """

    def size(self, digest: Digest) -> int | None:
        """Return the number of bytes, or None where the digest is not there."""

    def delete(self, digest: Digest) -> None:
        """Delete; deleting what is not there is no error."""

    def digests(self) -> Iterator[Digest]:
        """Yield the digest of everything that is there, sorted."""


def open_blobs(place: str | Path) -> Blobs:
    """Return the blobs at a place; nothing is made or asked before it is used.

    Args:
        place: A directory, or ``s3://bucket/prefix`` with the options ``endpoint``, ``region``, ``path_style`` and
            ``plain_http`` behind a question mark. Credentials come from the environment, as for other S3 tools.

    Raises:
        UsageError: It is neither.
        MissingDependencyError: Object storage needs the extra ``s3``.
    """
    text = str(place)
    if text.startswith("s3://"):
        from vitrify.registry.blobs.s3 import S3Blobs

        return S3Blobs(text)
    if "://" in text or not text:
        msg = f"no place for blobs: {text!r} (expected a directory or s3://bucket/prefix)"
        raise UsageError(msg)
    from vitrify.registry.blobs.disk import DiskBlobs

    return DiskBlobs(Path(text))


def wrong_size(digest: Digest, promised: int, found: str) -> CorruptError:
    """Return the error of content that is longer or shorter than was said."""
    msg = f"content of {digest}: {promised} bytes were promised, there are {found}"
    return CorruptError(msg, remedy="send it again; if that does not help, its source is damaged")


def checking(digest: Digest, size: int, chunks: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Yield the chunks as they are; in place of the end, raise what is wrong with them.

    So the object is not made: whoever reads an iterator that raises has no end to act on.

    Raises:
        CorruptError: They are too many, too few, or others.
    """
    count, found = 0, hashlib.sha256()
    for chunk in chunks:
        count += len(chunk)
        if count > size:
            raise wrong_size(digest, size, "more")
        found.update(chunk)
        if chunk:
            yield chunk
    if count != size:
        raise wrong_size(digest, size, str(count))
    if found.hexdigest() != digest.hex:
        raise corrupt(digest, Digest(found.hexdigest()), place="what was sent")


def check_range(digest: Digest, size: int, start: int, stop: int | None) -> int:
    """Return where to stop.

    Raises:
        UsageError: The range is none of this content.
    """
    end = size if stop is None else stop
    if not 0 <= start <= end <= size:
        msg = f"bytes {start} to {end} of {digest}: it has {size}"
        raise UsageError(msg, remedy="ask for a range inside the content")
    return end
