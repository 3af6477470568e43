"""Back-off: what failed is not tried again at once, and each time later."""

from __future__ import annotations

import time

_FIRST_SECONDS = 1.0
_LONGEST_SECONDS = 300.0


class Backoff:
    """When something may be tried again."""

    def __init__(self) -> None:
        """Start without a failure."""
        self._failures, self._until = 0, 0.0

    @property
    def seconds(self) -> float:
        """Seconds until it may be tried again; 0 for now."""
        return max(0.0, self._until - time.monotonic())

    def failed(self) -> None:
        """Wait twice as long as the last time, from now on."""
        self._until = time.monotonic() + min(_FIRST_SECONDS * 2 ** min(self._failures, 30), _LONGEST_SECONDS)
        self._failures += 1

    def worked(self) -> None:
        """Forget all failures."""
        self._failures, self._until = 0, 0.0
