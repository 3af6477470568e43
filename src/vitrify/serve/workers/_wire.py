"""The wire between the server and a worker: small messages over a socket; the arrays lie on shelves.

A message is four bytes with its length, most significant first, and MessagePack. Neither side trusts the other's
lengths and types. A worker never speaks first, but for its greeting.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import msgspec

from vitrify.core import errors
from vitrify.core.errors import MalformedError, ModelError, UntrustedCodeError, VitrifyError
from vitrify.serve.workers._shelf import Slot  # noqa: TC001 (msgspec reads the annotations)

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

PROTOCOL = 1
"""Goes up when a worker of an older Vitrify would not understand this one."""
_HEAD = 4
_MOST = 16 * 1024 * 1024
"""Bytes of a message; its arrays are not in it."""
_SLICE = 1.0
"""Seconds after which one who waits looks whether the other is still there."""
_SHOWN = 2000
"""Characters of an error's text that travel."""


class Task(msgspec.Struct, frozen=True):
    """What a worker is to open.

    Attributes:
        store: Folder of the store.
        digest: The artifact's.
        known_as: The name that policies ask about; None for none.
        reference: What the settings call it.
        runtime: Catalog name; None for the artifact's own.
        allow: Exact dotted names of code that may run.
        threads: Inside one run.
    """

    store: str
    digest: str
    known_as: str | None
    reference: str
    runtime: str | None
    allow: tuple[str, ...]
    threads: int


class Ask(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the server wants. ``next`` and ``stop`` are only asked between a ``stream`` and its end."""

    kind: Literal["open", "run", "reset", "stream", "next", "stop"]
    slots: list[Slot] = []
    task: Task | None = None


class Fault(msgspec.Struct, frozen=True):
    """An error on its way: the name of its class, and what it says."""

    kind: str
    message: str
    remedy: str = ""
    names: tuple[str, ...] = ()


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a worker says.

    Attributes:
        kind: ``hello`` when it is there, ``ready`` when the model is open, ``done`` with outputs or without, ``part``
            with those of one part of a stream, ``end`` after the last, ``error``.
        slots: The outputs.
        fault: What went wrong.
        protocol: Its version of this wire.
        vitrify: Its version.
        stateful: Whether the model remembers.
        streams: Whether it gives parts.
    """

    kind: Literal["hello", "ready", "done", "part", "end", "error"]
    slots: list[Slot] = []
    fault: Fault | None = None
    protocol: int = 0
    vitrify: str = ""
    stateful: bool = False
    streams: bool = False


_Message = TypeVar("_Message", Ask, Answer)


class Wire(Generic[_Message]):
    """One end of the socket, which reads messages of one kind."""

    def __init__(self, socket: socket.socket, reads: type[_Message]) -> None:
        """Take over a connected stream socket."""
        self.socket = socket
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[_Message] = msgspec.msgpack.Decoder(reads)
        self._waits: float | None = socket.gettimeout()

    def send(self, message: Ask | Answer) -> None:
        """Send one message.

        Raises:
            OSError: The other end is gone.
        """
        body = self._encoder.encode(message)
        self.socket.sendall(len(body).to_bytes(_HEAD, "big") + body)

    def receive(self, seconds: float | None = None, alive: Callable[[], bool] | None = None) -> _Message:
        """Wait for one message.

        Args:
            seconds: At most so long; None for ever.
            alive: Asked now and then whether anybody is left who could send one.

        Raises:
            TimeoutError: None came.
            EOFError: The other end is gone.
            OSError: Likewise.
            MalformedError: It is none.
        """
        until = None if seconds is None else time.monotonic() + seconds
        data = self._some(until, alive)
        while len(data) < _HEAD:
            data += self._some(until, alive)
        size = int.from_bytes(data[:_HEAD], "big")
        if size > _MOST:
            msg = f"a message of {size} bytes; at most {_MOST} are sent"
            raise MalformedError(msg)
        whole = bytearray(data)
        while len(whole) < _HEAD + size:
            whole += self._some(until, alive)
        if len(whole) > _HEAD + size:
            msg = "more than one message at a time"
            raise MalformedError(msg)
        try:
            return self._decoder.decode(memoryview(whole)[_HEAD:])
        except msgspec.DecodeError as error:
            msg = f"no message: {error}"
            raise MalformedError(msg) from error

    def close(self) -> None:
        """Let the other end know that nothing more comes."""
        self.socket.close()

    def _some(self, until: float | None, alive: Callable[[], bool] | None) -> bytes:
        while True:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            self._wait_for(None if left is None else min(left, _SLICE))
            try:
                data = self.socket.recv(1 << 16)
            except TimeoutError:
                if alive is not None and not alive():
                    raise EOFError from None
                continue
            if not data:
                raise EOFError
            return data

    def _wait_for(self, seconds: float | None) -> None:
        """Set how long a call may wait; that is a system call, so only where it is not set already."""
        if seconds != self._waits:
            self.socket.settimeout(seconds)
            self._waits = seconds


def fault(error: BaseException) -> Fault:
    """Return what travels of an error: of one that is not ours, that the model raised it."""
    if isinstance(error, VitrifyError):
        names = error.names if isinstance(error, UntrustedCodeError) else ()
        return Fault(type(error).__name__, error.message[:_SHOWN], error.remedy[:_SHOWN], names)
    return Fault("ModelError", f"the model raised {type(error).__name__}: {error}"[:_SHOWN])


_KINDS: dict[str, type[VitrifyError]] = {
    kind.__name__: kind
    for kind in (
        *(errors.UsageError, errors.ReferenceNotFoundError, errors.MissingDependencyError, errors.StoreError),
        *(errors.CorruptError, errors.MalformedError, errors.LimitExceededError, errors.UnsupportedModelError),
        *(errors.SignatureError, errors.ModelError, errors.DeniedError, errors.ForgedError, errors.UnavailableError),
    )
}


def error_of(fault: Fault | None) -> VitrifyError:
    """Return the error that travelled."""
    if fault is None:
        return ModelError("the worker says that something went wrong, and not what")
    if fault.kind == "UntrustedCodeError":
        return UntrustedCodeError(fault.message, names=fault.names, remedy=fault.remedy)
    return _KINDS.get(fault.kind, ModelError)(fault.message, remedy=fault.remedy)
