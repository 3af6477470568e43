"""Applying: what the file of the settings, the registry and the state say is made so while the server runs.

Twice a second the files are looked at. A file of settings is validated wholly before anything of it counts; one that
cannot be meant changes nothing and is named in the log. Models that are new are loaded, changed ones loaded again, and
those that are gone are unloaded once nothing of their name is being loaded any more. What fails is tried again with a
growing pause, and meanwhile what was served before is. Ensembles are treated likewise, once their models are there.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vitrify.core.errors import ReferenceNotFoundError, VitrifyError
from vitrify.serve import settings_file
from vitrify.serve.models._graph import ordered
from vitrify.serve.models.backoff import Backoff
from vitrify.serve.models.ensembles import PLATFORM as ENSEMBLE
from vitrify.serve.rollout import wanted
from vitrify.serve.rollout.state import Event, State
from vitrify.serve.rollout.ticking import Ticking
from vitrify.serve.settings import EnsembleSettings, ModelSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

    from vitrify.serve.clients import Clients
    from vitrify.serve.models import Served
    from vitrify.serve.rollout.rollout import Rollout
    from vitrify.serve.rollout.tagged import TaggedRoutes
    from vitrify.serve.settings import Loadable, Settings

T = TypeVar("T")

POLL = 0.5
"""Seconds."""


@dataclass
class _Applied:
    """What was made so, or is being made.

    Attributes:
        wanted: Settings and number.
        work: The load, while it is not over.
        backoff: When it may be tried again, where it failed.
    """

    wanted: tuple[Loadable, int]
    work: Future[Served] | None = None
    backoff: Backoff = field(default_factory=Backoff)
    failed: bool = False


class Applying:
    """Keeps the server as it is wanted. Loads and unloads over any protocol go through it, so that they are remembered.

    Args:
        rollout: Takes the routes; its engine loads.
        settings: What the server was started with.
        source: The file that it came from; None for none.
        clients: Take another table.
        tagged: Routes from the registry; None for none.
        check: Refuses settings that are unsafe for this server: without clients everybody may ask.
        say: The log.
        fault: Told what goes wrong in the thread.
    """

    def __init__(
        self,
        rollout: Rollout,
        settings: Settings,
        *,
        source: str | None = None,
        clients: Clients | None = None,
        tagged: TaggedRoutes | None = None,
        check: Callable[[Settings], None] = lambda _settings: None,
        say: Callable[..., None] = lambda _event, **_facts: None,
        fault: Callable[[str, BaseException], None] = lambda _id, _error: None,
    ) -> None:
        """Read the state; what it says of models counts from the start.

        Raises:
            MalformedError: The state is none.
            UsageError: The settings, or the file of them, name something that could never be loaded.
        """
        wanted.validate(settings)
        self._rollout, self._clients, self._tagged, self._say = rollout, clients, tagged, say
        self._check = check
        self._source, self._stamp = source, _stamp(source)
        self._file = settings_file.read(source) if source else None
        self._more = settings.models[len(self._file.models) :] if self._file else ()
        self._settings = settings
        self._applied: dict[str, _Applied] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ticking = Ticking("vitrify-settings", POLL, self.look, fault)
        self._lock = threading.Lock()
        self._trouble = ""
        self._started = False
        if rollout.state.read():
            rollout.refresh()

    @property
    def first(self) -> tuple[ModelSettings, ...]:
        """The models of the settings that are to be loaded at the start: all but what was unloaded since."""
        found = wanted.everything(self._settings, self._rollout.state.state).values()
        return tuple(one for one, number in found if number == 0 and isinstance(one, ModelSettings))

    async def start(self) -> None:
        """Load what the state names beside the settings, then ensembles, then go on looking; ``first`` has been loaded.

        Raises:
            VitrifyError: An ensemble of the settings cannot be loaded.
        """
        self._loop = asyncio.get_running_loop()
        for settings in self.first:
            self._applied[wanted.key(settings)] = _Applied((settings, 0))
        await asyncio.to_thread(self.look)
        works = [asyncio.wrap_future(one.work) for one in self._applied.values() if one.work is not None]
        await asyncio.gather(*works, return_exceptions=True)
        await self._start_ensembles()
        self._ticking.start()

    async def _start_ensembles(self) -> None:
        """Load them, those first that others ask; what only the state names may come later."""
        found = wanted.everything(self._settings, self._rollout.state.state).values()
        numbers = {wanted.key(one): number for one, number in found}
        for one in ordered(one for one, _ in found if isinstance(one, EnsembleSettings)):
            number = numbers[at := wanted.key(one)]
            self._applied[at] = applied = _Applied((one, number))
            try:
                await self._rollout.engine.load(one)
            except VitrifyError as error:
                if number == 0:
                    raise
                self._failed(at, applied, error)
        self._started = True

    def close(self, seconds: float) -> None:
        """Stop looking."""
        self._ticking.close(seconds)

    async def load(self, settings: Loadable, client: str = "") -> Served:
        """Load a model or an ensemble, and have every process of this server, and a restart, load it too.

        Raises:
            VitrifyError: It could not be loaded, and nothing has changed; or it could not be kept.
        """
        served = await self._rollout.engine.load(settings)
        event = _event(served.name, "loaded", served.version, client, served.reference)
        await asyncio.to_thread(self._keep_loaded, settings, event)
        return served

    async def unload(self, name: str, version: str = "", client: str = "") -> None:
        """Unload a version, or all; a restart does not bring them back.

        Raises:
            ReferenceNotFoundError: There is no such model.
        """
        engine = self._rollout.engine
        references = {one.reference for one in engine.index() if one.name == name and version in {"", one.version}}
        await engine.unload(name, version)
        event = _event(name, "unloaded", version, client, "")

        def gone(settings: Loadable) -> bool:
            known = isinstance(settings, EnsembleSettings) or settings.reference in references
            same = known and wanted.called(settings)[0] == name
            return same and (not version or settings.version in {"", version})

        await asyncio.to_thread(self._keep_unloaded, gone, event)

    def look(self) -> None:
        """Look at the files once, and begin what follows."""
        with self._lock:
            self._look()

    def _look(self) -> None:
        self._reload()
        changed = self._read_state()
        tagged = self._tagged is not None and self._tagged.look(self._rollout.engine)
        if tagged:
            self._take_routes()
        elif changed:
            self._rollout.refresh()
        self._models()

    def _read_state(self) -> bool:
        """Return whether others have changed the state; what cannot be read is said once."""
        try:
            changed, trouble = self._rollout.state.read(), ""
        except VitrifyError as error:
            changed, trouble = False, str(error)
        if trouble and trouble != self._trouble:
            self._say("state not taken", level="error", error=trouble)
        self._trouble = trouble
        return changed

    def _reload(self) -> None:
        if self._source is None or (stamp := _stamp(self._source)) == self._stamp:
            return
        self._stamp = stamp
        try:
            file = settings_file.read(self._source)
            new = file.replace(models=(*file.models, *self._more))
            wanted.validate(new)
            self._check(new.replace(server=self._settings.server))
        except VitrifyError as error:
            self._say("settings not taken", level="error", file=self._source, error=str(error))
            return
        if self._file is not None and file.server != self._file.server:
            self._say("settings", level="warning", file=self._source, message="[server] takes a restart")
        before, self._settings, self._file = self._settings, new.replace(server=self._settings.server), file
        if self._clients is not None and new.clients != before.clients:
            self._clients.replace(new.clients)
        if wanted.forgotten(self._rollout.state.state, before, new) is not self._rollout.state.state:
            self._kept(lambda: self._rollout.change(lambda state: wanted.forgotten(state, before, new)))
        self._take_routes()
        self._say("settings taken", file=self._source, models=len(new.models), routes=len(new.routes))

    def _take_routes(self) -> None:
        tagged = self._tagged.routes if self._tagged is not None else {}
        self._kept(lambda: self._rollout.take({**self._settings.routes, **tagged}))

    def _kept(self, change: Callable[[], None]) -> None:
        """Change something; where the state cannot be kept, the log is told."""
        try:
            change()
        except VitrifyError as error:
            self._say("state not kept", level="error", error=str(error))

    def _models(self) -> None:
        """Begin to load what is new or was changed, then let go of what is gone; of ensembles before their models."""
        found = wanted.everything(self._settings, self._rollout.state.state)
        new = {wanted.called(one[0])[0] for at, one in found.items() if self._wanted(at) != one}
        for at, one in found.items():
            if not isinstance(one[0], EnsembleSettings) or self._may_come(one[0], new - {one[0].name}):
                self._bring(at, one)
        loading = self._loading()
        gone = self._applied.keys() - found.keys()
        for at in sorted(gone, key=lambda at: isinstance(self._applied[at].wanted[0], ModelSettings)):
            if wanted.called(self._applied[at].wanted[0])[0] not in loading:
                self._let_go(self._applied.pop(at).wanted[0])

    def _loading(self) -> set[str]:
        """Return the names of which something is being loaded."""
        working = (one for one in self._applied.values() if one.work is not None and not one.work.done())
        return {wanted.called(one.wanted[0])[0] for one in working}

    def _may_come(self, ensemble: EnsembleSettings, new: set[str]) -> bool:
        """Say whether nothing that an ensemble asks is new, or is being loaded just now."""
        asked = {step.model for step in ensemble.steps.values()}
        return self._started and asked.isdisjoint(new | self._loading())

    def _wanted(self, at: str) -> tuple[Loadable, int] | None:
        return self._applied[at].wanted if at in self._applied else None

    def _bring(self, at: str, one: tuple[Loadable, int]) -> None:
        known = self._applied.get(at)
        if known is not None and known.work is not None:
            if not known.work.done():
                return
            error = None if known.work.cancelled() else known.work.exception()
            known.failed, known.work = known.work.cancelled(), None
            if error is not None:
                self._failed(at, known, error)
        if known is not None and known.wanted == one and (not known.failed or known.backoff.seconds):
            return
        backoff = known.backoff if known is not None and known.wanted == one else Backoff()
        work = self._do(self._rollout.engine.load(one[0], wanted=True))
        self._applied[at] = _Applied(one, work, backoff)

    def _failed(self, at: str, applied: _Applied, error: BaseException) -> None:
        """Try it again, later."""
        applied.failed = True
        applied.backoff.failed()
        self._say("not loaded", level="error", model=at, error=str(error))

    def _let_go(self, settings: Loadable) -> None:
        name, _ = wanted.called(settings)
        reference = _reference(settings)
        others = [one.wanted[0] for one in self._applied.values() if _reference(one.wanted[0]) == reference]
        claimed = {one.version for one in others if wanted.called(one)[0] == name}
        engine = self._rollout.engine
        for served in engine.index():
            alive = served.state != "UNAVAILABLE" or served.lazy or served.platform == ENSEMBLE
            mine = settings.version in {"", served.version} and served.version not in claimed
            if served.name == name and served.reference == reference and alive and mine:
                self._say("unloading", model=name, version=served.version)
                self._do(engine.unload(name, served.version)).add_done_callback(self._let_gone)

    def _let_gone(self, future: Future[None]) -> None:
        error = None if future.cancelled() else future.exception()
        if error is not None and not isinstance(error, ReferenceNotFoundError):
            self._say("not unloaded", level="error", error=str(error))

    def _do(self, work: Coroutine[None, None, T]) -> Future[T]:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _keep_loaded(self, settings: Loadable, event: Event) -> None:
        def load(state: State) -> State:
            return wanted.loaded(state, self._settings, settings).telling(event)

        with self._lock:
            self._rollout.change(load, event)
            # It is loaded here already; only the others have to.
            at = wanted.key(settings)
            self._applied[at] = _Applied(wanted.everything(self._settings, self._rollout.state.state)[at])

    def _keep_unloaded(self, gone: Callable[[Loadable], bool], event: Event) -> None:
        with self._lock:
            self._rollout.change(lambda state: wanted.unloaded(state, self._settings, gone).telling(event), event)
            self._applied = {at: one for at, one in self._applied.items() if not gone(one.wanted[0])}


def _reference(settings: Loadable) -> str:
    """Return what the engine says that it was loaded from."""
    return settings.name if isinstance(settings, EnsembleSettings) else settings.reference


def _event(model: str, what: str, version: str, client: str, reason: str) -> Event:
    return Event(time=time.time(), model=model, what=what, version=version, client=client, reason=reason)


def _stamp(path: str | None) -> tuple[int, int, int] | None:
    """Return what changes when a file is written; None where there is none."""
    if path is None:
        return None
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
