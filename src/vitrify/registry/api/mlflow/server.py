"""What MLflow's clients ask of a server itself: whether it is there, and what it offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from vitrify.registry.api.mlflow._shown import FOLLOWS
from vitrify.registry.api.mlflow._wire import failed
from vitrify.registry.api.routing import Answer, Route

if TYPE_CHECKING:
    from vitrify.registry.api.routing import Call, Method

_TEXT = {"content-type": "text/plain; charset=utf-8"}
_INFO = {
    "store_type": "SqlStore",
    "workspaces_enabled": False,
    "trace_archival_enabled": False,
    "multipart_uploads_enabled": False,
    "multipart_downloads_enabled": False,
}


def health(call: Call) -> Answer:  # noqa: ARG001 (every endpoint takes a call)
    """Say that somebody answers; nothing else, because nobody was asked who he is."""
    return Answer(200, b"OK", dict(_TEXT))


def version(call: Call) -> Answer:  # noqa: ARG001 (every endpoint takes a call)
    """Return the version of the MLflow whose API this is."""
    return Answer(200, FOLLOWS.encode(), dict(_TEXT))


def info(call: Call) -> Answer:  # noqa: ARG001 (every endpoint takes a call)
    """Return what is offered, so that clients do not try what is not."""
    return Answer(200, msgspec.json.encode(_INFO), {"content-type": "application/json"})


def nowhere(call: Call) -> Answer:
    """Say, so that MLflow's clients can tell, that this part of MLflow's API is not here."""
    said = {
        "error_code": "ENDPOINT_NOT_FOUND",
        "message": f"this registry has no {call.path['path'][:200]!r} of MLflow's",
    }
    return Answer(404, msgspec.json.encode(said), {"content-type": "application/json"})


_METHODS: tuple[Method, ...] = ("GET", "POST", "PATCH", "PUT", "DELETE")
_ROOTS = ("/api/2.0/mlflow", "/api/3.0/mlflow", "/api/2.0/mlflow-artifacts")
ROUTES = (
    Route("GET", "/health", None, health, name="mlflow.health"),
    Route("GET", "/version", "reader", version, name="mlflow.version", failed=failed),
    Route("GET", "/api/3.0/mlflow/server-info", "reader", info, name="mlflow.server-info", failed=failed),
    *(
        Route(method, f"{root}/{{path*}}", "reader", nowhere, name="mlflow.nowhere", failed=failed)
        for root in _ROOTS
        for method in _METHODS
    ),
)
