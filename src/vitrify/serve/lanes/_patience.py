"""Patience: whether a batch that is not full should wait for more rows.

Under light load nobody comes while one waits, so it would only cost. Whether somebody would have come is seen without
waiting: a request that arrives while a batch is run, soon after its start, would have been part of it. Nothing here is
locked: the lane does that.
"""

from __future__ import annotations

_WEIGHT = 0.25
"""Of the latest batch in the average."""
_ENOUGH = 0.5
"""Waiting must have brought rows in so many cases."""
_PAUSES = 4
"""A wait ends early when nobody came for such a part of it."""


class Patience:
    """An exponential average of how often waiting brought rows, or would have.

    Args:
        seconds: The longest wait.

    Attributes:
        seconds: Likewise.
        pause: Seconds without anybody after which waiting ends.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.pause = seconds / _PAUSES
        self._gain = 0.0
        self._started: float | None = None

    def pays(self) -> bool:
        """Say whether waiting has lately brought rows."""
        return self.seconds > 0 and self._gain > _ENOUGH

    def until(self, now: float, deadline: float) -> float:
        """Return how long to wait at most: whoever has a deadline needs some of the time for the model."""
        return now + min(self.seconds, (deadline - now) / 2)

    def learn(self, *, brought: bool) -> None:
        """Note what became of a wait."""
        self._gain += (brought - self._gain) * _WEIGHT

    def start(self, now: float) -> None:
        """Note that a batch goes without having waited; the first request that comes soon tells what it would have."""
        self._started = now

    def arrived(self, now: float) -> None:
        """Note a request."""
        if self._started is not None:
            self.learn(brought=now - self._started <= self.seconds)
            self._started = None

    def end(self) -> None:
        """Note that the batch is done: who comes now may have come because of it."""
        if self._started is not None:
            self.learn(brought=False)
            self._started = None
