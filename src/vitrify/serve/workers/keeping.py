"""Keeping a worker: one that crashes, hangs or grows too large is replaced by another.

One that ends again and again is started later and later; meanwhile :attr:`Kept.trouble` says why, and whoever wants the
worker is told so at once. One that only grew is replaced when the next one is up, between two batches.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vitrify.core.errors import UnavailableError, UsageError, VitrifyError
from vitrify.serve.workers.process import Process, WorkerEnded

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
"""So often a worker's memory is looked at, between batches."""


@dataclass(frozen=True)
class Restarts:
    """How often a worker may end, and how soon it is started again.

    Attributes:
        quick: One that ends within so many seconds of its start counts; one that lived longer begins the count anew.
        most: After so many in a row the model is unavailable until the next one is up.
        first: Seconds before the second start in a row; each later one waits twice as long. The first is at once.
        longest: But not longer.
    """

    quick: float = 60.0
    most: int = 5
    first: float = 0.25
    longest: float = 60.0

    def delay(self, ends: int) -> float:
        """Return the seconds to wait after so many ends in a row."""
        return 0.0 if ends <= 1 else min(self.first * 2.0 ** min(ends - 2, 30), self.longest)


class Kept:
    """A worker that is always there, as far as that can be.

    Args:
        start: Starts one and has it open the model.
        name: What the log calls the model.
        memory: Bytes that it may hold between batches; 0 is without limit.
        restarts: How it is started again.

    Raises:
        UsageError: The open model alone is larger than ``memory``.
        UnavailableError: The worker ended while it opened the model.
        VitrifyError: It could not open it.
    """

    def __init__(self, start: Callable[[], Process], name: str, memory: int, restarts: Restarts) -> None:
        self._start, self._name, self._memory, self._restarts = start, name, memory, restarts
        self.trouble = ""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._starting = self._closed = False
        self._ends = 0
        self._looked = 0.0
        self._next: Process | None = None
        try:
            self._now: Process | None = start()
        except WorkerEnded as ended:
            msg = f"its worker {ended} while it opened the model"
            raise UnavailableError(msg, remedy="the log has what it said") from None
        held = self._now.memory
        if memory and held > memory:
            self._now.close()
            msg = f"process_memory is {memory} bytes; with the model just opened a worker holds {held}"
            raise UsageError(msg, remedy="allow it more than that")

    @property
    def pid(self) -> int:
        """The worker's process number; 0 while there is none."""
        now = self._now
        return now.pid if now else 0

    def ready(self, seconds: float) -> Process:
        """Return the worker, one that is just being started after so many seconds at most.

        Raises:
            UnavailableError: There is none.
        """
        with self._lock:
            self._change_over()
            self._changed.wait_for(lambda: self._now or self._closed or self.trouble, seconds)
            if self._now is not None:
                return self._now
            reason = "the model is being unloaded" if self._closed else self.trouble
        raise UnavailableError(reason or "the model's worker is still being started", remedy="ask again later")

    def lost(self, process: Process, how: str) -> None:
        """Start another worker in the place of one that ended."""
        process.close(0.0)
        lived = time.monotonic() - process.began
        with self._lock:
            if self._now is not process:  # closed meanwhile
                return
            _LOG.warning("a worker of %s %s", self._name, how)
            self._ends = self._ends + 1 if lived < self._restarts.quick else 1
            self._now, self._next = self._next, None
            if self._now is None:
                self._start_after(how)

    def look(self, process: Process) -> None:
        """Have a worker that has grown too large replaced; called between batches."""
        now = time.monotonic()
        if not self._memory or now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        held = process.memory
        if held <= self._memory:
            return
        with self._lock:
            if self._now is process and self._next is None and not self._starting and not self._closed:
                _LOG.warning("a worker of %s holds %d bytes, more than %d: replaced", self._name, held, self._memory)
                self._starting = True
                self._in_background(0.0)

    def close(self) -> None:
        """End it, for good."""
        with self._lock:
            self._closed = True
            ending = [one for one in (self._now, self._next) if one is not None]
            self._now = self._next = None
            self._changed.notify_all()
        for one in ending:
            one.close()

    # Under the lock.

    def _change_over(self) -> None:
        """Let the next worker take the place of one that has grown."""
        if self._next is None:
            return
        old, self._now, self._next = self._now, self._next, None
        if old is not None:
            threading.Thread(target=old.close, name="ends a worker", daemon=True).start()

    def _start_after(self, how: str) -> None:
        """Start a worker, after a while where several have ended."""
        if self._closed:
            return
        delay = self._restarts.delay(self._ends)
        if self._ends >= self._restarts.most:
            again = f"it is started again in {delay:g} s"
            self.trouble = f"the model's worker failed {self._ends} times in a row: it {how}; {again}"
            self._changed.notify_all()
        if not self._starting:
            self._starting = True
            self._in_background(delay)

    def _in_background(self, delay: float) -> None:
        threading.Thread(target=self._bring, args=(delay,), name=f"starts {self._name}", daemon=True).start()

    # Not under the lock.

    def _bring(self, delay: float) -> None:
        """Start a worker and put it where it belongs; where that fails, try again later."""
        with self._lock:
            if self._changed.wait_for(lambda: self._closed, delay):
                return
        try:
            process = self._start()
        except Exception as error:  # noqa: BLE001 (nobody else would try again)
            known = isinstance(error, (VitrifyError, WorkerEnded))
            said = str(error).partition("\n")[0] if known else type(error).__name__
            _LOG.warning("no worker of %s: %s", self._name, said, exc_info=not known)
            with self._lock:
                self._starting = False
                if self._now is None:
                    self._ends += 1
                    self._start_after(f"could not be started: {said}")
            return
        with self._lock:
            self._starting = False
            if not self._closed:
                self.trouble = ""
                if self._now is None:
                    self._now = process
                else:
                    self._next = process
                self._changed.notify_all()
                return
        process.close()
