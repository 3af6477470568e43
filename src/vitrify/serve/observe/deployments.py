"""Deployments: the registry is told which of its versions run here, so that their lineage leads to this server.

What the registry says to run on the target is made to be what is served: at the start, whenever that changes, and with
nothing at the end. So an alias that moves ends the version before, and a server that was killed ends what it left when
it is started again. A registry that does not answer, or refuses, harms nothing here: it is said, and tried again.
"""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING

from vitrify.core.errors import ReferenceNotFoundError, UsageError, VitrifyError
from vitrify.core.reference import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from vitrify.registry.registry import Registry
    from vitrify.serve.models import Served

    Key = tuple[str, str, str]


class Deployments:
    """Tells the registry, in a thread of its own.

    Args:
        target: What this server is called there; no other server has that name.
        connect: Opens the registry.
        say: The log.
        seconds: Between two looks at what is served.
    """

    def __init__(
        self, target: str, connect: Callable[[], Registry], say: Callable[..., None], seconds: float = 5.0
    ) -> None:
        """Tell nothing yet."""
        self._target, self._connect, self._say, self._seconds = target, connect, say, seconds
        self._done: frozenset[Key] | None = None
        self._known: dict[Key, tuple[str, str] | None] = {}
        self._trouble = ""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, index: Callable[[], Iterable[Served]]) -> None:
        """Begin; ``index`` returns what is served, or was."""
        self._thread = threading.Thread(target=self._watch, args=(index,), name="vitrify-deployments", daemon=True)
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Say that nothing runs here any more; a registry that does not answer is waited for so long at most."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def look(self, index: Iterable[Served]) -> None:
        """Tell the registry what is served, if that has changed."""
        ready = {(one.reference, one.version, one.digest): one for one in index if one.state == "READY"}
        if ready.keys() == self._done:
            return
        try:
            with closing(self._connect()) as registry:
                refused = self._tell(registry, ready)
        except Exception as error:  # noqa: BLE001 (the boundary of the thread: a registry may break in its own ways)
            refused = [str(error)]
        self._done = None if refused else frozenset(ready)
        trouble = "; ".join(refused)
        if trouble and trouble != self._trouble:
            self._say("deployment not recorded", level="error", target=self._target, error=trouble)
        self._trouble = trouble

    def _watch(self, index: Callable[[], Iterable[Served]]) -> None:
        self.look(index())
        while not self._stop.wait(self._seconds):
            self.look(index())
        self.look(())

    def _tell(self, registry: Registry, ready: Mapping[Key, Served]) -> list[str]:
        """Make the registry say what is served; return what it refused."""
        wanted = {found: one.digest for key, one in ready.items() if (found := self._version(registry, key, one))}
        there = set()
        for one in registry.deployments(target=self._target):
            key = one.model, one.version
            if key in wanted and key not in there and one.facts.get("digest") == wanted[key]:
                there.add(key)
            else:
                registry.end_deployment(one.id)
                self._say("deployment ended", target=self._target, version=":".join(key))
        refused = []
        for key in sorted(wanted.keys() - there):
            try:
                registry.deploy(*key, self._target, digest=wanted[key])
            except VitrifyError as error:
                refused.append(str(error))
            else:
                self._say("deployment started", target=self._target, version=":".join(key))
        return refused

    def _version(self, registry: Registry, key: Key, served: Served) -> tuple[str, str] | None:
        """Return the registry's version that something served is a form of; None where it is none."""
        if key not in self._known:
            self._known[key] = found = _found(registry, served)
            if found is None:
                text = "no version of the registry: where it runs is not recorded"
                self._say(text, level="warning", model=served.name, reference=served.reference)
        return self._known[key]


def _found(registry: Registry, served: Served) -> tuple[str, str] | None:
    try:
        parsed = parse(served.reference)
        if parsed.kind == "alias":
            name, which = parsed.alias[0], served.version  # where the alias led when it was loaded
        else:
            name, _, which = parsed.value.partition(":")
        found = registry.version(name, which or "latest") if parsed.kind in {"alias", "name"} else None
    except (ReferenceNotFoundError, UsageError):
        found = None
    forms = {form.digest for form in found.variants} if found else set()
    return (found.model, found.version) if found and served.digest in forms else None
