"""Sessions whose models are in processes of their own: what happens there harms nobody here.

The batch that a worker was running when it ended fails; what comes after waits for the next worker.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from vitrify.core.errors import UnavailableError
from vitrify.runtimes.session import BaseSession
from vitrify.serve.workers.keeping import Kept, Restarts
from vitrify.serve.workers.process import Process, WorkerEnded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Signature
    from vitrify.serve.workers._wire import Task

T = TypeVar("T")


class WorkerSession(BaseSession):
    """A session over one worker. Any thread may ask; one is answered at a time."""

    def __init__(self, signature: Signature, kept: Kept, seconds: float) -> None:
        """Ask a worker; wait at most so many seconds for one that is being started."""
        super().__init__(signature)
        self._kept, self._seconds = kept, seconds
        self._turn = threading.Lock()

    @property
    def trouble(self) -> str:
        """Why there is no worker, although one was tried again and again; empty where there is, or will be soon."""
        return self._kept.trouble

    @property
    def pid(self) -> int:
        """The worker's process number; 0 while there is none."""
        return self._kept.pid

    def close(self) -> None:
        """End the worker."""
        self._kept.close()

    def _run(self, inputs: Arrays) -> Arrays:
        return self._asked(lambda process: process.run(inputs))

    def _asked(self, what: Callable[[Process], T]) -> T:
        with self._turn:
            process = self._kept.ready(self._seconds)
            try:
                answer = what(process)
            except WorkerEnded as ended:
                raise self._lost(process, ended) from None
            self._kept.look(process)
            return answer

    def _lost(self, process: Process, ended: WorkerEnded) -> UnavailableError:
        self._kept.lost(process, str(ended))
        msg = f"the model's worker {ended}; it is started again"
        return UnavailableError(msg, remedy="ask again; if it goes on, the model or what it is asked is at fault")


class _Remembering(WorkerSession):
    """One whose model remembers."""

    def reset(self) -> None:
        """Forget what earlier calls left behind; a new worker has nothing to forget."""
        self._asked(Process.reset)


class _Streaming(WorkerSession):
    """One whose model gives parts."""

    def stream(self, inputs: Arrays) -> Iterator[Arrays]:
        """Yield the parts of an answer; see :class:`vitrify.core.protocols.Streams`."""
        with self._turn:
            process = self._kept.ready(self._seconds)
            try:
                yield from process.stream(inputs)
            except WorkerEnded as ended:
                raise self._lost(process, ended) from None
            self._kept.look(process)


class _RememberingStreaming(_Remembering, _Streaming):
    """One whose model does both."""


_KINDS = {
    (False, False): WorkerSession,
    (True, False): _Remembering,
    (False, True): _Streaming,
    (True, True): _RememberingStreaming,
}
"""By whether the model remembers, and whether it gives parts."""


def open_worker(
    signature: Signature,
    task: Task,
    *,
    python: str = "",
    run_seconds: float = 300.0,
    memory: int = 0,
    restarts: Restarts | None = None,
) -> WorkerSession:
    """Start a worker, and return a session over it.

    Args:
        signature: The model's.
        task: What the worker opens.
        python: Its interpreter; empty for this one.
        run_seconds: A worker is ended when it takes longer for one answer.
        memory: Bytes that it may hold between batches; 0 is without limit.
        restarts: How it is started again.

    Raises:
        UsageError: Its interpreter cannot run Vitrify, or the open model alone is larger than ``memory``.
        UnavailableError: The worker ended while it opened the model.
        VitrifyError: It could not open it.
    """
    kind = (False, False)

    def start() -> Process:
        nonlocal kind
        process = Process(task, python, run_seconds)
        kind = process.stateful, process.streams
        return process

    kept = Kept(start, task.reference, memory, restarts or Restarts())
    return _KINDS[kind](signature, kept, run_seconds)
