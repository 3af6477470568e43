"""Pages of an answer: how many, from where, and the token that goes on."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

from vitrify.core.errors import UsageError

_TOKEN = re.compile(rb"from:(\d{1,9})", re.ASCII)


@dataclass(frozen=True)
class Window:
    """A part of an answer.

    Attributes:
        limit: At most this many.
        offset: After this many.
    """

    limit: int
    offset: int

    def token(self, found: int) -> str | None:
        """Return the token of the page behind this one, where more than ``limit`` were found."""
        if found <= self.limit:
            return None
        return base64.urlsafe_b64encode(f"from:{self.offset + self.limit}".encode()).decode()


def window(most: int | None, token: str | None, *, default: int = 100, limit: int = 1000) -> Window:
    """Return what was asked for; what asks for more than ``limit`` gets that many.

    Raises:
        UsageError: The size is not positive, or the token is none of ours.
    """
    size = default if most is None else most
    if size <= 0:
        msg = f"max_results is {size}; expected 1 or more"
        raise UsageError(msg)
    if not token:
        return Window(min(size, limit), 0)
    try:
        match = _TOKEN.fullmatch(base64.b64decode(token.encode(), altchars=b"-_", validate=True))
    except (binascii.Error, UnicodeEncodeError):
        match = None
    if match is None:
        msg = f"not a page token of this server: {token[:60]!r}"
        raise UsageError(msg, remedy="use the one that the page before gave")
    return Window(min(size, limit), int(match[1]))
