"""One upload: what was promised, what its id looks like, and what can be wrong with it."""

from __future__ import annotations

import re
import secrets

from vitrify.core.digest import Digest
from vitrify.core.errors import ConflictError, ReferenceNotFoundError, UsageError
from vitrify.core.wire import Value

MOST_BYTES = 16 * 1024**4
"""16 TiB: no upload may promise more."""

_ID = re.compile(r"[0-9a-f]{32}")


class Upload(Value, frozen=True, kw_only=True):
    """What was promised."""

    digest: str
    size: int

    def __post_init__(self) -> None:
        """Check the bounds; they were checked before it was written."""
        Digest.parse(self.digest)
        check_size(self.size)

    @property
    def content(self) -> Digest:
        """The digest as a value."""
        return Digest.parse(self.digest)


def new_id() -> str:
    """Return an id of 128 random bits."""
    return secrets.token_hex(16)


def check_id(upload: str) -> str:
    """Return an id that can be part of a path.

    Raises:
        ReferenceNotFoundError: It can be no upload's id.
    """
    if not _ID.fullmatch(upload):
        raise unknown(upload)
    return upload


def check_size(size: int) -> None:
    """Refuse what no upload can have.

    Raises:
        UsageError: It is negative or above ``MOST_BYTES``.
    """
    if not 0 <= size <= MOST_BYTES:
        msg = f"an upload of {size} bytes (expected 0 to {MOST_BYTES})"
        raise UsageError(msg)


def unknown(upload: str) -> ReferenceNotFoundError:
    """Return the error of an upload that is not there."""
    msg = f"no upload {upload[:64]!r}: it was committed, given up, or has expired"
    return ReferenceNotFoundError(msg, remedy="see whether the content is there, else start again")


def busy(upload: str) -> ConflictError:
    """Return the error of an upload that somebody else adds to."""
    msg = f"somebody else adds to upload {upload} now"
    return ConflictError(msg, remedy="ask for its offset, and go on from there")


def elsewhere(upload: str, offset: int, actual: int) -> ConflictError:
    """Return the error of bytes that do not follow those that are there."""
    msg = f"upload {upload}: {actual} bytes have arrived, not {offset}"
    return ConflictError(msg, remedy=f"go on from offset {actual}")


def incomplete(upload: str, arrived: int, size: int) -> ConflictError:
    """Return the error of a commit that is too early."""
    msg = f"upload {upload}: {arrived} of {size} bytes have arrived"
    return ConflictError(msg, remedy=f"send the rest from offset {arrived}")
