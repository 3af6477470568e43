"""Routes: which function answers which call, and which role it takes.

A table of routes is data: the operations of :mod:`vitrify.registry.requests`, the content, MLflow's wire API are all
rows of the same kind, so that one test walks them and finds none that is open.

>>> Route("GET", "/v1/models/{model}", "reader", endpoint)             # doctest: +SKIP
>>> Route("GET", "/artifacts/{path*}", "reader", endpoint)             # the rest of the path  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from vitrify.core.errors import VitrifyError
    from vitrify.registry.local import LocalBackend
    from vitrify.registry.values import Role

Method = Literal["GET", "HEAD", "POST", "PATCH", "PUT", "DELETE"]


@dataclass
class Call:
    """What an endpoint is asked. It runs in a thread, and may block.

    Attributes:
        backend: The registry, acting for whoever asks (``call.backend.actor``).
        path: The pattern's fields, decoded. One segment may hold ``/``, written ``%2F``; none is ``.`` or ``..`` or
            empty or has control characters. The rest of a path (``{path*}``) is its segments joined by ``/``, of which
            none holds one.
        query: Every value of every field, decoded, in order.
        headers: By lower-case name; of one that came twice, the values joined by a comma.
        body: All of it, at most the route's ``most`` bytes; empty where the route streams.
        stream: The body in pieces of about a MiB, for a route that streams; it may be left unread.
        id: Of the request, as the log has it.
    """

    backend: LocalBackend
    path: dict[str, str]
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes = b""
    stream: Iterator[bytes] = field(default_factory=lambda: iter(()))
    id: str = ""


@dataclass
class Answer:
    """What an endpoint says.

    Attributes:
        status: An HTTP status.
        body: Bytes, or an iterator of pieces, which is read in a thread and closed at its end.
        headers: By lower-case name. ``content-length`` is set from a body of bytes.
        length: How many bytes the iterator will yield; without it they are sent chunked.
    """

    status: int = 200
    body: bytes | Iterator[bytes | memoryview] = b""
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None


Endpoint = Callable[[Call], Answer]

MOST_BODY = 16 * 1024 * 1024
"""Bytes of a body that is taken into memory."""


@dataclass(frozen=True)
class Route:
    """One row.

    Attributes:
        method: ``GET`` also answers HEAD, where no route does.
        pattern: Segments; ``{name}`` takes any one, ``{name*}`` at the end takes one or more.
        role: What the token must grant. None is open to everybody: for what tells nothing.
        endpoint: Returns the answer, or raises what :mod:`vitrify.registry.api.errors` has a status for.
        name: What logs and figures call it; by default the endpoint's.
        streams: Whether the body is read from ``call.stream`` and not taken into memory.
        most: Bytes of a body that is taken into memory.
        failed: How this route says an error, given the status: ``(error, status) -> Answer``; by default as all do.
    """

    method: Method
    pattern: str
    role: Role | None
    endpoint: Endpoint
    name: str = ""
    streams: bool = False
    most: int = MOST_BODY
    failed: Callable[[VitrifyError, int], Answer] | None = None

    @property
    def label(self) -> str:
        """What logs and figures call it."""
        return self.name or getattr(self.endpoint, "__name__", self.pattern)


@dataclass(frozen=True)
class Match:
    """A route, and what stands in its fields."""

    route: Route
    path: dict[str, str]


@dataclass
class _Node:
    """What may follow one segment: known words first, then a field, then a field that takes all the rest."""

    words: dict[str, _Node] = field(default_factory=dict)
    any: _Node | None = None
    ends: dict[str, Route] = field(default_factory=dict)
    rest: dict[str, Route] = field(default_factory=dict)


class Router:
    """Finds the route of a path.

    Args:
        routes: No two may answer the same method on the same path.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        """Build the tree."""
        self.routes = tuple(routes)
        self._root = _Node()
        for route in self.routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        node = self._root
        parts = _parts(route.pattern)
        for at, part in enumerate(parts):
            if part.endswith("*}"):
                assert at == len(parts) - 1, f"{route.pattern}: nothing follows the rest of a path"
                assert route.method not in node.rest, f"two routes {route.method} {route.pattern}"
                node.rest[route.method] = route
                return
            if part.startswith("{"):
                node.any = node.any or _Node()
                node = node.any
            else:
                node = node.words.setdefault(part, _Node())
        assert route.method not in node.ends, f"two routes {route.method} {route.pattern}"
        node.ends[route.method] = route

    def match(self, method: str, segments: list[str]) -> Match | frozenset[str]:
        """Return the route for decoded segments, or the methods that this path has; none where it leads nowhere."""
        others: set[str] = set()
        for routes in _ends(self._root, segments, 0):
            route = routes.get(method) or (routes.get("GET") if method == "HEAD" else None)
            if route is not None:
                return Match(route, _fields(route, segments))
            others.update(routes)
        return frozenset(others)


def _ends(node: _Node, segments: list[str], at: int) -> Iterator[dict[str, Route]]:
    """Yield the routes that a path fits, the most exact first."""
    if at == len(segments):
        if node.ends:
            yield node.ends
        return
    if (following := node.words.get(segments[at])) is not None:
        yield from _ends(following, segments, at + 1)
    if node.any is not None:
        yield from _ends(node.any, segments, at + 1)
    if node.rest and all("/" not in segment for segment in segments[at:]):
        yield node.rest


def _fields(route: Route, segments: list[str]) -> dict[str, str]:
    fields = {}
    for at, part in enumerate(_parts(route.pattern)):
        if part.endswith("*}"):
            fields[part[1:-2]] = "/".join(segments[at:])
        elif part.startswith("{"):
            fields[part[1:-1]] = segments[at]
    return fields


def _parts(pattern: str) -> list[str]:
    return pattern.split("/")[1:] if pattern != "/" else []
