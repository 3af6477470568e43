"""The native plane: what is hot never enters Python one request at a time.

Sockets, framing, decoding, queues and answers of the hot requests are the library's; Python runs the models and answers
everything else by the same endpoints as the Python plane.

A lane is native where its model takes and gives plain tensors (``LaneSpec.hot``); others are in threads. Requests that
name no version go by :meth:`NativePlane.weigh`, or to the version whose lane was opened last.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from ctypes import byref, c_int32
from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.errors import MalformedError, UsageError
from vitrify.serve.lanes.threads import ThreadLane
from vitrify.serve.observe.metrics import Counted
from vitrify.serve.observe.traces import Ended
from vitrify.serve.planes._library import ANSWER, FAULT, last_error, lend, library, missing, taken, tls_missing
from vitrify.serve.planes.native_calls import Calls
from vitrify.serve.planes.native_lane import Deliveries, NativeLane, fits, new_happened

if TYPE_CHECKING:
    from vitrify.serve.lanes import Lane, LaneSpec, Run, Watch
    from vitrify.serve.observe.traces import Traces
    from vitrify.serve.planes import House
    from vitrify.serve.settings import ClientSettings, ServerSettings

__all__ = ["NativeHouse", "NativePlane", "missing", "tls_missing"]

_HEAD_BYTES, _HEADERS, _STREAMS = 64 * 1024, 128, 256
_SEND_SECONDS, _SEND_BYTES = 60.0, 64 * 1024 * 1024
_CALLS = 4096
"""Calls that Python answers at a time."""
_STDERR = 2
_HOT = "/v2/models/any/infer"
_LAST = 5.0
"""Seconds for the traces of the last requests."""


class NativeHouse:
    """The library's side of a plane, let go of when nobody uses it."""

    def __init__(self) -> None:
        """Build it."""
        self.address: int = library().house_new()
        weakref.finalize(self, library().house_free, self.address).atexit = False

    def set(self, what: str, table: Any) -> None:
        """Give it a table.

        Raises:
            MalformedError: It cannot be that table.
        """
        name, text = what.encode(), msgspec.json.encode(table)
        if library().house_set(self.address, lend(name), lend(text)) < 0:
            raise last_error()


class NativePlane:
    """Moves bytes in the library."""

    name = "native"

    def __init__(self) -> None:
        """Listen on nothing yet.

        Raises:
            MissingDependencyError: There is no library.
        """
        self._house = NativeHouse()
        self._deliveries = Deliveries()
        self._calls: list[Calls] = []
        self._weights: dict[str, tuple[tuple[str, float], ...]] = {}
        self._log_at = ""
        self._tracing: threading.Thread | None = None
        self._lock = threading.Lock()
        work = (self._house, self._deliveries, self._calls)
        self._thread = threading.Thread(target=_listen, args=work, name="native-plane", daemon=True)
        self._thread.start()
        self._end = weakref.finalize(self, _end, self._house)

    def lane(self, spec: LaneSpec, run: Run, watch: Watch | None) -> Lane:
        """Open a lane: a native one where the model is one for it."""
        if fits(spec):
            return NativeLane(self._house, self._deliveries, spec, run, watch)
        return ThreadLane(spec, run, watch)

    async def start(self, house: House) -> tuple[int, int]:
        """Listen, and return the ports of REST and gRPC; -1 for what is not served.

        Raises:
            UsageError: It cannot listen there, the certificate cannot be used, or the access log cannot be written.
        """
        settings = house.settings
        self._calls[:] = [Calls(self._house, house, asyncio.get_running_loop())]
        self._house.set("limits", {"body": settings.body, "calls": _CALLS, "call_bytes": 4 * settings.body})
        routes = [f"{route.method} {route.pattern}" for route in house.dispatcher.router.routes if route.open]
        methods = list(house.methods.values())
        hot = house.dispatcher.router.match("POST", _HOT)
        self._house.set(
            "surface",
            {
                "open": routes + [f"POST {method.path}" for method in methods if method.open],
                "streams": [method.path for method in methods if method.streaming is not None],
                "methods": [method.path for method in methods],
                "hot": "none" if isinstance(hot, frozenset) else hot[0].label,
            },
        )
        if (traces := house.traces) is not None:
            self._house.set("traces", traces.sampling())
            work = (self._house, traces)
            self._tracing = threading.Thread(target=_trace, args=work, name="native-traces", daemon=True)
            self._tracing.start()
        house.clients.watch(self.take_clients)
        self._log_at = settings.access_log
        self.reopen_log()
        return self._listen(settings)

    def _listen(self, settings: ServerSettings) -> tuple[int, int]:
        host, limits = settings.host.encode(), msgspec.json.encode(_limits(settings))
        ports = (c_int32 * 2)(settings.port, settings.grpc_port)
        if library().house_start(self._house.address, lend(host), byref(ports), lend(limits)) < 0:
            error = last_error()
            if isinstance(error, MalformedError):
                msg = f"the certificate, its key or the clients' authority cannot be used: {error.message}"
                raise UsageError(msg, remedy=f"check {settings.certificate} and {settings.key}") from error
            msg = f"cannot listen on {settings.host}, ports {settings.port} and {settings.grpc_port}: {error.message}"
            raise UsageError(msg, remedy="choose another host or other ports") from error
        return ports[0], ports[1]

    def take_clients(self, clients: tuple[ClientSettings, ...]) -> None:
        """Take another table of clients; what is counted of those that stay goes on."""
        table = [
            {
                "name": one.name,
                "token_sha256": one.token_sha256,
                "rate": one.rate,
                "burst": one.burst,
                "concurrent": one.concurrent,
            }
            for one in clients
        ]
        self._house.set("clients", table)

    def weigh(self, model: str, weights: tuple[tuple[str, float], ...]) -> None:
        """Take the shares of a model's versions, for requests that name no version; none takes them back."""
        with self._lock:
            self._weights[model] = weights
            self._house.set("routes", self._weights)

    def figures(self) -> dict[str, Any]:
        """Return ``calls``, those that Python is answering, what was dropped, and what :meth:`counted` returns."""
        figures: dict[str, Any] = msgspec.json.decode(taken(library().house_figures(self._house.address)))
        return figures

    def reopen_log(self) -> None:
        """Open the access log's file anew."""
        if self._log_at:
            library().house_log(self._house.address, _log(self._log_at))

    def log_dropped(self) -> int:
        """Return how many lines of the access log were not written."""
        return int(self.figures()["log_dropped"])

    def counted(self) -> Counted:
        """Return what the library has answered without Python."""
        return msgspec.json.decode(taken(library().house_figures(self._house.address)), type=Counted)

    async def stop(self, seconds: float) -> bool:
        """Take no connection more; return whether all that was accepted was answered within so many seconds."""
        loop = asyncio.get_running_loop()
        for calls in self._calls:
            calls.drain()
        drained = await loop.run_in_executor(None, library().house_drain, self._house.address, float(seconds))
        library().house_close(self._house.address)
        for calls in self._calls:
            await calls.stop()
        self._calls.clear()
        if self._tracing is not None:
            await loop.run_in_executor(None, self._tracing.join, _LAST)
        return bool(drained == 1)

    def close(self) -> None:
        """End everything; lanes must have been closed before."""
        self._end()
        if self._thread is not threading.current_thread():
            self._thread.join()


def _end(house: NativeHouse) -> None:
    library().house_stop(house.address)


def _listen(house: NativeHouse, deliveries: Deliveries, calls: list[Calls]) -> None:
    """Hand on what happens, until all is over."""
    happened, _kept = new_happened()
    lib = library()
    while lib.next(house.address, byref(happened)) == 1:
        try:
            if happened.what in {ANSWER, FAULT}:
                deliveries.deliver(happened)
            else:
                for one in calls:
                    one.happen(happened)
                if not calls:  # nothing listens any more, so nobody is there to answer
                    lib.forget(house.address, happened.number)
        finally:
            lib.happened_free(happened.handle)


def _trace(house: NativeHouse, traces: Traces) -> None:
    """Tell of the traced requests that have ended, until all is over."""
    while text := library().records(house.address):
        for one in msgspec.json.decode(taken(text), type=list[Ended]):
            traces.ended(one)


def _limits(settings: ServerSettings) -> dict[str, float | str]:
    return {
        "connections": settings.connections,
        "head_bytes": _HEAD_BYTES,
        "headers": _HEADERS,
        "head_seconds": settings.head_seconds,
        "body_seconds": settings.body_seconds,
        "idle_seconds": settings.idle_seconds,
        "send_seconds": _SEND_SECONDS,
        "send_bytes": _SEND_BYTES,
        "streams": _STREAMS,
        "certificate": settings.certificate,
        "key": settings.key,
        "authority": settings.client_authority,
    }


def _log(where: str) -> int:
    if where == "stderr":
        return os.dup(_STDERR)
    try:
        return os.open(where, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        msg = f"the access log {where} cannot be written: {error.strerror}"
        raise UsageError(msg, remedy="choose another file for access_log") from error
