"""Tagged: routes that stand in the registry, as a tag of the model: whoever may change it there changes it here.

The tag is ``serve.route``; its value is a route as JSON. Models are asked about that are served by an alias of the
registry. The tag counts more than the file of the settings; what is said over the API counts until the tag changes.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import msgspec

from vitrify.core.errors import ReferenceNotFoundError, UsageError, VitrifyError
from vitrify.core.nesting import shallow
from vitrify.core.reference import parse
from vitrify.serve.settings import RouteSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.registry.registry import Registry
    from vitrify.serve.models.engine import ServingEngine

TAG = "serve.route"
_DEPTH = 16


class TaggedRoutes:
    """Asks the registry every so often. It is used by one thread.

    Args:
        connect: Opens the registry.
        seconds: Between two looks at least.
        say: The log.
    """

    def __init__(
        self,
        connect: Callable[[], Registry],
        seconds: float = 5.0,
        say: Callable[..., None] = lambda _event, **_facts: None,
    ) -> None:
        """Know no route yet."""
        self._connect, self._seconds, self._say = connect, seconds, say
        self._registry: Registry | None = None
        self._next = 0.0
        self._seen: tuple[int, frozenset[tuple[str, str]]] | None = None
        self._refused: dict[str, str] = {}
        self.routes: dict[str, RouteSettings] = {}
        """By the name that the model is served by."""

    def look(self, engine: ServingEngine) -> bool:
        """Ask the registry, if it is time to; return whether the routes have changed.

        A registry that does not answer changes nothing.
        """
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + self._seconds
        names = frozenset(_followed(engine))
        if not names and not self.routes:
            return False
        before = self.routes
        try:
            registry = self._registry = self._registry or self._connect()
            seen = (registry.head().seq, names)
            if seen != self._seen:
                self.routes = self._read(registry, names)
                self._seen = seen
        except VitrifyError:
            self.close()
        return self.routes != before

    def close(self) -> None:
        """Let go of the registry."""
        registry, self._registry, self._seen = self._registry, None, None
        if registry is not None:
            with contextlib.suppress(VitrifyError):
                registry.close()

    def _read(self, registry: Registry, names: frozenset[tuple[str, str]]) -> dict[str, RouteSettings]:
        routes = {}
        for served, name in sorted(names):
            try:
                text = registry.model(name).tags.get(TAG, "")
            except ReferenceNotFoundError:
                continue
            route = self._parsed(served, text) if text else None
            if route is not None:
                routes[served] = route
        return routes

    def _parsed(self, served: str, text: str) -> RouteSettings | None:
        """Return what a tag says; what cannot be meant changes nothing, and is said once."""
        try:
            raw = msgspec.json.decode(shallow(text.encode(), _DEPTH))
            route = RouteSettings.from_builtins(raw, where=f"the tag {TAG} of {served}")
        except (UsageError, msgspec.DecodeError, RecursionError) as error:
            if self._refused.get(served) != text:
                self._refused[served] = text
                self._say("route not taken", level="error", model=served, error=str(error))
            return self.routes.get(served)
        self._refused.pop(served, None)
        return route


def _followed(engine: ServingEngine) -> set[tuple[str, str]]:
    """Return what is served by an alias: as what, and the name in the registry."""
    references = {(one.name, one.reference) for one in engine.index() if "@" in one.reference}
    parsed = ((name, parse(reference)) for name, reference in references)
    return {(name, one.alias[0]) for name, one in parsed if one.kind == "alias"}
