"""Ticking: a thread that does something every so often, until it is told to stop."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Ticking:
    """One such thread.

    Args:
        name: What it is called.
        seconds: Between two times.
        work: What it does. It may be called from outside, too; never twice at a time.
        failed: Told what it raises; the thread goes on.
    """

    def __init__(
        self, name: str, seconds: float, work: Callable[[], None], failed: Callable[[str, BaseException], None]
    ) -> None:
        """Start nothing yet."""
        self._name, self._seconds, self._work, self._failed = name, seconds, work, failed
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Stop; what is being done just now is waited for at most so many seconds."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                self._work()
            except Exception as error:  # noqa: BLE001 (the boundary of the thread)
                self._failed(self._name, error)
