"""The Python plane: REST over uvicorn, gRPC over grpc, lanes in threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.serve.lanes.threads import ThreadLane
from vitrify.serve.observe.metrics import Counted

if TYPE_CHECKING:
    from vitrify.serve.lanes import Lane, LaneSpec, Run, Watch
    from vitrify.serve.planes import House
    from vitrify.serve.planes.grpc_python import GrpcServer
    from vitrify.serve.planes.http_python import HttpServer


class PythonPlane:
    """Moves bytes in Python."""

    name = "python"

    def __init__(self) -> None:
        """Listen on nothing yet."""
        self._http: HttpServer | None = None
        self._grpc: GrpcServer | None = None

    def lane(self, spec: LaneSpec, run: Run, watch: Watch | None) -> Lane:
        """Open a lane in threads."""
        return ThreadLane(spec, run, watch)

    async def start(self, house: House) -> tuple[int, int]:
        """Listen."""
        settings = house.settings
        http = grpc = -1
        if settings.port >= 0:
            from vitrify.serve.planes.http_python import HttpServer

            self._http = HttpServer(settings, house.dispatcher, house.clients)
            http = await self._http.start()
        if settings.grpc_port >= 0:
            from vitrify.serve.planes.grpc_python import GrpcServer

            methods = house.methods.values()
            self._grpc = GrpcServer(
                settings, methods, house.clients, fault=house.fault, begun=house.begun, seen=house.seen
            )
            grpc = await self._grpc.start()
        return http, grpc

    def weigh(self, model: str, weights: tuple[tuple[str, float], ...]) -> None:
        """Do nothing: every request asks the rollout itself."""

    def reopen_log(self) -> None:
        """Do nothing: what is told of a call is written elsewhere."""

    def log_dropped(self) -> int:
        """Return none, likewise."""
        return 0

    def counted(self) -> Counted:
        """Return nothing, likewise."""
        return Counted()

    async def stop(self, seconds: float) -> bool:
        """End both."""
        import asyncio

        servers = [server.stop(seconds) for server in (self._http, self._grpc) if server is not None]
        return all(await asyncio.gather(*servers))
