"""Deadlines: which request is late next. Nothing here is locked: the lane does that."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

_SLACK = 64
"""So many entries of requests that are done are kept before they are thrown away."""


class Deadlines:
    """A heap of deadlines and the numbers of their requests.

    It holds no request: one that is done leaves at once, and only its number stays for a while.

    Args:
        live: Says which numbers are still waited for.
    """

    def __init__(self, live: Container[int]) -> None:
        self._live = live
        self._heap: list[tuple[float, int]] = []
        self._limit = _SLACK

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, deadline: float, number: int) -> None:
        """Take a deadline; the work is small on average, and so is what is kept."""
        if len(self._heap) >= self._limit:
            self._heap = [one for one in self._heap if one[1] in self._live]
            heapq.heapify(self._heap)
            self._limit = 2 * len(self._heap) + _SLACK
        heapq.heappush(self._heap, (deadline, number))

    def late(self, now: float) -> list[int]:
        """Remove and return the live numbers whose deadline is not after ``now``."""
        found = []
        while self._heap and (self._heap[0][0] <= now or self._heap[0][1] not in self._live):
            _, number = heapq.heappop(self._heap)
            if number in self._live:
                found.append(number)
        return found

    def next(self) -> float:
        """Return the earliest deadline, perhaps of a request that is done; infinite for none."""
        return self._heap[0][0] if self._heap else math.inf
