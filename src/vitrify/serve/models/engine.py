"""The engine: answers requests with the versions that are loaded; see :class:`vitrify.serve.models.Engine`.

>>> engine = ServingEngine(ThreadLane)                                     # doctest: +SKIP
>>> await engine.start([ModelSettings(reference="churn@production")])      # doctest: +SKIP
>>> reply = await engine.infer(Infer("churn", inputs))                     # doctest: +SKIP
>>> await engine.close()                                                   # doctest: +SKIP
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, TypeVar

from vitrify.core.errors import ExpiredError, ReferenceNotFoundError, UnavailableError, VitrifyError
from vitrify.serve.models.ensembles import Ensembles
from vitrify.serve.models.following import Following
from vitrify.serve.models.loading import Loader
from vitrify.serve.models.memory import keep_no_large_blocks
from vitrify.serve.models.opening import open_session
from vitrify.serve.models.repository import UNLOADED
from vitrify.serve.models.version import Loaded
from vitrify.serve.models.waking import Waker
from vitrify.serve.settings import EnsembleSettings
from vitrify.serve.values import Reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from vitrify.registry.registry import Registry
    from vitrify.serve.lanes import Figures, Lane, MakeLane, Watch
    from vitrify.serve.models import Served
    from vitrify.serve.models.opening import OpenSession
    from vitrify.serve.models.pinning import Pin
    from vitrify.serve.models.repository import Entry
    from vitrify.serve.settings import Loadable, ModelSettings
    from vitrify.serve.values import Infer
    from vitrify.stores.oci_layout import OciLayout

    Answered = Callable[[Infer, Reply | BaseException], None]

T = TypeVar("T")
_TRIES = 5
"""A request that finds its version just let go or replaced looks again, so many times at most."""


class ServingEngine:
    """Versions of models, each behind a lane; every method may be called from an event loop, and none blocks it."""

    def __init__(
        self,
        make_lane: MakeLane,
        *,
        store: OciLayout | None = None,
        registry: Callable[[], Registry] | None = None,
        memory: int = 0,
        choose: Callable[[Infer], str] | None = None,
        watch: Watch | None = None,
        watch_ensembles: Watch | None = None,
        answered: Answered | None = None,
        open_session: OpenSession = open_session,
        follow_seconds: float = 5.0,
        drain_seconds: float = 30.0,
    ) -> None:
        """Start without models.

        Args:
            make_lane: The plane's.
            store: Where artifacts are, and where they are fetched to; by default the user's store.
            registry: Opens the registry that aliases are followed in; by default as :func:`open_registry` finds it.
            memory: Models may have so many bytes of files together; 0 is without limit.
            choose: Which version answers a request that names none; an empty text, or a version that does not
                answer, means the version that was loaded last.
            watch: Sees every batch of a model.
            watch_ensembles: Sees each answer of an ensemble; its models' batches are seen apart from that.
            answered: Told what each request was answered, or by which error, in the task that asked; it must be quick
                and never raise.
            open_session: Opens models; by default in this process.
            follow_seconds: So often the registry is asked whether an alias has moved.
            drain_seconds: For what a lane has taken, when it is replaced or unloaded.
        """
        keep_no_large_blocks()
        connect = registry or _open_registry
        self._loader = Loader(
            make_lane,
            open_session,
            connect,
            store=store,
            memory=memory,
            watch=watch,
            drain_seconds=drain_seconds,
        )
        self._repository = self._loader.repository
        self._choose, self._answered = choose, answered
        self._following = Following(self._loader, connect, follow_seconds)
        self._ensembles = Ensembles(self, watch_ensembles)
        self._loader.changed.append(self._ensembles.changed)
        self._missing: set[tuple[str, str, str]] = set()
        self._closing = False
        self._waker: Waker | None = None

    # What the protocols ask

    @property
    def ready(self) -> bool:
        """Whether everything that was to be loaded at the start is ready, and nothing is being drained."""
        return not self._missing and not self._closing

    async def infer(self, request: Infer, pin: Pin | None = None) -> Reply:
        """Answer one request; see :meth:`vitrify.serve.models.Engine.infer`.

        Args:
            request: What is asked.
            pin: The version that was chosen for it already; by default it is chosen here.
        """
        if self._answered is None:
            return await self._infer(request, pin)
        try:
            reply = await self._infer(request, pin)
        except BaseException as error:
            self._answered(request, error)
            raise
        self._answered(request, reply)
        return reply

    async def _infer(self, request: Infer, pin: Pin | None) -> Reply:
        woken: list[Entry] = []
        try:
            answer = await self._given(request, lambda loaded: loaded.submit(request), woken, pin)
            return answer if isinstance(answer, Reply) else await self._woken_here().wait(answer, request.deadline)
        finally:
            for entry in woken:
                entry.ask(-1)

    async def _given(
        self, request: Infer, give: Callable[[Loaded], T], woken: list[Entry], pin: Pin | None = None
    ) -> T:
        """Give a request to the version that answers it, and return what that gives back.

        Args:
            request: What is asked.
            give: Gives it to a version.
            woken: Takes the entries that count it among their askers: they are to be told when it has its answer.
            pin: The version that was chosen for it already.
        """
        for left in reversed(range(_TRIES)):
            entry = self.choose(request) if pin is None else pin.entry
            loaded = entry.loaded if pin is None else pin.take()
            if loaded is None:
                entry.ask(1)
                woken.append(entry)
                loaded = await self._woken(entry, request)
                if loaded is None or pin is not None:  # what is pinned is taken, or looked for again
                    continue
            try:
                return give(loaded)
            except UnavailableError as error:
                # Closed between two lines: what has taken its place answers. Busy and expired are classes of their own.
                if type(error) is not UnavailableError or entry.loaded is loaded or not left:
                    raise
        msg = f"model {request.model!r} comes and goes: it was replaced or let go {_TRIES} times meanwhile"
        raise UnavailableError(msg, remedy="try again")

    async def stream(self, request: Infer) -> AsyncIterator[Reply]:
        """Answer one request in parts as they are made; a model that makes no parts gives one."""
        woken: list[Entry] = []
        try:
            parts = await self._given(request, lambda loaded: loaded.stream(request), woken)
        finally:  # whoever takes its parts slowly holds up nobody
            for entry in woken:
                entry.ask(-1)
        if parts is None:
            yield await self.infer(request)
            return
        async with contextlib.aclosing(parts):
            async for part in parts:
                if self._answered is not None:
                    self._answered(request, part)
                yield part

    def served(self, name: str, version: str = "") -> Served:
        """Return a version, by default the one that most requests are sent to; not necessarily ready.

        Raises:
            ReferenceNotFoundError: No such model or version is served.
        """
        return self._repository.find(name, version).shown

    def index(self) -> tuple[Served, ...]:
        """Return every version that is served, was, or may be loaded, by name and number."""
        return tuple(entry.shown for entry in self._repository.all())

    def figures(self, name: str, version: str) -> Figures:
        """Return what one version's lanes have done since the server started.

        Raises:
            ReferenceNotFoundError: No such model or version is served.
        """
        return self._repository.find(name, version).figures()

    async def load(self, settings: Loadable, *, wanted: bool = False) -> Served:
        """Load a version, or load it again; the one before answers until the new one is ready, then drains.

        The same bytes with the same settings are left as they are. An alias is followed from then on.
        An ensemble is loaded when its models are.

        Args:
            settings: What to load.
            wanted: Whether the index shows it, with the reason, although there is no such artifact: somebody will try
                again.

        Raises:
            VitrifyError: It could not be loaded; what was served before still is.
        """
        if isinstance(settings, EnsembleSettings):
            return await asyncio.wrap_future(self._ensembles.load(settings))
        return await asyncio.wrap_future(self._loader.submit(self._load, settings, wanted=wanted))

    async def unload(self, name: str, version: str = "") -> None:
        """Drain and let go of a version, or of all.

        Raises:
            ReferenceNotFoundError: There is no such model.
        """
        entries = (self._repository.find(name, version),) if version else self._repository.versions(name)
        if not entries:
            self._repository.find(name)
        if self._ensembles.settings(name):
            await asyncio.to_thread(self._ensembles.forget, name, version)
        for entry in entries:
            self._following.leave(*entry.key)
        await asyncio.gather(*(asyncio.to_thread(self._loader.unload, entry) for entry in entries))

    # What the server itself asks

    async def start(self, models: Iterable[ModelSettings]) -> tuple[VitrifyError, ...]:
        """Load what is to be served from the start; return why some could not be. Only without such is it ready."""
        models = tuple(models)
        self._missing.update(map(_which, models))
        results = await asyncio.gather(*(self._started(one) for one in models))
        return tuple(error for error in results if error is not None)

    async def close(self, seconds: float = 30.0) -> None:
        """Answer everything that was taken, for at most so many seconds, and let all models go."""
        self._closing = True
        until = time.monotonic() + seconds
        await asyncio.to_thread(self._ensembles.close)
        await asyncio.to_thread(self._following.close, seconds)
        await asyncio.to_thread(self._loader.close, max(0.0, until - time.monotonic()))

    def add(
        self,
        served: Served,
        lane: Lane,
        let_go: Callable[[], None] = lambda: None,
        trouble: Callable[[], str] | None = None,
        *,
        default: bool = True,
    ) -> Served:
        """Serve something that is no artifact, an ensemble, as a version of a model.

        Requests are matched with ``served.signature`` before they come to the lane. ``let_go`` is called when the lane
        is closed; what had its place is drained. ``trouble`` says why it does not answer just now, or nothing.
        ``default`` is false where nobody has loaded it, and what it is made of has changed: that is no reason to answer
        instead of another version.
        """
        return self._loader.add(served, Loaded(served, lane, let_go, trouble), default=default)

    def settings(self, name: str) -> tuple[Loadable, ...]:
        """Return what the versions of a model were loaded by, so that they can be loaded again; empty for none."""
        models = (entry.settings for entry in self._repository.versions(name))
        return (*(one for one in models if one is not None), *self._ensembles.settings(name))

    def default(self, name: str) -> str:
        """Return the version that answers where neither the request nor the rollout names one.

        Raises:
            ReferenceNotFoundError: No such model is served.
        """
        return self._repository.find(name).served.version

    def labels(self, name: str) -> dict[str, str]:
        """Return the version that each alias of a model leads to, of those that are followed; empty for none."""
        return self._following.labels(name)

    def when_changed(self, callback: Callable[[], None]) -> None:
        """Call back, in a thread that loads, each time that a version has come, gone, or become the default.

        Where a version takes the place of another, it is called before the other one is let go.
        """
        self._loader.changed.append(callback)

    def _woken_here(self) -> Waker:
        """Return what waits in the loop that is running: it is nearly always the same."""
        loop = asyncio.get_running_loop()
        waker = self._waker
        if waker is None or waker.loop is not loop:
            waker = self._waker = Waker(loop)
        return waker

    def choose(self, request: Infer) -> Entry:
        """Return the version that answers a request: the one that it names, or the rollout's choice.

        Raises:
            ReferenceNotFoundError: There is none.
        """
        if request.version or self._choose is None:
            return self._repository.find(request.model, request.version)
        try:
            chosen = self._repository.find(request.model, self._choose(request))
        except ReferenceNotFoundError:
            return self._repository.find(request.model)
        return chosen if chosen.answers else self._repository.find(request.model)

    async def _woken(self, entry: Entry, request: Infer) -> Loaded | None:
        """Return a lazy version once it is loaded, or None where another one should be looked for.

        Raises:
            ReferenceNotFoundError: It was unloaded.
            ExpiredError: The deadline passed while it was loaded.
            UnavailableError: It cannot answer.
        """
        if not entry.lazy:
            raise _absent(entry)
        settings = entry.settings
        now = time.monotonic()
        until = min(request.deadline, now + (settings.batching.seconds if settings else 0.0))
        pending = self._loader.wake(entry)
        waiting = asyncio.wrap_future(pending)
        waiting.add_done_callback(_seen)
        done, _ = await asyncio.wait({waiting}, timeout=max(0.0, until - now))
        if not done:
            msg = f"model {request.model!r} was not loaded before the deadline"
            raise ExpiredError(msg, remedy="ask again: it is being loaded")
        if waiting.cancelled():  # the server is stopping
            raise _absent(entry)
        if (error := waiting.exception()) is not None:
            if isinstance(error, VitrifyError):
                raise _absent(entry) from error
            raise error
        return entry.loaded

    def _load(self, settings: ModelSettings, *, wanted: bool) -> Served:
        served = self._loader.load(settings, wanted=wanted)
        self._following.follow(settings, served)
        self._missing.discard(_which(settings))
        return served

    async def _started(self, settings: ModelSettings) -> VitrifyError | None:
        try:
            await self.load(settings, wanted=True)
        except VitrifyError as error:
            return error
        return None


def _open_registry() -> Registry:
    from vitrify.registry import open_registry

    return open_registry(create=False)


def _which(settings: ModelSettings) -> tuple[str, str, str]:
    return settings.reference, settings.name, settings.version


def _seen(waiting: asyncio.Future[None]) -> None:
    """Take the error of a load that nobody waits for any more."""
    if not waiting.cancelled():
        waiting.exception()


def _absent(entry: Entry) -> VitrifyError:
    """Return why a version does not answer."""
    served = entry.served
    who = f"model {served.name!r} version {served.version!r}"
    if served.state == "UNAVAILABLE" and served.reason == UNLOADED:
        return ReferenceNotFoundError(f"{who} was unloaded", remedy="load it again")
    return UnavailableError(f"{who} is {served.state.lower()}{f': {served.reason}' if served.reason else ''}")
