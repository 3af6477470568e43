"""gRPC's health protocol: ``grpc.health.v1.Health``, for load balancers and Kubernetes' gRPC probes. It needs no token.

The server as a whole (the empty name) and each of its services are as healthy as the engine is ready.

Source: https://github.com/grpc/grpc/blob/master/doc/health-checking.md.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import ReferenceNotFoundError
from vitrify.serve.protocols._messages import bind, messages

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Collection

    from vitrify.serve.models import Engine
    from vitrify.serve.rpc import Method, RpcCall

SERVICE = "grpc.health.v1.Health"
LOOK_SECONDS = 0.25
"""How often a watch looks whether something has changed."""


def methods(engine: Engine, *, services: Collection[str]) -> tuple[Method, ...]:
    """Return the methods of the service.

    Args:
        engine: Knows whether it is ready.
        services: Full names of the services that are offered beside this one.
    """
    said = messages("health")
    status = said.HealthCheckResponse.ServingStatus
    known = {"", SERVICE, *services}

    def now() -> int:
        return int(status.Value("SERVING" if engine.ready else "NOT_SERVING"))

    async def check(request: Any, _call: RpcCall) -> Any:
        if request.service not in known:
            msg = f"there is no service {request.service[:200]!r} here (there are: {', '.join(sorted(services))})"
            raise ReferenceNotFoundError(msg)
        return said.HealthCheckResponse(status=now())

    async def watch(requests: AsyncIterator[Any], _call: RpcCall) -> AsyncGenerator[Any, None]:
        request = await anext(requests, None)
        if request is None or request.service not in known:
            yield said.HealthCheckResponse(status=status.Value("SERVICE_UNKNOWN"))
            return
        last = None
        while True:
            current = now()
            if current != last:
                yield said.HealthCheckResponse(status=current)
                if last is not None and current == status.Value("NOT_SERVING"):
                    return  # it drains, and does not wait for those that only watch
                last = current
            await asyncio.sleep(LOOK_SECONDS)

    return bind(SERVICE, {"Check": check, "Watch": watch}, without_token={"Check", "Watch"})
