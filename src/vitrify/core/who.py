"""Who runs this process, and what time it is there: what statements say about themselves."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime


def now() -> str:
    """Return the time in UTC, to the second, as RFC 3339 has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def user() -> str:
    """Return who runs this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
