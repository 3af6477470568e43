"""A request over HTTP and its answer, as the protocols see them: whichever plane moves the bytes."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Call:
    """One request. Its body has come whole, and is bounded.

    Attributes:
        method: In upper case.
        path: Decoded, from its first slash, without the query.
        query: Decoded, the last value of each name.
        headers: By lower-case name; of one that came twice, the values joined by a comma.
        body: Decompressed, whatever the content coding was.
        client: Who asks, by the name of the token; empty where none is needed.
        id: The request's: the caller's ``X-Request-Id``, or a new one.
        deadline: By ``time.monotonic()``, from the header ``X-Request-Timeout-Ms``.
        fields: What stands in the fields of the route's pattern.
    """

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    client: str = ""
    id: str = ""
    deadline: float = math.inf
    fields: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Answer:
    """What is said.

    Attributes:
        status: An HTTP status.
        body: Bytes, or pieces that are sent as they come (server-sent events).
        headers: By lower-case name; the content's length and the request's id are set by the plane.
    """

    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    headers: dict[str, str] = field(default_factory=dict)


Endpoint = Callable[[Call], Awaitable[Answer]]
"""Runs in the plane's event loop, so it must not block; what it raises of :class:`VitrifyError` becomes an answer."""
Failed = Callable[[Exception, int], Answer]
"""How a protocol says an error, given the status that :mod:`.faults` has for it."""


@dataclass(frozen=True)
class Route:
    """Which endpoint answers which call.

    Attributes:
        method: As in the request.
        pattern: ``{name}`` takes one or more characters that are no slash, ``{name*}`` any; everything else is itself:
            ``/v1/models/{model}:predict``. ``{model}`` takes slashes, too, where the path fits nothing without them.
        endpoint: Answers.
        label: What logs and figures call it.
        failed: How an error is said.
        open: Whether it needs no token: health, and nothing that tells anything.
    """

    method: str
    pattern: str
    endpoint: Endpoint
    label: str
    failed: Failed
    open: bool = False


_MODEL = "{model}"


class Router:
    """Finds the route of a call; of two that fit, the one that comes first."""

    def __init__(self, routes: Iterable[Route]) -> None:
        """Compile the patterns."""
        self.routes = tuple(routes)
        self._compiled = [(_compile(route.pattern), route) for route in self.routes]
        self._wide = [(_compile(route.pattern, wide=_MODEL), route) for route in self.routes if _MODEL in route.pattern]

    def match(self, method: str, path: str) -> tuple[Route, dict[str, str]] | frozenset[str]:
        """Return the route and its fields, or the methods that this path has; none where it leads nowhere."""
        others = set()
        for pattern, route in self._compiled:
            if (found := pattern.fullmatch(path)) is not None:
                if _takes(route, method):
                    return route, found.groupdict()
                others.add(route.method)
        return frozenset(others) or self._match_wide(method, path)

    def _match_wide(self, method: str, path: str) -> tuple[Route, dict[str, str]] | frozenset[str]:
        """Find the routes that leave the least to the model's name: ``risk/wine``, and not ``risk/wine/infer``."""
        if not {"", ".", ".."}.isdisjoint(path.split("/")[1:]):
            return frozenset()
        found = [
            (fields.groupdict(), route)
            for pattern, route in self._wide
            if (fields := pattern.fullmatch(path)) is not None
        ]
        least = min((len(fields["model"]) for fields, _ in found), default=0)
        fit = [(route, fields) for fields, route in found if len(fields["model"]) == least]
        taken = [one for one in fit if _takes(one[0], method)]
        return taken[0] if taken else frozenset(route.method for route, _ in fit)


def _takes(route: Route, method: str) -> bool:
    return route.method == method or (method == "HEAD" and route.method == "GET")


def _compile(pattern: str, wide: str = "") -> re.Pattern[str]:
    """Return the expression of a pattern; the field ``wide`` takes slashes between its parts, too."""
    parts = re.split(r"(\{\w+\*?\})", pattern)
    return re.compile("".join(_part(part, "(?:/[^/]+?)*?" if part == wide else "") for part in parts), re.DOTALL)


def _part(part: str, more: str) -> str:
    if not part.startswith("{"):
        return re.escape(part)
    name = part[1:-1].rstrip("*")
    return f"(?P<{name}>.*)" if part.endswith("*}") else f"(?P<{name}>[^/]+?{more})"
