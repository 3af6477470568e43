"""The worker's side: ``python -m vitrify.serve.workers.child``, started by the server, never by hand.

It opens the artifact itself: every byte is verified, and the policy and the allow-list are asked again, in this
process. Then it answers one message after the other until the server closes the socket or is gone.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import traceback
from typing import TYPE_CHECKING

from vitrify.serve.workers._shelf import Shelf
from vitrify.serve.workers._wire import PROTOCOL, Answer, Ask, Task, Wire, fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vitrify.core.protocols import Arrays, Session
    from vitrify.serve.lanes import Run

_SIGKILL = 9
_PR_SET_PDEATHSIG = 1


class Worker:
    """One open model behind a wire.

    Args:
        wire: To the server.
        inputs: What the server writes.
        outputs: What it reads.
    """

    def __init__(self, wire: Wire[Ask], inputs: Shelf, outputs: Shelf) -> None:
        self._wire, self._inputs, self._outputs = wire, inputs, outputs
        self._session: Session | None = None
        self._run: Run
        self._reset: Callable[[], None]
        self._parts: Callable[[Arrays], Iterator[Arrays]]
        self._stream: Iterator[Arrays] | None = None

    def work(self) -> None:
        """Answer until nobody asks any more."""
        from importlib.metadata import version

        self._wire.send(Answer("hello", protocol=PROTOCOL, vitrify=version("vitrify")))
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._wire.send(self._answer(self._wire.receive()))
        self._end_stream()
        if self._session is not None:
            self._session.close()

    def _answer(self, ask: Ask) -> Answer:  # noqa: PLR0911 (one return a kind)
        """Do what is asked. Whatever the model raises, the server hears of it and this process goes on."""
        try:
            match ask.kind:
                case "run":
                    return Answer("done", self._outputs.put(self._run(self._inputs.take(ask.slots))))
                case "open":
                    return self._open(ask.task)
                case "reset":
                    self._reset()
                    return Answer("done")
                case "stream":
                    self._end_stream()
                    arrays = self._inputs.take(ask.slots)
                    self._stream = self._parts(arrays)
                    return self._part()
                case "next":
                    return self._part()
                case "stop":
                    self._end_stream()
                    return Answer("end")
        except BaseException as error:  # noqa: BLE001 (a model that calls sys.exit must not end the worker)
            self._stream = None
            if type(error).__module__ != "vitrify.core.errors" or error.__cause__ is not None:
                traceback.print_exc()
            return Answer("error", fault=fault(error))

    def _part(self) -> Answer:
        part = next(self._stream, None) if self._stream is not None else None
        if part is None:
            self._stream = None
            return Answer("end")
        return Answer("part", self._outputs.put(part))

    def _end_stream(self) -> None:
        stream, self._stream = self._stream, None
        close = getattr(stream, "close", None)
        if close is not None:
            close()

    def _open(self, task: Task | None) -> Answer:
        from pathlib import Path

        from vitrify.artifacts.artifact import Artifact
        from vitrify.core.digest import Digest
        from vitrify.core.protocols import Streams
        from vitrify.runtimes.session import BaseSession
        from vitrify.serve.models.opening import open_session, remembers
        from vitrify.serve.settings import ModelSettings
        from vitrify.stores.oci_layout import OciLayout

        assert task is not None
        store = OciLayout(Path(task.store))
        with store.kept():
            artifact = Artifact.of(store, Digest.parse(task.digest), task.known_as)
            artifact.files.verify()
        settings = ModelSettings(
            reference=task.reference, runtime=task.runtime, allow=task.allow, threads=task.threads, process=False
        )
        self._session = session = open_session(artifact, settings)
        self._run = session.run_conformed if isinstance(session, BaseSession) else session.run
        stateful = remembers(session)
        if stateful:
            self._reset = session.reset  # type: ignore[attr-defined]
        if isinstance(session, Streams):
            self._parts = session.stream
        return Answer("ready", stateful=stateful, streams=isinstance(session, Streams))


def main(arguments: list[str]) -> None:
    """Work until the server has gone.

    Args:
        arguments: The descriptors of the socket and of the two shelves, and the server's process number.
    """
    *descriptors, server = map(int, arguments)
    _end_with(server)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 (the system's own form)
    connection, inputs, outputs = descriptors
    wire = Wire(socket.socket(fileno=connection), Ask)
    Worker(wire, Shelf(inputs), Shelf(outputs)).work()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads that a library left running are not waited for


def _end_with(server: int) -> None:
    """Have the system end this process when the server ends, even while a model hangs in it."""
    if sys.platform != "linux":
        return  # the socket's end is seen as soon as the model returns
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    if os.getppid() != server:  # it ended before that was said
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
