"""Rollout: what the server asks which version answers, and whom it shows what was answered.

The hot path is one look into a table that is made anew whenever a route, a canary's step or the versions change; the
native plane is given the same table.
"""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import ConflictError, ReferenceNotFoundError, VitrifyError
from vitrify.serve.models.sequences import ID as SEQUENCE
from vitrify.serve.rollout import wanted
from vitrify.serve.rollout.canaries import Canaries, old_weights
from vitrify.serve.rollout.shadow import Shadows
from vitrify.serve.rollout.shares import Shares, among, position, with_canary
from vitrify.serve.rollout.state import Event, State, StateFile
from vitrify.serve.rollout.ticking import Ticking
from vitrify.serve.settings import CanarySettings, RouteSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from vitrify.serve.models import Served
    from vitrify.serve.models.engine import ServingEngine
    from vitrify.serve.rollout.shadow import Ask
    from vitrify.serve.rollout.shares import Weights
    from vitrify.serve.values import Done, Infer

TICK = 1.0
"""Seconds between two looks at the canaries."""


class Rollout:
    """The routes of all models. It may be used from any thread.

    Args:
        routes: What the settings say, by model.
        changed: Told of a model's shares whenever they change; empty where the version loaded last has all.
        state: Where changes are kept.
        say: The log: an event and its facts.
        fault: Told what goes wrong in a thread of the rollout: its name and the error.
    """

    def __init__(
        self,
        routes: Mapping[str, RouteSettings],
        *,
        changed: Callable[[str, Weights], None] = lambda _model, _weights: None,
        state: StateFile | None = None,
        say: Callable[..., None] = lambda _event, **_facts: None,
        fault: Callable[[str, BaseException], None] = lambda _id, _error: None,
    ) -> None:
        """Take the routes; they do nothing before there is an engine."""
        self.state = state or StateFile()
        self.canaries = Canaries(self)
        self.shadows = Shadows(fault)
        self._base, self._changed, self._say, self._fault = dict(routes), changed, say, fault
        self._ticking: Ticking | None = None
        self._lock = threading.RLock()
        self._engine: ServingEngine | None = None
        self._shares: dict[str, Shares] = {}
        self._told: dict[str, Weights] = {}
        self._routes = wanted.routes(self._base, self.state.state)

    # What the engine asks

    def choose(self, request: Infer) -> str:
        """Return the version that answers a request; empty for the one that was loaded last.

        A sequence is a key by itself: its requests belong to one session of one version.
        """
        shares = self._shares.get(request.model)
        if shares is None:
            return ""
        key = request.key
        if request.parameters and (sequence := request.parameters.get(SEQUENCE)):
            key = str(sequence)
        return shares.at(position(key) if key else random.random())  # noqa: S311 (no secret)

    def watch(self, done: Done) -> None:
        """See a batch: keep samples of it for a canary, and copy it for shadows."""
        self.canaries.see(done)
        self.shadows.see(done)

    # What the server asks

    def attach(self, engine: ServingEngine) -> None:
        """Take the engine, whose versions come and go."""
        self._engine = engine
        engine.when_changed(self.refresh)
        self.refresh()

    def start(self, ask: Ask) -> None:
        """Look after the canaries from now on, and give shadows their copies.

        Args:
            ask: Asks the engine, in the server's event loop.
        """
        self.shadows.start(ask, self._busy)
        self._ticking = Ticking("vitrify-rollout", TICK, self.tick, self._fault)
        self._ticking.start()

    def close(self, seconds: float) -> None:
        """End the threads."""
        if self._ticking is not None:
            self._ticking.close(seconds)
        self.shadows.close(seconds)
        self.state.close()

    def tick(self) -> None:
        """Look at the versions, of which one may have stopped answering by itself, and at the canaries."""
        self.refresh()
        self.canaries.tick()

    @property
    def engine(self) -> ServingEngine:
        """The engine."""
        assert self._engine is not None, "nobody has attached an engine"
        return self._engine

    @property
    def base(self) -> dict[str, RouteSettings]:
        """What the settings and the registry say, by model."""
        return dict(self._base)

    def take(self, routes: Mapping[str, RouteSettings]) -> None:
        """Take other routes from the settings or the registry; what was changed over the API counts more.

        Raises:
            StoreError: The state cannot be kept; it counts in this process until it ends.
        """
        with self._lock:
            before, self._base = self._base, dict(routes)
        if wanted.forgotten_routes(self.state.state, before, routes) is self.state.state:
            self.refresh()
        else:
            self.change(lambda state: wanted.forgotten_routes(state, before, routes))

    def refresh(self) -> None:
        """Make the tables anew, and tell whoever must know what has changed."""
        with self._lock:
            if self._engine is None:
                return
            state = self.state.state
            self._routes = wanted.routes(self._base, state)
            models: dict[str, list[Served]] = {}
            for served in self._engine.index():
                models.setdefault(served.name, []).append(served)
            shares = {model: self._table(model, versions, state) for model, versions in models.items()}
            self._shares = {model: Shares(weights) for model, weights in shares.items() if weights}
            self.canaries.take(self._routes, state)
            self.shadows.take({model: route.shadow for model, route in self._routes.items()})
            for model in self._told.keys() | self._shares.keys():
                weights = self._shares[model].weights if model in self._shares else ()
                if self._told.get(model, ()) != weights:
                    self._told[model] = weights
                    self._changed(model, weights)

    def _table(self, model: str, versions: list[Served], state: State) -> Weights:
        """Return the shares of those versions that answer; empty where there is nothing to choose."""
        answering = [one.version for one in versions if one.state == "READY" or one.lazy]
        route = self._routes.get(model)
        weights: Mapping[str, float] = {}
        if route is not None:
            weights = route.weights
            if route.canary is not None:
                progress = state.canaries.get(model)
                weights = old_weights(route, versions)
                if progress is not None and progress.canary == route.canary:
                    step = min(progress.step, len(route.canary.steps) - 1)
                    weights = with_canary(progress.old, route.canary.version, route.canary.steps[step])
        found = among(weights, answering)
        if found or not answering or len(versions) < 2:  # noqa: PLR2004 (of one there is nothing to choose)
            return found
        # Said in so many words, so that both planes mean the same version.
        return ((self.engine.default(model), 1.0),)

    def _busy(self, model: str, version: str) -> bool:
        try:
            return self.engine.figures(model, version).waiting > 0
        except ReferenceNotFoundError:
            return False  # whoever asks it is told so

    # What an administrator asks

    def route(self, model: str) -> RouteSettings:
        """Return the route that counts; without any, an empty one.

        Raises:
            ReferenceNotFoundError: There is no such model, and no route for it.
        """
        with self._lock:
            found = self._routes.get(model)
        if found is None:
            self.engine.served(model)
            return RouteSettings()
        return found

    def shares(self, model: str) -> dict[str, float]:
        """Return the share of the requests that each version of a model has now."""
        shares = self._shares.get(model)
        if shares is not None:
            return shares.fractions()
        try:
            return {self.engine.default(model): 1.0}
        except ReferenceNotFoundError:
            return {}

    def set_route(
        self, model: str, route: RouteSettings, *, what: str = "routed", client: str = "", reason: str = ""
    ) -> None:
        """Give a model another route, from now on and after a restart.

        Raises:
            ReferenceNotFoundError: No such model is served.
            StoreError: It cannot be kept; it counts in this process until it ends.
        """
        self.engine.served(model)
        event = Event(time=time.time(), model=model, what=what, reason=reason, client=client, figures=route.weights)
        self.change(lambda state: wanted.routed(state, self._base, model, route, event), event)

    def begin(self, model: str, canary: CanarySettings, *, client: str = "") -> None:
        """Let a version take over step by step.

        Raises:
            ReferenceNotFoundError: There is no such model or version.
            ConflictError: There is a canary already.
        """
        route = self.route(model)
        self.engine.served(model, canary.version)
        if route.canary is not None:
            msg = f"version {route.canary.version!r} of {model!r} is a canary already"
            raise ConflictError(msg, remedy="promote it or roll it back first")
        if route.weights.keys() == {canary.version}:
            msg = f"version {canary.version!r} of {model!r} has all requests already"
            raise ConflictError(msg, remedy="name another version")
        what = f"canary {canary.version}"
        self.set_route(model, route.replace(canary=canary), client=client, reason=what)

    def promote(self, model: str, version: str = "", *, client: str = "", reason: str = "by hand") -> None:
        """Give a version all requests: the canary, or the one that is named.

        Raises:
            ReferenceNotFoundError: There is no such model or version.
            ConflictError: There is no canary, and no version is named; or the version does not answer.
        """
        route = self.route(model)
        if not version and route.canary is None:
            msg = f"{model!r} has no canary"
            raise ConflictError(msg, remedy="name the version that is to have all requests")
        version = version or (route.canary.version if route.canary else "")
        self._require_answers(model, [version])
        self._end(
            model, {version: 1.0}, Event(time=0, model=model, what="promoted", version=version, reason=reason), client
        )

    def roll_back(self, model: str, *, client: str = "", reason: str = "by hand") -> None:
        """Give the canary's share back to the versions before it; without a canary, undo the last promotion.

        Raises:
            ReferenceNotFoundError: There is no such model.
            ConflictError: There is nothing to go back to.
        """
        route, state = self.route(model), self.state.state
        before = state.previous.get(model, {}) if route.canary is None else self.canaries.before(model)
        if not before:
            msg = f"{model!r} has no version to go back to"
            raise ConflictError(msg, remedy="say which versions answer: vitrify rollout weights")
        if route.canary is None:
            self._require_answers(model, before)
        version = route.canary.version if route.canary else ""
        self._end(model, before, Event(time=0, model=model, what="rolled back", version=version, reason=reason), client)

    def _require_answers(self, model: str, versions: Iterable[str]) -> None:
        """Refuse versions none of which answers: their share would go elsewhere.

        Raises:
            ReferenceNotFoundError: There is no such version.
            ConflictError: None answers.
        """
        some = [self.engine.served(model, version) for version in versions]
        if not any(one.state == "READY" or one.lazy for one in some):
            named = ", ".join(f"{one.version!r} ({one.state.lower()})" for one in some)
            msg = f"of {model!r} no version answers that is to have all requests: {named}"
            raise ConflictError(msg, remedy="load it first: vitrify rollout load")

    def _end(self, model: str, weights: dict[str, float], event: Event, client: str) -> None:
        """Send requests by these weights, without a canary."""
        event = event.replace(time=time.time(), client=client)
        before = self.canaries.before(model) or self.shares(model)
        route = self.route(model).replace(weights=weights, canary=None)

        def end(state: State) -> State:
            previous = {name: one for name, one in state.previous.items() if name != model}
            if event.what == "promoted":
                previous[model] = before
            return wanted.routed(state, self._base, model, route, event).replace(previous=previous)

        self.change(end, event)

    def change(self, change: Callable[[State], State], event: Event | None = None) -> None:
        """Change the state, let the change count, and say so.

        Raises:
            StoreError: It cannot be kept; it counts in this process until it ends.
        """
        try:
            self.state.change(change)
        finally:
            self.refresh()
            if event is not None and event in self.state.state.events:
                self.told(event)

    def change_anyhow(self, change: Callable[[State], State], event: Event | None = None) -> None:
        """Change the state as :meth:`change`; where it cannot be kept, only the log is told."""
        try:
            self.change(change, event)
        except VitrifyError as error:
            self._say("state not kept", level="error", error=str(error))

    def told(self, event: Event) -> None:
        """Say an event in the log."""
        facts: dict[str, Any] = {"model": event.model, "what": event.what, "version": event.version}
        facts |= {"reason": event.reason, "client": event.client, "figures": event.figures}
        self._say("rollout", **{name: fact for name, fact in facts.items() if fact})
