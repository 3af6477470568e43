"""State: what was changed while the server ran, in one small file that all its processes share and a restart finds.

Each change names what the settings said when it was made: once they say something else, they count again. So the last
word is always the newest, whether it was said in the file of the settings, in the registry, or over the API.
"""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from vitrify.core.errors import LimitExceededError, MalformedError, StoreError, UsageError
from vitrify.core.nesting import shallow
from vitrify.serve._setting import Setting
from vitrify.serve.settings import (  # noqa: TC001 (msgspec reads the annotations)
    CanarySettings,
    EnsembleSettings,
    ModelSettings,
    RouteSettings,
)
from vitrify.stores._durable import locked, replacing, storing, write_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MOST = 16 * 1024 * 1024
_DEPTH = 64
_REMEMBERED = 200
"""Events."""


class Event(Setting, frozen=True, kw_only=True):
    """Something that was decided.

    Attributes:
        time: By ``time.time()``.
        model: About which model.
        what: ``began``, ``advanced``, ``held``, ``promoted``, ``rolled back``, ``routed``, ``loaded``, ``unloaded``.
        version: About which version of it.
        reason: Why.
        figures: What it was decided by.
        client: Who asked for it; empty where the server decided, or nobody has a name.
    """

    time: float
    model: str
    what: str
    version: str = ""
    reason: str = ""
    figures: dict[str, float] = {}
    client: str = ""


class Routed(Setting, frozen=True, kw_only=True):
    """A route that was changed.

    Attributes:
        base: What the settings said then.
        route: What counts as long as they say it.
    """

    base: RouteSettings | None
    route: RouteSettings


class Kept(Setting, frozen=True, kw_only=True):
    """A model that was loaded or unloaded.

    Attributes:
        base: What the settings said then; None where they named no such model.
        settings: What it is loaded with; None where it was unloaded.
        number: Grows with each load, so that the same settings can be loaded again.
    """

    base: ModelSettings | None
    settings: ModelSettings | None
    number: int = 0


class KeptEnsemble(Setting, frozen=True, kw_only=True):
    """An ensemble that was loaded or unloaded; see :class:`Kept`."""

    base: EnsembleSettings | None
    settings: EnsembleSettings | None
    number: int = 0


class Progress(Setting, frozen=True, kw_only=True):
    """How far a canary is.

    Attributes:
        canary: By which settings; where the route has others, it begins anew.
        old: The weights of the versions that it replaces.
        step: At which of its steps.
        since: When the step began, by ``time.time()``.
    """

    canary: CanarySettings
    old: dict[str, float]
    step: int = 0
    since: float = 0.0


class State(Setting, frozen=True, kw_only=True):
    """All that was changed.

    Attributes:
        routes: By model.
        models: By name and version, as :func:`vitrify.serve.rollout.wanted.key` writes them.
        ensembles: By name and version, likewise.
        canaries: By model.
        previous: The weights before the last promotion, by model.
        events: The last ones, the newest last.
    """

    routes: dict[str, Routed] = {}
    models: dict[str, Kept] = {}
    ensembles: dict[str, KeptEnsemble] = {}
    canaries: dict[str, Progress] = {}
    previous: dict[str, dict[str, float]] = {}
    events: tuple[Event, ...] = ()

    def telling(self, event: Event) -> State:
        """Return the state with one event more; the oldest are forgotten."""
        return self.replace(events=(*self.events, event)[-_REMEMBERED:])


class StateFile:
    """The state, in a file or, without one, in memory. It may be used from any thread and any process.

    Args:
        path: The file; its folder is there. Empty for none. Beside it lie two files that are locked, for a change and
            for as long as a process leads.
    """

    def __init__(self, path: str = "") -> None:
        """Read nothing yet."""
        self._path = Path(path) if path else None
        self._lock = threading.Lock()
        self._state = State()
        self._seen: tuple[int, int, int] | None = None
        self._leading: IO[bytes] | None = None

    def require_writable(self) -> None:
        """Refuse a file that could not be kept: nobody would lead, and so no canary would ever go on.

        Raises:
            UsageError: It is such.
        """
        try:
            if self._path is not None:
                self._path.with_name(f"{self._path.name}.lock").open("ab").close()
        except OSError as error:
            msg = f"the state {self._path} cannot be written: {error.strerror}"
            raise UsageError(msg, remedy="choose another file for state") from error

    @property
    def state(self) -> State:
        """What was last read or written."""
        return self._state

    def read(self) -> bool:
        """Read what others wrote; return whether it is something else than before.

        Raises:
            MalformedError: It is no state; what was known stays.
            StoreError: It cannot be read.
        """
        with self._lock:
            before = self._state
            self._fresh()
            return self._state is not before

    def change(self, change: Callable[[State], State]) -> State:
        """Make a change, whatever others did meanwhile, and return what is now.

        Raises:
            MalformedError: The file is no state, and is left as it is.
            StoreError: It cannot be written. Either way the change counts in this process all the same: what must be
                taken back is not kept up by a disk.
        """
        with self._lock:
            if self._path is None:
                self._state = change(self._state)
                return self._state
            try:
                with _locked(self._path.with_name(f"{self._path.name}.lock")):
                    self._fresh()
                    self._state = change(self._state)
                    self._write(self._path)
            except (StoreError, MalformedError):
                self._state = change(self._state)
                raise
            return self._state

    def leads(self) -> bool:
        """Whether this process decides for all; once it does, it does so until it ends or lets go."""
        if self._path is None or self._leading is not None:
            return True
        try:
            stream = self._path.with_name(f"{self._path.name}.leader").open("ab")
        except OSError:
            return False
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stream.close()
            return False
        self._leading = stream
        return True

    def close(self) -> None:
        """Let another process lead."""
        if self._leading is not None:
            self._leading.close()
            self._leading = None

    def _fresh(self) -> None:
        if self._path is None:
            return
        try:
            with storing("read the server's state"), self._path.open("rb") as stream:
                status = os.fstat(stream.fileno())
                stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
                if stamp == self._seen:
                    return
                text = stream.read(_MOST + 1)
        except StoreError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return
            raise
        if len(text) > _MOST:
            msg = f"the state {self._path} has more than {_MOST} bytes"
            raise LimitExceededError(msg, remedy="move it away")
        try:
            self._state = msgspec.json.decode(shallow(text, _DEPTH), type=State)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            msg = f"the state {self._path} is not what this server writes: {error}"
            raise MalformedError(
                msg, remedy="move it away; what was changed while the server ran is then lost"
            ) from error
        self._seen = stamp

    def _write(self, path: Path) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        with storing("keep the server's state"):
            temporary.unlink(missing_ok=True)
            with replacing(path, temporary) as descriptor:
                write_all(descriptor, msgspec.json.encode(self._state))
                status = os.fstat(descriptor)
        self._seen = (status.st_mtime_ns, status.st_size, status.st_ino)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with storing("lock the server's state"):
        path.touch()
        with locked(path):
            yield
