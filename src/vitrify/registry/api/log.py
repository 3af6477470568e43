"""The server's log: JSON, a line a request, written by a thread of its own.

A line never has a header's, a query's or a body's content, so no token; JSON escapes what could look like another line.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from typing import IO

_MOST_WAITING = 10_000
_PAUSE = 0.05
_LONGEST = 2000


class Log:
    """Writes lines without holding up who has something to say; if nobody reads them, the oldest are lost.

    Args:
        stream: Where the lines go; by default standard error.
    """

    def __init__(self, stream: IO[str] | None = None) -> None:
        """Start the thread."""
        self._stream = stream or sys.stderr
        self._waiting: deque[dict[str, Any]] = deque(maxlen=_MOST_WAITING)
        self._some = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="vitrify-log", daemon=True)
        self._thread.start()

    def say(self, event: str, **facts: Any) -> None:
        """Write one line, soon."""
        self._waiting.append({"time": time.time(), "event": event, **facts})
        self._some.set()

    def fault(self, id_: str, error: BaseException) -> None:
        """Write what went wrong on our side, in full."""
        self.say("fault", level="error", id=id_, error=repr(error)[:_LONGEST], trace=_trace(error))

    def close(self) -> None:
        """Write what waits."""
        self._ended = True
        self._some.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._ended:
            self._some.wait()
            if not self._ended:
                time.sleep(_PAUSE)  # so that many lines are one write
            self._some.clear()
            self._write()
        self._write()

    def _write(self) -> None:
        lines = []
        while self._waiting:
            line = self._waiting.popleft()
            line["time"] = datetime.fromtimestamp(line["time"], UTC).isoformat(timespec="milliseconds")
            lines.append(msgspec.json.encode(line).decode())
        if lines:
            try:
                self._stream.write("\n".join([*lines, ""]))
                self._stream.flush()
            except (OSError, ValueError):  # the log's reader is gone; the registry is not
                return


class LogHandler(logging.Handler):
    """Puts what a library logs into ours."""

    def __init__(self, log: Log) -> None:
        """Keep where to."""
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record as a line."""
        facts = {"trace": _trace(record.exc_info[1])} if record.exc_info and record.exc_info[1] else {}
        self._log.say("library", level=record.levelname.lower(), message=record.getMessage()[:_LONGEST], **facts)


def _trace(error: BaseException) -> list[str]:
    """Return where it happened, without the values that were at hand: they may be secrets."""
    places = traceback.extract_tb(error.__traceback__)[-20:]
    here = [f"{place.filename}:{place.lineno} {place.name}" for place in places]
    cause = error.__cause__
    return here if cause is None else [*here, f"because of {repr(cause)[:_LONGEST]}", *_trace(cause)]
