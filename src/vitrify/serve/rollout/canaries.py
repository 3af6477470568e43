"""Canaries: versions that take over step by step, looked after in a thread; what is decided is an event.

Of several processes of a server one decides for all, by what it has itself answered: the system spreads connections
evenly, so that is a fair sample. Nothing is written to a registry: which version its aliases name is for people to say.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import ReferenceNotFoundError
from vitrify.serve.models.figures import together
from vitrify.serve.rollout.drift import distance
from vitrify.serve.rollout.judging import Side, Verdict, judge, side
from vitrify.serve.rollout.samples import Samples
from vitrify.serve.rollout.shadow import CLIENT
from vitrify.serve.rollout.state import Event, Progress, State
from vitrify.serve.rollout.wanted import routed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.serve.lanes import Figures
    from vitrify.serve.models import Served
    from vitrify.serve.rollout.rollout import Rollout
    from vitrify.serve.settings import CanarySettings, RouteSettings
    from vitrify.serve.values import Done


@dataclass
class _Step:
    """A step of a canary, as far as this process has seen it.

    Attributes:
        progress: Which step.
        samples: By version.
        before: The figures by version when this process first looked at it.
        verdict: The last one.
    """

    progress: Progress
    samples: dict[str, Samples]
    before: dict[str, Figures] = field(default_factory=dict)
    verdict: Verdict | None = None


class Canaries:
    """The canaries of all models. It may be used from any thread.

    Args:
        rollout: Whose routes they are.
    """

    def __init__(self, rollout: Rollout) -> None:
        """Start without any."""
        self._rollout = rollout
        self._steps: dict[str, _Step] = {}
        self._routes: dict[str, RouteSettings] = {}
        self._lock = threading.Lock()

    def see(self, done: Done) -> None:
        """Keep samples of a batch, where somebody asks for them. Quick, and it never raises."""
        step = self._steps.get(done.model)
        samples = step.samples.get(done.version) if step is not None else None
        if samples is not None:
            samples.add(done, CLIENT)

    def take(self, routes: Mapping[str, RouteSettings], state: State) -> None:
        """Take the routes that count, and how far each canary is; a step that is new begins with fresh samples."""
        canaries = {model: route for model, route in routes.items() if route.canary is not None}
        steps = {}
        for model, route in canaries.items():
            progress, known = state.canaries.get(model), self._steps.get(model)
            if progress is None or progress.canary != route.canary:
                continue
            if known is None or known.progress != progress:
                versions = {*progress.old, progress.canary.version}
                known = _Step(progress, {version: Samples() for version in versions})
                known.before = self._figures(model, versions)
            steps[model] = known
        self._routes, self._steps = canaries, steps

    def before(self, model: str) -> dict[str, float]:
        """Return the weights that a canary's versions before it had; empty where there is no canary."""
        step, route = self._steps.get(model), self._routes.get(model)
        if step is not None:
            return dict(step.progress.old)
        return {} if route is None else old_weights(route, _versions(self._rollout, model))

    def show(self, model: str) -> dict[str, Any] | None:
        """Return how far a canary is, as JSON; None where there is none."""
        route, step = self._routes.get(model), self._steps.get(model)
        if route is None or route.canary is None:
            return None
        shown: dict[str, Any] = {"version": route.canary.version, "steps": route.canary.steps}
        if step is None:
            return {**shown, "step": None, "reason": "it has not begun"}
        shown |= {"step": step.progress.step, "old": step.progress.old, "since": step.progress.since}
        verdict = step.verdict
        return shown if verdict is None else {**shown, "reason": verdict.reason, "figures": verdict.figures}

    def tick(self) -> None:
        """Look at each canary once: begin it, let it go on, wait, or take it back."""
        if not (self._routes or self._rollout.state.state.canaries) or not self._rollout.state.leads():
            return
        with self._lock:
            self._forget()
            for model, route in list(self._routes.items()):
                step = self._steps.get(model)
                if step is None:
                    self._begin(model, route)
                else:
                    self._judge(model, step)

    def _forget(self) -> None:
        """Forget how far canaries were that are gone: one that comes back begins anew."""
        wanted = {model: route.canary for model, route in self._routes.items()}

        def forget(state: State) -> State:
            kept = {model: one for model, one in state.canaries.items() if one.canary == wanted.get(model)}
            return state if len(kept) == len(state.canaries) else state.replace(canaries=kept)

        if forget(self._rollout.state.state) is not self._rollout.state.state:
            self._rollout.change_anyhow(forget)

    def _begin(self, model: str, route: RouteSettings) -> None:
        versions = _versions(self._rollout, model)
        old, canary = old_weights(route, versions), route.canary
        assert canary is not None
        there = {one.version for one in versions if _answers(one)}
        if not old or canary.version not in there:
            return
        now = time.time()
        progress = Progress(canary=canary, old=old, step=0, since=now)
        reason = f"step 1 of {len(canary.steps)}: {canary.steps[0]:.2%} of the requests"
        event = Event(time=now, model=model, what="began", version=canary.version, reason=reason)
        self._move(model, None, progress, event)

    def _judge(self, model: str, step: _Step) -> None:
        progress, canary = step.progress, step.progress.canary
        now = self._figures(model, step.samples)
        new = _side(step, now, [canary.version])
        old = _side(step, now, progress.old)
        apart = None
        if canary.drift:
            apart = distance(_outputs(step, progress.old), _outputs(step, [canary.version]))
        verdict = judge(old, new, apart, time.time() - progress.since, canary)
        if verdict.action != "roll back" and not self._answers(model, canary.version):
            reason = f"version {canary.version!r} does not answer"
            verdict = Verdict("hold", "absent", reason, verdict.figures)
        before, step.verdict = step.verdict, verdict
        if verdict.action == "hold":
            if verdict.cause != "waiting" and (before is None or before.cause != verdict.cause):
                event = _event(model, "held", canary, verdict)
                self._rollout.change_anyhow(lambda state: state.telling(event), event)
        elif verdict.action == "roll back":
            self._end(model, progress, progress.old, _event(model, "rolled back", canary, verdict))
        elif progress.step + 1 < len(canary.steps):
            further = progress.replace(step=progress.step + 1, since=time.time())
            event = _event(model, "advanced", canary, verdict)
            share = f"step {further.step + 1} of {len(canary.steps)}: {canary.steps[further.step]:.2%} of the requests"
            self._move(model, progress, further, event.replace(reason=f"{event.reason}; {share}"))
        else:
            self._end(model, progress, {canary.version: 1.0}, _event(model, "promoted", canary, verdict))

    def _move(self, model: str, before: Progress | None, progress: Progress, event: Event) -> None:
        """Go to a step, unless somebody else has decided meanwhile."""

        def move(state: State) -> State:
            known = state.canaries.get(model)
            if known != before and not (before is None and known is not None and known.canary != progress.canary):
                return state
            return state.replace(canaries={**state.canaries, model: progress}).telling(event)

        self._rollout.change_anyhow(move, event)

    def _end(self, model: str, progress: Progress, weights: dict[str, float], event: Event) -> None:
        """Send requests by these weights, without the canary, unless somebody else has decided meanwhile."""
        rollout = self._rollout
        route = rollout.route(model).replace(weights=weights, canary=None)

        def end(state: State) -> State:
            if state.canaries.get(model) != progress:
                return state
            previous = {name: one for name, one in state.previous.items() if name != model}
            if event.what == "promoted":
                previous[model] = progress.old
            return routed(state, rollout.base, model, route, event).replace(previous=previous)

        rollout.change_anyhow(end, event)

    def _figures(self, model: str, versions: Iterable[str]) -> dict[str, Figures]:
        found = {}
        for version in versions:
            try:
                found[version] = self._rollout.engine.figures(model, version)
            except ReferenceNotFoundError:
                continue
        return found

    def _answers(self, model: str, version: str) -> bool:
        return any(one.version == version and _answers(one) for one in _versions(self._rollout, model))


def old_weights(route: RouteSettings, versions: Iterable[Served]) -> dict[str, float]:
    """Return the weights that a route has without its canary: those that it names, else the newest other version.

    Args:
        route: With a canary.
        versions: Of the model.
    """
    assert route.canary is not None
    new = route.canary.version
    named = {version: weight for version, weight in route.weights.items() if version != new and weight > 0}
    if named:
        return named
    others = [one for one in versions if one.version != new and _answers(one)]
    return {max(others, key=lambda one: one.number).version: 1.0} if others else {}


def _answers(served: Served) -> bool:
    """Whether a version answers, or will with the next request."""
    return served.state == "READY" or served.lazy


def _versions(rollout: Rollout, model: str) -> list[Served]:
    return [one for one in rollout.engine.index() if one.name == model]


def _event(model: str, what: str, canary: CanarySettings, verdict: Verdict) -> Event:
    now = time.time()
    return Event(
        time=now, model=model, what=what, version=canary.version, reason=verdict.reason, figures=verdict.figures
    )


def _side(step: _Step, now: Mapping[str, Figures], versions: Iterable[str]) -> Side:
    """Return what some versions have done together since the step began."""
    there = [version for version in versions if version in now]
    before, after = ({name: one for name, one in figures.items() if name in there} for figures in (step.before, now))
    latencies = [step.samples[version].latencies() for version in there]
    return side(together(before.values()), together(after.values()), np.concatenate([np.empty(0), *latencies]))


def _outputs(step: _Step, versions: Iterable[str]) -> dict[str, Any]:
    """Return the samples of some versions together."""
    found: dict[str, list[Any]] = {}
    for version in versions:
        for name, rows in step.samples[version].outputs().items():
            found.setdefault(name, []).append(rows)
    return {
        name: np.concatenate([one for one in rows if one.shape[1] == rows[0].shape[1]]) for name, rows in found.items()
    }
