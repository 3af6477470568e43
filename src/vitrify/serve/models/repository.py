"""The repository: every version that is served, was, or may be, and what it is doing.

Reading never waits: what is looked up is replaced whole, never changed in place.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vitrify.core.errors import ReferenceNotFoundError, UsageError
from vitrify.core.signature import Signature
from vitrify.serve.lanes import Batching
from vitrify.serve.models import Served
from vitrify.serve.models.backoff import Backoff
from vitrify.serve.models.figures import together
from vitrify.serve.models.opening import label

if TYPE_CHECKING:
    from concurrent.futures import Future

    from vitrify.serve.lanes import Figures, Lane
    from vitrify.serve.models import State
    from vitrify.serve.models.opening import Source
    from vitrify.serve.models.version import Loaded
    from vitrify.serve.settings import ModelSettings

UNLOADED = "unloaded"
_REMEMBERED = 20
"""So many versions of a model that were unloaded, or never came, are kept in the index."""
_MOST_NUMBER = 2**63 - 1
_SHOWN = 20


@dataclass(eq=False)
class Entry:
    """One version through all its lives.

    Attributes:
        served: As it stands now.
        settings: What it was loaded by; None for what was added by hand.
        source: Where its bytes are; None before it was found, and for what was added by hand.
        loaded: What answers; None where nothing does.
        lazy: Whether the next request loads it.
        pending: The load that requests wait for.
        askers: Requests that have waited for its load, or do, and have no answer yet; it is not let go before.
        order: When it was loaded, in the order of all loads; 0 for never.
        loads: Held while it is loaded or let go.
        past: What its closed lanes have done.
        draining: Its lanes that take nothing more and are not yet closed.
        books: Held while a lane goes from one of these to the next, so that what it has done is counted once, and while
            askers are counted.
        backoff: When it may be tried again, after it could not be loaded.
    """

    served: Served
    settings: ModelSettings | None = None
    source: Source | None = None
    loaded: Loaded | None = None
    lazy: bool = False
    pending: Future[None] | None = None
    askers: int = 0
    order: int = 0
    loads: threading.RLock = field(default_factory=threading.RLock)
    past: Figures = field(default_factory=lambda: together(()))
    draining: tuple[Lane, ...] = ()
    books: threading.Lock = field(default_factory=threading.Lock)
    backoff: Backoff = field(default_factory=Backoff)

    @property
    def key(self) -> tuple[str, str]:
        """Name and version."""
        return self.served.name, self.served.version

    @property
    def announced(self) -> bool:
        """Whether it is only known from its settings' own text."""
        return self.source is None and self.loaded is None and self.settings is not None

    @property
    def answers(self) -> bool:
        """Whether it answers, or will with the next request: not where what answers has said that it cannot now."""
        loaded = self.loaded
        return self.lazy if loaded is None else not loaded.trouble

    @property
    def shown(self) -> Served:
        """What it is, and whether it is down just now although it is loaded: its workers are, or a model it asks."""
        loaded, served = self.loaded, self.served
        trouble = loaded.trouble if loaded is not None and served.state == "READY" else ""
        return dataclasses.replace(served, state="UNAVAILABLE", reason=trouble) if trouble else served

    def now(self, state: State, reason: str = "") -> None:
        """Say what it is doing from now on."""
        since = time.time() if state != self.served.state else self.served.since
        lazy = self.lazy and self.loaded is None
        self.served = dataclasses.replace(self.served, state=state, reason=reason, since=since, lazy=lazy)

    def ask(self, more: int) -> None:
        """Count the requests that it was, or is, loaded for."""
        with self.books:
            self.askers += more

    def hand_over(self, loaded: Loaded | None) -> Loaded | None:
        """Let something else answer from now on, or nothing; return what answered, whose lane is to be closed."""
        with self.books:
            old, self.loaded = self.loaded, loaded
            if old is not None:
                self.draining = (*self.draining, old.lane)
            return old

    def drained(self, lane: Lane) -> None:
        """Keep what a closed lane has done."""
        with self.books:
            if lane in self.draining:
                done = dataclasses.replace(lane.figures(), waiting=0, running=0, stuck=False)
                self.past = together([self.past, done])
                self.draining = tuple(one for one in self.draining if one is not lane)

    def figures(self) -> Figures:
        """Return what all its lanes have done."""
        with self.books:
            lanes = [*self.draining, *([self.loaded.lane] if self.loaded else [])]
            return together([self.past, *(lane.figures() for lane in lanes)])


class Repository:
    """Versions by name."""

    def __init__(self) -> None:
        """Start without any."""
        self._models: dict[str, dict[str, Entry]] = {}
        self._defaults: dict[str, str] = {}
        self._count = 0
        self.lock = threading.Lock()

    def find(self, name: str, version: str = "") -> Entry:
        """Return a version, by default the one that requests go to: the last one that was loaded, of those that answer.

        Raises:
            ReferenceNotFoundError: There is none.
        """
        versions = self._models.get(name)
        if not versions:
            msg = f"no model is called {name[:200]!r} here (there are: {_listed(self._models)})"
            raise ReferenceNotFoundError(msg, remedy="ask for one of these, or load it")
        if not version:
            chosen = versions.get(self._defaults.get(name, ""))
            return chosen if chosen is not None and (len(versions) == 1 or chosen.answers) else self._latest(name)
        found = versions.get(version)
        if found is None:
            msg = f"{name!r} has no version {version[:200]!r} here (there are: {_listed(versions)})"
            raise ReferenceNotFoundError(msg, remedy="ask for one of these, or for none to get the one that is served")
        return found

    def versions(self, name: str) -> tuple[Entry, ...]:
        """Return the versions of a model; empty where there is no such model."""
        return tuple(sorted(self._models.get(name, {}).copy().values(), key=lambda entry: entry.served.number))

    def all(self) -> tuple[Entry, ...]:
        """Return everything, by name and number."""
        return tuple(entry for name in sorted(self._models.copy()) for entry in self.versions(name))

    def announce(self, settings: ModelSettings) -> Entry | None:
        """Show that something is about to be looked for, where nothing has its place yet; return what is new."""
        name, version = label(settings)
        with self.lock:
            if version in self._models.get(name, {}):
                return None
            entry = Entry(_unknown(name, version, settings.reference), settings)
            self._add(entry)
            return entry

    def missed(self, settings: ModelSettings, reason: str) -> None:
        """Say why something that was announced, and is still wanted, is not there."""
        entry = self._models.get((at := label(settings))[0], {}).get(at[1])
        if entry is not None and entry.announced:
            entry.now("UNAVAILABLE", reason)
            self._prune(at[0])

    def forget(self, entry: Entry) -> None:
        """Show something no longer that was announced, was not found, and that nobody wants."""
        name, version = entry.key
        with self.lock:
            versions = self._models.get(name, {})
            if versions.get(version) is entry and entry.announced:
                del versions[version]
            if not versions:
                self._models.pop(name, None)

    def place(self, settings: ModelSettings, source: Source, served: Served) -> Entry:
        """Return the place of a version that was found; what was announced for it goes.

        Raises:
            UsageError: What is no artifact is served by that name.
        """
        with self.lock:
            name, version = label(settings)
            if any(one.loaded and one.source is None for one in self._models.get(source.name, {}).values()):
                msg = f"a model is to be called {source.name!r}, as an ensemble is"
                raise UsageError(msg, remedy="give it another name, or unload the ensemble")
            announced = self._models.get(name, {}).get(version)
            if announced is not None and announced.announced:
                del self._models[name][version]
            entry = self._models.get(source.name, {}).get(source.version)
            if entry is None or entry.announced:
                number = self._number(source.name, source.version)
                entry = Entry(dataclasses.replace(served, number=number), settings, source)
                self._add(entry)
            return entry

    def add(self, served: Served) -> Entry:
        """Return the place of something that is no artifact."""
        with self.lock:
            entry = self._models.get(served.name, {}).get(served.version)
            if entry is None:
                number = self._number(served.name, served.version)
                entry = Entry(dataclasses.replace(served, number=number))
                self._add(entry)
            entry.settings, entry.source, entry.lazy = None, None, False
            return entry

    def set_default(self, entry: Entry) -> None:
        """Send requests without a version there from now on."""
        name, version = entry.key
        with self.lock:
            self._count += 1
            entry.order = self._count
            self._defaults[name] = version

    def left(self, entry: Entry) -> None:
        """Send no requests to what is gone, where another version answers."""
        name, version = entry.key
        with self.lock:
            if self._defaults.get(name) == version:
                self._defaults[name] = self._latest(name).served.version
        self._prune(name)

    def _latest(self, name: str) -> Entry:
        """Return the version that was loaded last, of those that answer where one does."""
        return max(self._models[name].copy().values(), key=lambda entry: (entry.answers, entry.order))

    def _add(self, entry: Entry) -> None:
        name, version = entry.key
        self._models.setdefault(name, {})[version] = entry

    def _number(self, name: str, version: str) -> int:
        if version.isascii() and version.isdecimal() and 0 < len(version) < len(str(_MOST_NUMBER)) and int(version):
            return int(version)
        known = self._models.get(name, {}).values()
        return max((entry.served.number for entry in known if entry.served.number), default=0) + 1

    def _prune(self, name: str) -> None:
        """Forget the oldest of what is gone, where it is more than anybody would look at."""
        with self.lock:
            entries = self._models[name].values()
            gone = [one for one in entries if not one.answers and one.served.state == "UNAVAILABLE"]
            for entry in sorted(gone, key=lambda entry: entry.served.since)[:-_REMEMBERED]:
                del self._models[name][entry.served.version]


def _unknown(name: str, version: str, reference: str) -> Served:
    return Served(
        name=name,
        version=version,
        number=0,
        digest="",
        reference=reference,
        platform="",
        state="LOADING",
        reason="",
        signature=Signature(inputs=()),
        inputs=(),
        outputs=(),
        batching=Batching(),
        since=time.time(),
        size=0,
    )


def _listed(names: dict[str, object] | dict[str, Entry] | dict[str, dict[str, Entry]]) -> str:
    shown = ", ".join(repr(name) for name in sorted(names.copy())[:_SHOWN])
    return f"{shown}, ..." if len(names) > _SHOWN else shown or "none"
