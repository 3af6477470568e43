"""Waking: the ends of futures that other threads settle, brought into an event loop.

A batch ends many requests at once. Waking the loop for each costs a system call a request, which is most of what a
small request costs; here everything that has ended since the loop's last turn is delivered by one wake.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from vitrify.serve.lanes.owed import Owed

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

_GRAIN = 0.001
"""Seconds: a loop's clock may be so coarse, and before the deadline nothing is late."""


class Waker:
    """Waits in one loop, whose thread alone may call it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait in this loop."""
        self.loop = loop
        self._ended: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._called = False

    async def wait(self, future: Future[T], deadline: float = math.inf) -> T:
        """Return what a future ends with, or raise it; whoever is cancelled meanwhile cancels the future.

        Args:
            future: What is waited for.
            deadline: When an answer that is owed is late, by ``time.monotonic()``.
        """
        waiting: asyncio.Future[T] = self.loop.create_future()
        future.add_done_callback(partial(self._end, waiting))
        timer: asyncio.TimerHandle | None = None
        if deadline < math.inf and isinstance(future, Owed):
            timer = self.loop.call_later(max(0.0, deadline - time.monotonic()) + _GRAIN, self._late, future)
        try:
            return await waiting
        except asyncio.CancelledError:
            future.cancel()
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _end(self, waiting: asyncio.Future[Any], future: Future[Any]) -> None:
        """Note an end, in any thread. First it is noted, then looked whether somebody comes: so none is left behind."""
        self._ended.append((waiting, future))
        if not self._called:
            self._called = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                self.loop.call_soon_threadsafe(self._deliver)

    def _late(self, owed: Owed) -> None:
        """Have a lane answer what is late, and deliver that at once."""
        owed.late()
        self._deliver()

    def _deliver(self) -> None:
        self._called = False  # from here on a new end calls again
        while self._ended:
            waiting, future = self._ended.popleft()
            if waiting.done():
                continue
            if future.cancelled():
                waiting.cancel()
            elif (error := future.exception()) is not None:
                waiting.set_exception(error)
            else:
                waiting.set_result(future.result())
