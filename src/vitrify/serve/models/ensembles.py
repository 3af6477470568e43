"""Ensembles: loaded, unloaded and loaded again like models, and kept as their models come, change and go.

An ensemble is loaded when all its models are there and fit together. When one of them is replaced, the ensemble is
made anew with it, under another digest; what it has taken is answered as it began.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from vitrify.core.errors import ReferenceNotFoundError, UnavailableError, UsageError
from vitrify.serve.models import Served
from vitrify.serve.models._graph import ordered
from vitrify.serve.models.ensemble import BATCHING, EnsembleLane
from vitrify.serve.models.identity import make
from vitrify.serve.models.limits import require_sane_ensemble
from vitrify.serve.ports import ports

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.serve.lanes import Watch
    from vitrify.serve.models.engine import ServingEngine
    from vitrify.serve.models.identity import Made
    from vitrify.serve.settings import EnsembleSettings

P = ParamSpec("P")
T = TypeVar("T")
PLATFORM = "ensemble"

Key = tuple[str, str]
"""Name and version."""


class Ensembles:
    """All ensembles of an engine. What changes them is done one after the other, in a thread.

    Args:
        engine: Serves them, and their models.
        watch: Sees each answer.
    """

    def __init__(self, engine: ServingEngine, watch: Watch | None = None) -> None:
        self._engine, self._watch = engine, watch
        self._known: dict[Key, EnsembleSettings] = {}
        self._made: dict[Key, tuple[EnsembleSettings, Made]] = {}
        self._troubles: dict[Key, str] = {}
        self._thread = ThreadPoolExecutor(1, "vitrify-ensembles")
        self._asked = threading.Event()

    def settings(self, name: str) -> tuple[EnsembleSettings, ...]:
        """Return what the versions of an ensemble are, or were when they were unloaded; empty for none."""
        return tuple(one for one in tuple(self._known.values()) if one.name == name)

    def load(self, settings: EnsembleSettings) -> Future[Served]:
        """Serve an ensemble, or serve it as it is now; ends with why it cannot be, and then nothing has changed.

        Raises:
            UnavailableError: The server is stopping.
        """
        return self._submit(self._load, settings)

    def forget(self, name: str, version: str = "") -> None:
        """Bring it back no more when its models change: it is being unloaded. It may wait.

        Raises:
            UnavailableError: The server is stopping.
        """
        self._submit(self._forget, name, version).result()

    def changed(self) -> None:
        """Look again, elsewhere: whoever tells of a change holds locks. Many changes are one look."""
        if not self._made or self._asked.is_set():
            return
        self._asked.set()
        try:
            self._thread.submit(self._look)
        except RuntimeError:  # the server is stopping
            return

    def close(self) -> None:
        """Follow changes no longer; the engine lets the ensembles go."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _submit(self, do: Callable[P, T], *given: P.args, **more: P.kwargs) -> Future[T]:
        try:
            return self._thread.submit(do, *given, **more)
        except RuntimeError as error:
            raise UnavailableError("the server is stopping") from error

    def _load(self, settings: EnsembleSettings) -> Served:
        require_sane_ensemble(settings)
        key = _key(settings)
        others = [one for at, (one, _) in self._made.items() if at != key]
        ordered([*others, settings])
        self._require_free(settings.name)
        made = make(settings, self._engine.served)
        if missing := self._missing(settings):
            msg = f"ensemble {settings.name!r} cannot be answered: {missing}"
            raise UnavailableError(msg, remedy="load the models that it asks, then load it again")
        self._known[key] = settings
        return self._serve(settings, made)

    def _forget(self, name: str, version: str) -> None:
        for key in [key for key in self._made if key[0] == name and version in {"", key[1]}]:
            del self._made[key]
            self._troubles.pop(key, None)

    def _look(self) -> None:
        """Serve each ensemble as its models are now; those that ask other ensembles after these."""
        self._asked.clear()
        for one in ordered([settings for settings, _ in self._made.values()]):
            key = _key(one)
            try:
                made = make(one, self._engine.served)
            except UsageError as error:
                self._troubles[key] = error.message
            else:
                self._serve(one, made, default=False)

    def _serve(self, settings: EnsembleSettings, made: Made, *, default: bool = True) -> Served:
        key = _key(settings)
        self._troubles.pop(key, None)
        if self._made.get(key) == (settings, made):
            return self._engine.served(*key)
        self._made[key] = settings, made
        lane = EnsembleLane(settings, made, self._engine, self._watch)
        return self._engine.add(
            _served(settings, made), lane, trouble=partial(self._trouble, settings), default=default
        )

    def _require_free(self, name: str) -> None:
        """Refuse a name that a model has.

        Raises:
            UsageError: One has.
        """
        for served in self._engine.index():
            gone = served.state == "UNAVAILABLE" and not served.lazy
            if served.name == name and served.platform != PLATFORM and not gone:
                msg = f"an ensemble is to be called {name!r}, as a model is"
                raise UsageError(msg, remedy="give it another name, or unload the model")

    def _trouble(self, one: EnsembleSettings) -> str:
        """Say why an ensemble does not answer just now: a model of it does not."""
        return self._troubles.get(_key(one)) or self._missing(one)

    def _missing(self, one: EnsembleSettings) -> str:
        """Say which model of an ensemble does not answer; empty where all do, or will with their next request."""
        for name, step in one.steps.items():
            try:
                served = self._engine.served(step.model, step.version)
            except ReferenceNotFoundError as error:
                return f"step {name!r}: {error.message}"
            if served.state != "READY" and not served.lazy:
                why = f": {served.reason}" if served.reason else ""
                return f"step {name!r}: model {step.model!r} is {served.state.lower()}{why}"
        return ""


def _key(settings: EnsembleSettings) -> Key:
    return settings.name, settings.version


def _served(settings: EnsembleSettings, made: Made) -> Served:
    signature = made.graph.signature
    inputs, outputs = ports(signature)
    return Served(
        name=settings.name,
        version=settings.version,
        number=0,
        digest=made.digest,
        reference=settings.name,
        platform=PLATFORM,
        state="READY",
        reason="",
        signature=signature,
        inputs=inputs,
        outputs=outputs,
        batching=BATCHING,
        since=time.time(),
        size=0,
        graph=made.graph,
    )
