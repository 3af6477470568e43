"""What is said about the server itself: whether it lives, its figures, its description, a page for people."""

from __future__ import annotations

from html import escape
from importlib import metadata
from typing import TYPE_CHECKING

from sqlalchemy import select

from vitrify.registry.api import openapi
from vitrify.registry.api.metrics import CONTENT_TYPE
from vitrify.registry.api.operations import JSON
from vitrify.registry.api.routing import Answer, Call, Route
from vitrify.registry.database.schema import head
from vitrify.registry.requests import OPERATIONS

if TYPE_CHECKING:
    from vitrify.registry.api.metrics import Metrics

_HTML = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
}
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "td{padding:.1rem 1rem .1rem 0;vertical-align:top}code{font-size:.9em}"
)


def page_routes(metrics: Metrics) -> tuple[Route, ...]:
    """Return the routes; only the two of health are open."""

    def figures(call: Call) -> Answer:
        del call
        return Answer(200, metrics.text().encode(), {"content-type": CONTENT_TYPE, "cache-control": "no-store"})

    return (
        Route("GET", "/health/live", None, live, "Live"),
        Route("GET", "/health/ready", None, ready, "Ready"),
        Route("GET", "/metrics", "reader", figures, "Metrics"),
        Route("GET", "/openapi.json", "reader", described, "OpenAPI"),
        Route("GET", "/", "reader", page, "Page"),
    )


def live(call: Call) -> Answer:
    """Say that the process answers."""
    del call
    return _health("live")


def ready(call: Call) -> Answer:
    """Say that the database answers; 503 otherwise."""
    with call.backend.database.read() as connection:
        connection.execute(select(head.c.seq)).first()
    return _health("ready")


def described(call: Call) -> Answer:
    """Return the OpenAPI description."""
    del call
    return Answer(200, openapi.description(), {"content-type": JSON})


def page(call: Call) -> Answer:
    """Return a page that lists the operations."""
    rows = "".join(
        f"<tr><td><code>{operation.method}</code><td><code>{escape(operation.path)}</code>"
        f"<td>{operation.role}<td>{escape((request.__doc__ or '').strip().splitlines()[0])}"
        for request, operation in OPERATIONS.items()
    )
    who = call.backend.actor
    text = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Vitrify registry</title><style>{_STYLE}</style>"
        f"<h1>Vitrify registry</h1><p>Version {escape(metadata.version('vitrify'))}. You are {escape(who.who)}: "
        f"{', '.join(who.roles)}. The description for programs is <a href=openapi.json>openapi.json</a>; figures are "
        f"at <a href=metrics>metrics</a>.<table><tr><th>Method<th>Path<th>Role<th>What it does{rows}</table></html>"
    )
    return Answer(200, text.encode(), dict(_HTML))


def _health(status: str) -> Answer:
    return Answer(200, b'{"status":"%s"}' % status.encode(), {"content-type": JSON, "cache-control": "no-store"})
