"""Loading: a version is found, proven, given a lane, and let go again; all of it in threads that may wait.

A version is replaced in one step: requests go to the old lane until the new one takes them, then the old one answers
what it has taken and is closed. Where loading fails, nothing has changed.
"""

from __future__ import annotations

import contextlib
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from vitrify.core.errors import ModelError, ReferenceNotFoundError, UnavailableError, VitrifyError
from vitrify.serve.faults import said
from vitrify.serve.models import Served
from vitrify.serve.models.budget import Budget
from vitrify.serve.models.limits import require_sane
from vitrify.serve.models.memory import give_back
from vitrify.serve.models.opening import Sessions, find
from vitrify.serve.models.proving import prove
from vitrify.serve.models.repository import UNLOADED, Entry, Repository
from vitrify.serve.models.version import Loaded, open_lane
from vitrify.serve.ports import ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from vitrify.artifacts.artifact import Artifact
    from vitrify.serve.lanes import MakeLane, Watch
    from vitrify.serve.models.budget import Key
    from vitrify.serve.models.opening import Connect, OpenSession, Source
    from vitrify.serve.settings import ModelSettings
    from vitrify.stores.oci_layout import OciLayout

_LOG = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

LOADS = 2
"""So many versions are loaded at the same time."""
_DRAINS = 4
_MOST_ENDS = 32
_STOPPING = "the server is stopping"
LAZY = "its first request loads it"


class Loader:
    """Brings versions into the repository, and takes them out."""

    def __init__(
        self,
        make_lane: MakeLane,
        open_session: OpenSession,
        connect: Connect,
        *,
        store: OciLayout | None,
        memory: int,
        watch: Watch | None,
        drain_seconds: float,
    ) -> None:
        """Keep what :class:`.engine.ServingEngine` was given."""
        self.repository = Repository()
        self.changed: list[Callable[[], None]] = []
        self._make_lane, self._open_session, self._connect = make_lane, open_session, connect
        self._store, self._watch, self._drain_seconds = store, watch, drain_seconds
        self._budget = Budget(memory, self._idle, self._evict, self._awaited)
        self._threads = ThreadPoolExecutor(LOADS, "vitrify-load")
        self._drains = ThreadPoolExecutor(_DRAINS, "vitrify-drain")
        self._closed = False

    def load(self, settings: ModelSettings, *, default: bool = True, now: bool = False, wanted: bool = False) -> Served:
        """Load a version, or replace it; the same bytes with the same settings are left as they are.

        Args:
            settings: What to load.
            default: Whether requests that name no version go to it from then on.
            now: Whether it is loaded at once although it is lazy.
            wanted: Whether it will be tried again, so that it is shown, with the reason, where it is not found. What
                was never there and was asked for once is not.

        Raises:
            VitrifyError: It could not be loaded; what was there before still is.
        """
        require_sane(settings)
        announced = self.repository.announce(settings)
        try:
            with _one_tree(settings.reference):
                source, artifact = find(settings, self._store, self._connect)
                entry = self.repository.place(settings, source, _served(source, artifact, settings))
        except VitrifyError as error:
            _LOG.error("%s is not served: %s", settings.reference, error)
            if wanted:
                self.repository.missed(settings, why(error))
            elif announced is not None:
                self.repository.forget(announced)
            raise
        with entry.loads:
            same = entry.served.digest == str(source.digest) and entry.settings == settings
            if same and (entry.loaded or (entry.lazy and not now)):
                return entry.served
            if settings.lazy and entry.loaded is None and not now:
                self._later(entry, settings, source, _served(source, artifact, settings))
            else:
                self._bring(entry, settings, source, artifact)
            if default:
                self.repository.set_default(entry)
        self._tell()
        return entry.served

    def submit(self, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> Future[T]:
        """Do something in a thread that may wait, when one is free.

        Raises:
            UnavailableError: The server is stopping.
        """
        try:
            return self._threads.submit(work, *args, **options)
        except RuntimeError as error:
            raise UnavailableError(_STOPPING) from error

    def add(self, served: Served, loaded: Loaded, *, default: bool = True) -> Served:
        """Take in something that answers and is no artifact; what had its place is let go.

        Args:
            served: What it is.
            loaded: What answers.
            default: Whether it answers requests without a version from now on.
        """
        entry = self.repository.add(served)
        with entry.loads:
            self._swap(entry, loaded)
            if default:
                self.repository.set_default(entry)
        self._tell()
        return entry.served

    def wake(self, entry: Entry) -> Future[None]:
        """Return the load of a lazy version, which is begun where it is not yet.

        Raises:
            UnavailableError: It failed a short time ago, or the server is stopping.
        """
        if entry.backoff.seconds:
            served = entry.served
            msg = f"model {served.name!r} version {served.version!r} could not be loaded: {served.reason}"
            raise UnavailableError(msg, remedy=f"try again in {entry.backoff.seconds:.0f} s")
        with self.repository.lock:
            pending = entry.pending
            if pending is None or pending.done():
                pending = entry.pending = self.submit(self._awake, entry)
            return pending

    def unload_soon(self, entry: Entry) -> None:
        """Let a version go, elsewhere."""
        with contextlib.suppress(RuntimeError):  # the server is stopping: everything goes
            self._drains.submit(self.unload, entry)

    def unload(self, entry: Entry) -> None:
        """Answer what a version has taken, and let it go."""
        with entry.loads:
            entry.lazy = False
            old = entry.hand_over(None)
            entry.now("UNLOADING" if old else "UNAVAILABLE", UNLOADED)
            self.repository.left(entry)
            self._tell()
            if old is not None:
                self._close(entry, old)
                self._budget.settle(entry.key, 0)
                entry.now("UNAVAILABLE", UNLOADED)

    def remark(self, name: str, version: str, reason: str) -> None:
        """Say what one should know about a version although it is ready; empty is what was said when it was loaded."""
        entry = self.repository.find(name, version)
        if entry.loaded is not None:
            entry.now("READY", reason or entry.loaded.served.reason)

    def close(self, seconds: float) -> None:
        """Answer everything that was taken, for at most so many seconds, and let all go."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        until = time.monotonic() + seconds
        entries = self.repository.all()
        for artifacts in (False, True):  # what is made of other models ends before them
            some = [entry for entry in entries if (entry.source is not None) is artifacts]
            with ThreadPoolExecutor(max(1, min(len(some), _MOST_ENDS)), "vitrify-end") as threads:
                list(threads.map(lambda entry: self._end(entry, until), some))
        self._drains.shutdown(wait=False)
        give_back()

    def _end(self, entry: Entry, until: float) -> None:
        entry.lazy = False
        before, old = entry.draining, entry.hand_over(None)
        entry.now("UNAVAILABLE", _STOPPING)
        for lane in before:
            lane.close(max(0.0, until - time.monotonic()))
        if old is not None:
            old.close(max(0.0, until - time.monotonic()))
            entry.drained(old.lane)

    def _awake(self, entry: Entry) -> None:
        with entry.loads:
            if entry.loaded is not None or not entry.lazy:
                return
            assert entry.source is not None
            assert entry.settings is not None
            try:
                self._bring(entry, entry.settings, entry.source, None)
            except UnavailableError:  # no room just now: the next request may find some
                raise
            except VitrifyError:
                entry.backoff.failed()
                raise
        self._tell()

    def _later(self, entry: Entry, settings: ModelSettings, source: Source, served: Served) -> None:
        """Let the first request load it."""
        entry.settings, entry.source, entry.lazy = settings, source, True
        entry.served = _in_place(served, entry)
        entry.now("UNAVAILABLE", LAZY)

    def _bring(self, entry: Entry, settings: ModelSettings, source: Source, artifact: Artifact | None) -> None:
        """Open and prove a version, and let it answer; where that fails, everything is as it was but for the reason."""
        if entry.loaded is None:
            entry.now("LOADING")
        held: int | None = None
        try:
            with _one_tree(settings.reference):
                artifact = artifact or source.open()
                held = self._budget.take(entry.key, artifact.size)
                loaded = self._proven(_in_place(_served(source, artifact, settings), entry), settings, artifact)
        except BaseException as error:
            if held is not None:
                self._budget.settle(entry.key, held)
            _LOG.error("%s is not served: %s", settings.reference, error)
            if entry.loaded is not None:
                entry.now("READY", f"not replaced by {settings.reference}: {why(error)}")
            else:
                entry.now("UNAVAILABLE", why(error))
                self.repository.left(entry)
            raise
        entry.settings, entry.source, entry.lazy = settings, source, settings.lazy
        self._swap(entry, loaded)
        self._budget.settle(entry.key, artifact.size)
        entry.backoff.worked()
        if self._closed:  # while it was being opened: nobody else closes it now
            self._end(entry, 0.0)
            raise UnavailableError(_STOPPING)

    def _proven(self, served: Served, settings: ModelSettings, artifact: Artifact) -> Loaded:
        """Return a version that answers."""
        sessions = Sessions(artifact, settings, self._open_session)
        try:
            batching, reason = prove(artifact, sessions, settings.batching)
            served = replace(served, batching=batching, reason=reason)
            lane = open_lane(
                served,
                sessions,
                self._make_lane,
                self._watch,
                more=lambda: self._open_session(artifact, settings),
                sequences=settings.sequences,
            )
            return Loaded(served, lane, sessions.close, lambda: sessions.trouble)
        except BaseException:
            sessions.close()
            raise

    def _swap(self, entry: Entry, loaded: Loaded) -> None:
        """Let the new lane take requests; the old one answers what it has, elsewhere, and is closed."""
        old = entry.hand_over(loaded)
        entry.served = replace(loaded.served, number=entry.served.number)
        entry.now("READY", loaded.served.reason)
        if old is not None:
            self._drains.submit(self._close, entry, old)

    def _close(self, entry: Entry, old: Loaded, *, wait: bool = True) -> None:
        old.close(self._drain_seconds, wait=wait)
        entry.drained(old.lane)
        give_back()

    def _idle(self) -> Iterator[Key]:
        """Yield the versions that could be let go and come back, those first that were asked longest ago."""
        loaded = [(entry, entry.loaded) for entry in self.repository.all() if entry.source is not None]
        idle = [(entry, one) for entry, one in loaded if one is not None and one.idle and not entry.askers]
        for entry, _ in sorted(idle, key=lambda pair: max(pair[1].lane.figures().last, pair[0].served.since)):
            yield entry.key

    def _awaited(self) -> bool:
        """Say whether a version answers those just now that it was loaded for."""
        entries = self.repository.all()
        return not self._closed and any(one.askers and one.loaded is not None and one.source for one in entries)

    def _evict(self, key: Key) -> bool:
        """Let an idle version go, to come back with its next request."""
        entry = self.repository.find(*key)
        if not entry.loads.acquire(blocking=False):
            return False
        try:
            old = entry.loaded
            if old is None or not old.idle or entry.askers:
                return False
            entry.lazy = True
            entry.hand_over(None)
            entry.now("UNAVAILABLE", f"let go to make room; {LAZY}")
            self._close(entry, old, wait=False)  # whoever holds it gets the same again
            return True
        finally:
            entry.loads.release()

    def _tell(self) -> None:
        for changed in self.changed:
            changed()


def why(error: BaseException) -> str:
    """Return a reason that every client may read: nothing of this machine's folders. The log has the whole text."""
    if isinstance(error, ReferenceNotFoundError):
        return "there is no such artifact"
    return said(error)


def _served(source: Source, artifact: Artifact, settings: ModelSettings) -> Served:
    """Return what an artifact is as a version that is not yet there."""
    signature, document = artifact.signature, artifact.document
    inputs, outputs = ports(signature)
    return Served(
        name=source.name,
        version=source.version,
        number=0,
        digest=str(artifact.digest),
        reference=settings.reference,
        platform=f"{document.format}_{settings.runtime or document.runtime}".replace("-", "_"),
        state="LOADING",
        reason="",
        signature=signature,
        inputs=inputs,
        outputs=outputs,
        batching=settings.batching,
        since=time.time(),
        size=artifact.size,
    )


def _in_place(served: Served, entry: Entry) -> Served:
    return replace(served, number=entry.served.number, state=entry.served.state, since=entry.served.since)


@contextlib.contextmanager
def _one_tree(reference: str) -> Iterator[None]:
    """Make one family of errors of whatever a model's library raises while it is opened."""
    try:
        yield
    except VitrifyError:
        raise
    except Exception as error:
        msg = f"{reference!r} cannot be opened: {type(error).__name__}: {error}"
        raise ModelError(msg, remedy="see whether vitrify verify says the same") from error
