"""Planes: what moves the bytes between the sockets and the protocols.

The Python plane (:mod:`.http_python` over uvicorn, :mod:`.grpc_python` over grpc) is the fallback and the reference;
the native one is the extension, which answers the hot requests itself and hands everything else to the same endpoints.
One suite of tests runs both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from vitrify.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vitrify.serve.clients import Clients
    from vitrify.serve.lanes import Lane, LaneSpec, Run, Watch
    from vitrify.serve.observe.metrics import Counted
    from vitrify.serve.observe.traces import Traces
    from vitrify.serve.planes.dispatch import Dispatcher
    from vitrify.serve.rpc import Method, RpcCall
    from vitrify.serve.settings import ServerSettings


@dataclass(frozen=True)
class House:
    """What stands behind a plane.

    Attributes:
        settings: Where to listen, and what bounds it.
        dispatcher: Answers calls over HTTP.
        methods: Answer calls over gRPC, by path.
        clients: Lets in.
        fault: Told what went wrong on our side: the request's id and the error.
        begun: Told of each call over gRPC, in the task that answers it, before anything else.
        seen: Told of each call over gRPC that has ended, in the same task: the call, the request's id, the gRPC status,
            the seconds that it took, and the bytes that were answered. The dispatcher tells of those over HTTP.
        traces: Told of the traced requests that a plane answers itself, when they have ended; None without traces.
    """

    settings: ServerSettings
    dispatcher: Dispatcher
    methods: Mapping[str, Method]
    clients: Clients
    fault: Callable[[str, BaseException], None]
    begun: Callable[[RpcCall], None] = lambda _call: None
    seen: Callable[[RpcCall, str, int, float, int], None] = lambda _call, _id, _status, _seconds, _bytes: None
    traces: Traces | None = None


class Plane(Protocol):
    """Moves bytes."""

    name: str

    def lane(self, spec: LaneSpec, run: Run, watch: Watch | None) -> Lane:
        """Open a lane; it is a MakeLane."""

    async def start(self, house: House) -> tuple[int, int]:
        """Listen, and return the ports of REST and gRPC; -1 for what is not served.

        Raises:
            UsageError: It cannot listen there.
            MissingDependencyError: A library is not installed.
        """

    def weigh(self, model: str, weights: tuple[tuple[str, float], ...]) -> None:
        """Take the shares of a model's versions, for requests that name no version."""

    def reopen_log(self) -> None:
        """Open the access log's file anew, where the plane itself writes into it."""

    def log_dropped(self) -> int:
        """Return how many lines of the access log the plane itself has not written."""

    def counted(self) -> Counted:
        """Return what the plane itself has answered, of which nobody else is told."""

    async def stop(self, seconds: float) -> bool:
        """Take no connection more; return whether all that was accepted was answered within so many seconds."""


def choose_plane(settings: ServerSettings) -> Plane:
    """Return the plane that the settings ask for.

    Raises:
        UsageError: It is not there, or cannot do what else they ask.
    """
    from vitrify.serve.planes.python import PythonPlane

    if settings.plane == "python":
        return PythonPlane()
    from vitrify.serve.planes.native import NativePlane, missing, tls_missing

    reason = missing()
    if reason:
        reason = f"there is no native plane: {reason}"
    elif settings.certificate and (unfit := tls_missing()):
        reason = f"the native plane has no TLS here: {unfit}"
    if not reason:
        return NativePlane()
    if settings.plane == "native":
        raise UsageError(reason, remedy="take --plane auto, or python")
    return PythonPlane()
