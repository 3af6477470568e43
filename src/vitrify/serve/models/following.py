"""Following: what the registry calls production is what is served here.

Every few seconds the registry is asked whether an alias has moved. The version that it leads to is then loaded beside
the one that is served, which proves it on its golden samples; only then do requests go to it, and the old one is let
go once it has answered what it had taken. Where loading fails, the old one stays and says why; the same bytes are tried
again with a growing pause. A registry that does not answer changes nothing.
"""

from __future__ import annotations

import contextlib
import random
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vitrify.core.errors import ReferenceNotFoundError, VitrifyError
from vitrify.core.reference import parse
from vitrify.serve.models.backoff import Backoff
from vitrify.serve.models.loading import why

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.registry.registry import Registry
    from vitrify.serve.models import Served
    from vitrify.serve.models.loading import Loader
    from vitrify.serve.models.opening import Connect
    from vitrify.serve.models.repository import Entry
    from vitrify.serve.settings import ModelSettings


@dataclass
class _Followed:
    """One alias.

    Attributes:
        settings: What it was loaded by.
        name: What it is served as.
        version: What it is served as now.
        digest: What is served now.
        failed: The digest that could not be loaded last.
        backoff: When that may be tried again.
    """

    settings: ModelSettings
    name: str
    version: str
    digest: str
    failed: str = ""
    backoff: Backoff = field(default_factory=Backoff)


class Following:
    """Watches the aliases that are served, in a thread of its own that begins with the first."""

    def __init__(self, loader: Loader, connect: Connect, seconds: float) -> None:
        """Keep who loads, and how often to look."""
        self._loader, self._connect, self._seconds = loader, connect, seconds
        self._followed: dict[str, _Followed] = {}
        self._registry: Registry | None = None
        self._seen = -1
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, settings: ModelSettings, served: Served) -> None:
        """Watch the alias that something was loaded by; anything but an alias is not watched.

        What the alias led to when it was last loaded is let go.
        """
        if parse(settings.reference).kind != "alias":
            return
        one = _Followed(settings, served.name, served.version, served.digest)
        with self._lock:
            key = f"{served.name} {settings.reference}"
            before = self._followed.get(key)
            self._followed[key] = one
            self._seen = -1
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._watch, name="vitrify-follow", daemon=True)
                self._thread.start()
        if before is not None and before.version != served.version:
            self._let_go(one, before.version, self._loader.unload_soon)

    def leave(self, name: str, version: str) -> None:
        """Watch no alias any more that leads to a version."""
        with self._lock:
            gone = [key for key, one in self._followed.items() if (one.name, one.version) == (name, version)]
            for key in gone:
                del self._followed[key]

    def labels(self, name: str) -> dict[str, str]:
        """Return what the aliases of a model that are served lead to, by alias."""
        return {parse(one.settings.reference).alias[1]: one.version for one in self._all() if one.name == name}

    def close(self, seconds: float) -> None:
        """Stop watching; what is being loaded just now is not waited for any longer than so many seconds."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(seconds)
            if self._thread.is_alive():
                return
        self._disconnect()

    def look(self) -> None:
        """Ask the registry once, and go after what has moved."""
        try:
            registry = self._registry = self._registry or self._connect()
            head = registry.head().seq
            if head == self._seen and not any(one.failed for one in self._all()):
                return
            self._seen = head  # before the aliases are looked at: one that comes meanwhile sets it back
            for one in self._all():
                self._go_after(one, registry)
        except VitrifyError:
            self._disconnect()

    def _watch(self) -> None:
        while not self._stop.wait(self._seconds * random.uniform(0.8, 1.2)):  # noqa: S311 (no secret)
            try:
                self.look()
            except Exception:  # noqa: BLE001 (the boundary of the thread: a registry may break in its own ways)
                self._disconnect()

    def _all(self) -> tuple[_Followed, ...]:
        with self._lock:
            return tuple(self._followed.values())

    def _go_after(self, one: _Followed, registry: Registry) -> None:
        name, alias = parse(one.settings.reference).alias
        try:
            found = registry.version(name, f"@{alias}")
        except ReferenceNotFoundError:
            self._loader.remark(one.name, one.version, f"{one.settings.reference} leads nowhere any more")
            return
        if found.digest == one.digest and (one.settings.version or found.version) == one.version:
            one.failed = ""
            self._loader.remark(one.name, one.version, "")
            return
        if found.digest == one.failed and one.backoff.seconds:
            return
        repository, load = self._loader.repository, self._loader.load
        leads = repository.find(one.name).served.version == one.version
        used = repository.find(one.name, one.version).loaded is not None
        try:
            served = self._loader.submit(load, one.settings, default=leads, now=used).result()
        except VitrifyError as error:
            if found.digest != one.failed:
                one.failed, one.backoff = found.digest, Backoff()
            one.backoff.failed()
            reason = f"{one.settings.reference} has moved to {found.version}, which cannot be loaded: {why(error)}"
            self._loader.remark(one.name, one.version, reason)
            return
        old, one.failed = one.version, ""
        one.version, one.digest = served.version, served.digest
        if old != served.version:
            self._let_go(one, old, self._loader.unload)

    def _let_go(self, moved: _Followed, old: str, unload: Callable[[Entry], None]) -> None:
        """Unload what an alias led to, unless something else wants it."""
        if any((one.name, one.version) == (moved.name, old) for one in self._all()):
            return
        entry = self._loader.repository.find(moved.name, old)
        if entry.settings is not None and entry.settings.reference == moved.settings.reference:
            unload(entry)

    def _disconnect(self) -> None:
        registry, self._registry, self._seen = self._registry, None, -1
        if registry is not None:
            with contextlib.suppress(VitrifyError):
                registry.close()
