"""Owed: the answer to a request, whose deadline whoever waits for it may look after, too."""

from __future__ import annotations

import weakref
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol

from vitrify.serve.values import Reply

if TYPE_CHECKING:

    class Sweeps(Protocol):
        """A lane that answers what is late."""

        def sweep(self) -> None:
            """Answer what is late now."""


class Owed(Future[Reply]):
    """An answer that a lane owes.

    On a machine that is busy each thread that has to wake up costs time. So an event loop that waits for the answer
    wakes up at the deadline by itself, and need not be woken by a thread of the lane that was woken before.

    Args:
        lane: Which lane; the answer does not keep it in memory.
    """

    def __init__(self, lane: Sweeps) -> None:
        super().__init__()
        self._lane = weakref.ref(lane)

    def late(self) -> None:
        """Have the lane answer what is late."""
        if (lane := self._lane()) is not None:
            lane.sweep()
