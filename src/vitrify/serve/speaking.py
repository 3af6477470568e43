"""Everything that the server speaks, in one place: the routes of REST and the methods of gRPC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.serve.protocols import (
    health_grpc,
    mlflow,
    oip_grpc,
    oip_rest,
    openapi,
    reflection_grpc,
    tensorflow_grpc,
    tensorflow_rest,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from vitrify.serve.clients import Clients
    from vitrify.serve.models.engine import ServingEngine
    from vitrify.serve.rollout.recorded import RecordedEngine
    from vitrify.serve.rpc import Method
    from vitrify.serve.web import Route


def routes(engine: ServingEngine | RecordedEngine, clients: Clients, more: Collection[Route] = ()) -> tuple[Route, ...]:
    """Return every route, and the page that describes them all.

    Args:
        engine: Answers.
        clients: Know who may change what is served.
        more: Of the server itself: figures, pages, administration.
    """
    spoken = (
        *more,
        *oip_rest.routes(engine, clients.is_admin),
        *tensorflow_rest.routes(engine, engine.labels),
        *mlflow.routes(engine),
    )
    return (*spoken, *openapi.routes(engine, spoken))


def methods(engine: ServingEngine | RecordedEngine, clients: Clients) -> tuple[Method, ...]:
    """Return every method."""
    spoken = (
        *oip_grpc.methods(engine, is_admin=clients.is_admin, charge=clients.charge),
        *tensorflow_grpc.methods(engine, labels=engine.labels, is_admin=clients.is_admin),
    )
    services = sorted({method.path.split("/")[1] for method in spoken})
    return (
        *spoken,
        *health_grpc.methods(engine, services=services),
        *reflection_grpc.methods(services=services),
    )
