"""One worker process, as the server sees it: started, asked, watched, ended."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from vitrify.core.errors import UsageError, VitrifyError
from vitrify.serve.workers import _starting
from vitrify.serve.workers._output import Output
from vitrify.serve.workers._shelf import Shelf
from vitrify.serve.workers._wire import PROTOCOL, Answer, Ask, Wire, error_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.protocols import Arrays
    from vitrify.serve.workers._wire import Task

_LOG = logging.getLogger(__name__)

HELLO_SECONDS = 60.0
"""An interpreter that has not said hello after so long will not."""
OPEN_SECONDS = 600.0
_EARLIER = 0.05
"""Seconds by which a hang is ended before its lane would call the model stuck, and refuse what comes meanwhile."""
_END_SECONDS = 2.0
"""For a worker to go by itself, once it was told to."""
_OURS = ("PYTHONPATH", "PYTHONHOME", "__PYVENV_LAUNCHER__")
"""Variables that would lead another environment's interpreter to this one's libraries."""


class WorkerEnded(Exception):  # noqa: N818 (an end, of which whoever asked makes an error)
    """The process is gone, or had to be ended; the text says how, for everybody to read."""


class Process:
    """One worker with an open model. Only one thread at a time may ask it.

    Args:
        task: What it opens.
        python: The interpreter; empty for this one.
        run_seconds: It is ended when it takes longer for one answer.

    Raises:
        UsageError: There is no such interpreter, or it cannot run this Vitrify.
        VitrifyError: It could not open the model.
        WorkerEnded: It ended while it opened it.
    """

    def __init__(self, task: Task, python: str, run_seconds: float) -> None:
        self._run_seconds = run_seconds
        self._name = f"worker of {task.reference}"
        self.began = time.monotonic()
        ours, theirs = socket.socketpair()
        self._wire = Wire(ours, Answer)
        self._inputs, self._outputs = Shelf.new(), Shelf.new()
        try:
            with theirs:
                self._start(python, theirs.fileno())
        except BaseException:
            self._let_go()
            raise
        try:
            self._greet(python)
            ready = self._ask(Ask("open", task=task), OPEN_SECONDS)
        except BaseException:
            self.close(0.0)
            raise
        self.stateful, self.streams = ready.stateful, ready.streams
        self.began = time.monotonic()

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    @property
    def memory(self) -> int:
        """The bytes of memory that it holds; 0 where this system does not say."""
        try:
            with open(f"/proc/{self.pid}/statm", "rb") as file:  # noqa: PTH123 (a path object costs more than the read)
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):
            return 0

    def run(self, inputs: Arrays) -> Arrays:
        """Run one batch.

        Raises:
            VitrifyError: What the model raised.
            WorkerEnded: It took too long, or ended.
        """
        answer = self._ask(Ask("run", self._inputs.put(inputs)), self._run_seconds)
        return self._taken(answer)

    def reset(self) -> None:
        """Let the model forget. Raises as :meth:`run`."""
        self._ask(Ask("reset"), self._run_seconds)

    def stream(self, inputs: Arrays) -> Iterator[Arrays]:
        """Yield the parts of an answer, each asked for when it is wanted. Raises as :meth:`run`."""
        answer = self._ask(Ask("stream", self._inputs.put(inputs)), self._run_seconds)
        try:
            while answer.kind == "part":
                yield self._taken(answer)
                answer = self._ask(Ask("next"), self._run_seconds)
        except GeneratorExit:
            self._ask(Ask("stop"), self._run_seconds)
            raise

    def close(self, seconds: float = _END_SECONDS) -> None:
        """End it: by itself within so many seconds, or by the system."""
        self._wire.close()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._kill()
        self._let_go()

    def _start(self, python: str, theirs: int) -> None:
        passed = (theirs, self._inputs.descriptor, self._outputs.descriptor)
        numbers = [str(number) for number in (*passed, os.getpid())]
        reading, writing = os.pipe()
        try:
            self._process = _starting.start(
                [python or sys.executable, "-P", "-X", "faulthandler", "-m", "vitrify.serve.workers.child", *numbers],
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                pass_fds=passed,
                start_new_session=True,  # what is typed at the server's terminal is not for its workers
                env=_environment(python),
            )
        except OSError as error:
            os.close(reading)
            _LOG.error("%s: %r cannot be started", self._name, python, exc_info=True)
            msg = f"the interpreter that its settings name cannot be started: {error.strerror}"
            raise UsageError(msg, remedy="set python to the interpreter of an environment") from error
        finally:
            os.close(writing)
        self._output = Output(reading, f"{self._name} ({self._process.pid})")

    def _greet(self, python: str) -> None:
        remedy = "install this Vitrify, and what the model needs, into that environment" if python else ""
        try:
            hello = self._receive(HELLO_SECONDS)
        except WorkerEnded as ended:
            self._output.end(_END_SECONDS)
            _LOG.error("%s said: %s", self._name, self._output.last())
            msg = f"the interpreter of its worker cannot run Vitrify: it {ended}; the log has what it said"
            raise UsageError(msg, remedy=remedy) from None
        if hello.kind != "hello" or hello.protocol != PROTOCOL:
            msg = f"its worker has Vitrify {hello.vitrify[:40]!r}, which does not understand this one"
            raise UsageError(msg, remedy=remedy)

    def _ask(self, ask: Ask, seconds: float) -> Answer:
        try:
            self._wire.send(ask)
        except OSError:
            raise WorkerEnded(self._how()) from None
        answer = self._receive(seconds)
        if answer.kind == "error":
            raise error_of(answer.fault)
        return answer

    def _receive(self, seconds: float) -> Answer:
        try:
            return self._wire.receive(seconds - min(_EARLIER, seconds / 10), self._alive)
        except TimeoutError:
            self._kill()
            msg = f"was ended because it took more than the {seconds:g} s it may"
        except (EOFError, OSError):
            msg = self._how()
        except VitrifyError as error:
            self._kill()
            _LOG.warning("%s: %s", self._name, error)
            msg = "was ended because it said what no worker says"
        raise WorkerEnded(msg)

    def _taken(self, answer: Answer) -> Arrays:
        try:
            return self._outputs.take(answer.slots)
        except VitrifyError as error:
            self._kill()
            _LOG.warning("%s: %s", self._name, error)
            raise WorkerEnded("was ended because it said what no worker says") from None

    def _alive(self) -> bool:
        return self._process.poll() is None

    def _how(self) -> str:
        """Return how it ended; it is gone, or will be at once."""
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
            return "was ended because it closed its socket"
        if code >= 0:
            return f"ended with exit code {code}"
        number = -code
        with contextlib.suppress(ValueError):
            name = signal.Signals(number).name
            short = ", perhaps for want of memory" if number == signal.SIGKILL else ""
            return f"ended by signal {number} ({name}{short})"
        return f"ended by signal {number}"

    def _kill(self) -> None:
        """End it and everything that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _let_go(self) -> None:
        self._wire.close()
        self._inputs.close()
        self._outputs.close()


def _environment(python: str) -> dict[str, str]:
    other = bool(python) and python != sys.executable
    return {name: value for name, value in os.environ.items() if not (other and name in _OURS)}
