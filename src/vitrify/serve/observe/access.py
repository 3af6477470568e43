"""The access log: one line of JSON a request, written by a thread.

No line has a header, a query or a body in it, so none has a token. Who writes a line never waits: when too many are
waiting, the newest are dropped and counted. A file that was moved, as log rotation does it, is opened anew.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_WAITING = 10_000
_PAUSE = 0.05
"""Seconds in which lines are gathered, so that many are one write."""
_LOOK = 1.0
"""Seconds between two looks whether the file was moved."""
_END = 5.0
STDERR = "stderr"


class AccessLog:
    """Writes lines.

    Args:
        where: ``stderr`` or a file, which is made where there is none, and added to.
        reopened: Called, in the log's thread, when the file was opened anew.
        look: Seconds between two looks whether the file was moved.
    """

    def __init__(self, where: str, reopened: Callable[[], None] = lambda: None, *, look: float = _LOOK) -> None:
        """Open it, and start the thread.

        Raises:
            UsageError: It cannot be written.
        """
        self._where, self._reopened, self._look = where, reopened, look
        try:
            self._file = _opened(where)
        except OSError as error:
            msg = f"the access log {where} cannot be written: {error.strerror}"
            raise UsageError(msg, remedy="choose another file for access_log") from error
        self._waiting: deque[dict[str, Any]] = deque()
        self._some = threading.Event()
        self._ended = self._wanted = self._torn = False
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="vitrify-access", daemon=True)
        self._thread.start()

    def write(self, **facts: Any) -> None:
        """Write one line, soon; its ``time`` is by ``time.time()``."""
        if len(self._waiting) >= _MOST_WAITING:
            self.dropped += 1
            return
        self._waiting.append(facts)
        self._some.set()

    def reopen(self) -> None:
        """Open the file anew, soon."""
        self._wanted = True
        self._some.set()

    def close(self) -> None:
        """Write what waits."""
        self._ended = True
        self._some.set()
        self._thread.join(_END)

    def _run(self) -> None:
        while not self._ended:
            if self._some.wait(self._look) and not self._ended:
                time.sleep(_PAUSE)
            self._some.clear()
            self._write()
            if self._wanted or self._was_moved():
                self._open_anew()
        self._write()
        os.close(self._file)

    def _was_moved(self) -> bool:
        if self._where == STDERR:
            return False
        try:
            there, ours = Path(self._where).stat(), os.fstat(self._file)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)

    def _open_anew(self) -> None:
        """Take the file at our path; while there can be none, the one before goes on."""
        self._wanted = False
        try:
            new = _opened(self._where)
        except OSError:
            return
        os.close(self._file)
        self._file = new
        self._reopened()

    def _write(self) -> None:
        if not self._waiting:
            return
        lines = []
        while self._waiting:
            facts = self._waiting.popleft()
            facts["time"] = datetime.fromtimestamp(facts["time"], UTC).isoformat(timespec="milliseconds")
            lines.append(msgspec.json.encode(facts))
        data = memoryview(b"\n".join([b""] * self._torn + lines + [b""]))
        try:
            while data:
                data = data[os.write(self._file, data) :]
            self._torn = False
        except OSError:  # the disk is full, or the reader has gone: the server goes on
            self.dropped += len(lines)
            self._torn = True


def _opened(where: str) -> int:
    if where == STDERR:
        return os.dup(2)
    return os.open(where, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
