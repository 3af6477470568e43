"""Running a server: in this process, or in several that share its ports.

Each of several processes is whole and knows nothing of the others; the system spreads the connections over them. One
that ends unasked is started again. Told to end, all are told to end, and what they have accepted is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vitrify.core.errors import UnavailableError, VitrifyError
from vitrify.registry.api.listening import listen
from vitrify.serve.observe.observer import AT
from vitrify.serve.server import Listening, Server, check
from vitrify.serve.settings import Settings

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

_PAUSES = (0.1, 0.5, 2.0, 10.0)
"""Seconds before a process that has ended is started again; from the first when it has lived for a minute."""
_LIVED = 60.0
_POLL = 0.2
_MARGIN = 5.0
"""Seconds that a process has beyond the draining before it is killed."""
_CHILD = "from vitrify.serve.supervisor import child; child()"


def serve(settings: Settings, source: str | None, ready: Callable[[Listening], None]) -> bool:
    """Serve until this process is told to end; return whether everything that was accepted was answered.

    Args:
        settings: What, where, and in how many processes.
        source: The file of the settings, which is read again when it changes; None for none.
        ready: Called when everything is ready.

    Raises:
        VitrifyError: It cannot be done.
    """
    check(settings)
    if settings.server.processes == 1:
        return _run(settings, source, ready)
    with tempfile.TemporaryDirectory(prefix="vitrify-serve-") as folder:
        state = settings.server.state or str(Path(folder) / "state.json")
        with _reserved(settings, state) as reserved:
            return _Family(reserved, source).run(settings.server.processes, ready)


def _run(settings: Settings, source: str | None, ready: Callable[[Listening], None]) -> bool:
    from vitrify.registry.api.log import Log, LogHandler

    log = Log()
    handler = LogHandler(log)  # what libraries say is a line of ours, too
    logging.getLogger().addHandler(handler)
    try:
        with asyncio.Runner(loop_factory=_loop()) as runner:
            return runner.run(Server(settings, log, source).run(ready))
    finally:
        logging.getLogger().removeHandler(handler)
        log.close()


def _loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the fastest event loop there is."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def child() -> None:
    """Be one of several processes: the settings come over standard input, and where it listens goes out."""
    settings, source = msgspec.json.decode(sys.stdin.buffer.readline(), type=tuple[Settings, str | None])
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def tell(said: Listening | str) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
        sys.stdout.buffer.flush()

    try:
        orderly = _run(settings, source, tell)
    except VitrifyError as error:
        tell(str(error))
        sys.exit(error.exit_code)
    sys.exit(0 if orderly else 1)


def _end_with_parent() -> None:
    """Wait for the end of standard input, which the parent holds open as long as it lives."""
    while os.read(sys.stdin.fileno(), 4096):  # not through the buffer: Python cannot end while a thread waits in it
        pass
    os.kill(os.getpid(), signal.SIGTERM)


@contextlib.contextmanager
def _reserved(settings: Settings, state: str) -> Iterator[Settings]:
    """Hold the ports, so that "any free one" is the same for all, while the block runs; yields each one's settings."""
    server = settings.server
    held: list[socket.socket] = []
    try:
        ports = []
        for port in (server.port, server.grpc_port):
            if port >= 0:
                held.append(listen(server.host, port, shared=True))
            ports.append(held[-1].getsockname()[1] if port >= 0 else port)
        server = server.replace(port=ports[0], grpc_port=ports[1], processes=1, state=state)
        yield settings.replace(server=server)
    finally:
        for one in held:
            one.close()


class _Family:
    """The processes, and who looks after them."""

    def __init__(self, settings: Settings, source: str | None) -> None:
        self._told = msgspec.json.encode((settings, source)) + b"\n"
        self._seconds = settings.server.drain_seconds + _MARGIN
        self._ended = threading.Event()
        self._logs = bool(settings.server.access_log)

    def run(self, count: int, ready: Callable[[Listening], None]) -> bool:
        """Start so many, say where they listen, and keep them alive until this process is told to end."""
        handlers = {number: signal.signal(number, self._told_to_end) for number in (signal.SIGTERM, signal.SIGINT)}
        if self._logs:  # each process looks by itself whether the log's file was moved
            handlers[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: None)
        orderly: list[bool] = []
        keepers: list[threading.Thread] = []
        try:
            for at in range(count):
                process, listening = self._start(at)
                work = (at, process, orderly)
                keepers.append(threading.Thread(target=self._keep, args=work, name=f"vitrify-serve-{at}"))
                keepers[-1].start()
            ready(listening)
            self._ended.wait()
        finally:
            self._ended.set()
            for keeper in keepers:
                keeper.join()
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return all(orderly)

    def _told_to_end(self, *_: object) -> None:
        self._ended.set()

    def _start(self, at: int) -> tuple[subprocess.Popen[bytes], Listening]:
        """Start one, and wait until it is ready.

        Raises:
            UnavailableError: It ended instead.
        """
        command = [sys.executable, "-c", _CHILD]
        told = {**os.environ, AT: str(at)}
        process = subprocess.Popen(  # noqa: S603 (our own)
            command, env=told, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(self._told)
            process.stdin.flush()
        said = process.stdout.readline()
        reason = f"it ended with status {process.wait()}" if not said else ""
        found = msgspec.json.decode(said, type=Listening | str) if said else reason
        if isinstance(found, str):
            msg = f"a process of the server could not start: {found}"
            raise UnavailableError(msg)
        return process, found

    def _keep(self, at: int, process: subprocess.Popen[bytes], orderly: list[bool]) -> None:
        """See that one of them lives, until all are to end; then end it."""
        quick = 0
        while True:
            began = time.monotonic()
            while process.poll() is None and not self._ended.wait(_POLL):
                pass
            if self._ended.is_set():
                break
            quick = 0 if time.monotonic() - began > _LIVED else min(quick + 1, len(_PAUSES) - 1)
            if self._ended.wait(_PAUSES[quick]):
                break
            with contextlib.suppress(UnavailableError):  # tried again after a longer pause
                process, _ = self._start(at)
        orderly.append(self._end(process))

    def _end(self, process: subprocess.Popen[bytes]) -> bool:
        process.terminate()
        try:
            return process.wait(self._seconds) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return False
        finally:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
