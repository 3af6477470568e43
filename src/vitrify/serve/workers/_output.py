"""What a worker prints goes to the server's log, as warnings: line by line, and never more than a log can bear."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque

_LOG = logging.getLogger(__name__)

_LINE = 1000
"""Bytes of a line that are kept."""
_LINES = 200
"""Lines a minute; the rest is counted."""
_MINUTE = 60.0
_LAST = 20


class Output:
    """Reads one worker's output in a thread of its own, so that the worker never waits for it.

    Args:
        descriptor: The pipe's end; closed when the other is.
        name: What the log calls the worker.
    """

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor, self._name = descriptor, name
        self._since, self._said, self._left_out = time.monotonic(), 0, 0
        self._last: deque[str] = deque(maxlen=_LAST)
        self._thread = threading.Thread(target=self._read, name=f"output of {name}", daemon=True)
        self._thread.start()

    def end(self, seconds: float) -> None:
        """Wait until everything was read that was printed, but not longer."""
        self._thread.join(seconds)

    def last(self) -> str:
        """Return the last lines, for whoever starts workers; clients must not see them."""
        return "\n".join(tuple(self._last))

    def _read(self) -> None:
        rest = b""
        try:
            while data := os.read(self._descriptor, 1 << 16):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._say(line)
                rest = rest[:_LINE]
        except OSError:
            pass  # the system took the pipe away: nothing more comes
        finally:
            os.close(self._descriptor)
        if rest:
            self._say(rest)
        self._count_up()

    def _say(self, line: bytes) -> None:
        text = line[:_LINE].decode("utf-8", "backslashreplace").rstrip()
        self._last.append(text)
        now = time.monotonic()
        if now - self._since > _MINUTE:
            self._count_up()
            self._since, self._said = now, 0
        if self._said < _LINES:
            self._said += 1
            _LOG.warning("%s: %s", self._name, text)
        else:
            self._left_out += 1

    def _count_up(self) -> None:
        if self._left_out:
            _LOG.warning("%s: %d more lines were left out", self._name, self._left_out)
            self._left_out = 0
