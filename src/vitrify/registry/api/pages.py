"""What is said about the server itself: whether it lives, its figures, its description, a page for people."""

from __future__ import annotations

from functools import cache
from importlib import metadata
from importlib.resources import files
from typing import TYPE_CHECKING

from sqlalchemy import select

from vitrify.core.html import escape, html_table, page_headers, styled
from vitrify.registry.api import openapi
from vitrify.registry.api.metrics import CONTENT_TYPE
from vitrify.registry.api.operations import JSON
from vitrify.registry.api.routing import Answer, Call, Route
from vitrify.registry.database.schema import head
from vitrify.registry.requests import OPERATIONS

if TYPE_CHECKING:
    from vitrify.registry.api.metrics import Metrics

_STYLE = "/* page.css */ td { vertical-align: top; } a { color: var(--first); }"


def page_routes(metrics: Metrics) -> tuple[Route, ...]:
    """Return the routes; open are the two of health, and the page, which tells nothing by itself."""

    def figures(call: Call) -> Answer:
        del call
        return Answer(200, metrics.text().encode(), {"content-type": CONTENT_TYPE, "cache-control": "no-store"})

    return (
        Route("GET", "/health/live", None, live, "Live"),
        Route("GET", "/health/ready", None, ready, "Ready"),
        Route("GET", "/metrics", "reader", figures, "Metrics"),
        Route("GET", "/openapi.json", "reader", described, "OpenAPI"),
        Route("GET", "/docs", "reader", operations, "Operations"),
        Route("GET", "/", None, browse, "Page"),
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


def browse(call: Call) -> Answer:
    """Return the page for people; what it shows, it asks for with its reader's token."""
    del call
    page, headers = _page()
    return Answer(200, page, dict(headers))


@cache
def _page() -> tuple[bytes, dict[str, str]]:
    own = files("vitrify.registry.api")
    page = own.joinpath("browse.html").read_text("utf-8")
    for script in ("facts.js", "browse.js"):
        page = page.replace(f"/* {script} */", own.joinpath(script).read_text("utf-8"), 1)
    whole = styled(page)
    return whole.encode(), page_headers(whole)


def operations(call: Call) -> Answer:
    """Return a page that lists the operations."""
    listed = [
        (operation.method, operation.path, operation.role, (request.__doc__ or "").strip().splitlines()[0])
        for request, operation in OPERATIONS.items()
    ]
    who = call.backend.actor
    style = styled(f"<style>{_STYLE}</style>")
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Vitrify registry</title>'
        f"{style}</head><body><h1>Vitrify registry</h1>"
        f"<p>Version {escape(metadata.version('vitrify'))}. You are "
        f"{escape(who.who)}: {', '.join(who.roles)}. The description for programs is "
        '<a href="openapi.json">openapi.json</a>; figures are at <a href="metrics">metrics</a>.</p>'
        f'<div class="scroll">{html_table(("method", "path", "role", "what it does"), listed)}</div></body></html>'
    )
    return Answer(200, page.encode(), page_headers(style))


def _health(status: str) -> Answer:
    return Answer(200, b'{"status":"%s"}' % status.encode(), {"content-type": JSON, "cache-control": "no-store"})
