"""Starting processes: from one thread that never ends.

The system ends a worker together with what started it, so that no worker is left behind by a server that was killed.
On Linux that is not the process but the thread which started it, and the threads that load models come and go.
"""

from __future__ import annotations

import subprocess
import threading
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    _Order = tuple[Sequence[str], dict[str, Any], Future[Any]]

_ORDERS: SimpleQueue[_Order] = SimpleQueue()
_LOCK = threading.Lock()
_THREADS: list[threading.Thread] = []


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a process as ``subprocess.Popen`` does, and return it.

    Raises:
        OSError: It cannot be started.
    """
    with _LOCK:
        if not _THREADS or not _THREADS[-1].is_alive():  # a process that was forked has no threads of its parent's
            _THREADS.append(threading.Thread(target=_work, name="starts workers", daemon=True))
            _THREADS[-1].start()
    future: Future[subprocess.Popen[bytes]] = Future()
    _ORDERS.put((command, options, future))
    return future.result()


def _work() -> None:
    while True:
        command, options, future = _ORDERS.get()
        try:
            process = subprocess.Popen(command, **options)  # noqa: S603 (an interpreter that the settings name)
            future.set_result(process)
        except BaseException as error:  # noqa: BLE001 (whoever ordered it is told)
            future.set_exception(error)
        del command, options, future
