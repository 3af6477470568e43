"""What is wanted: what follows from the settings, the registry, and what was changed while the server ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.serve.models.limits import require_sane
from vitrify.serve.models.opening import label
from vitrify.serve.rollout.state import Event, Kept, Routed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vitrify.serve.rollout.state import State
    from vitrify.serve.settings import ModelSettings, RouteSettings, Settings

Models = dict[str, tuple["ModelSettings", int]]
"""Settings by key, with a number that changes when they are to be loaded again."""


def key(settings: ModelSettings) -> str:
    """Return what tells one version from another, as far as the settings' own text says it.

    Raises:
        UsageError: The reference is none.
    """
    return ":".join(label(settings))


def validate(settings: Settings) -> None:
    """Refuse settings of which something could never be loaded.

    Raises:
        UsageError: There is such.
    """
    for one in settings.models:
        require_sane(one)
        label(one)


def routes(base: Mapping[str, RouteSettings], state: State) -> dict[str, RouteSettings]:
    """Return the routes that count, by model.

    Args:
        base: What the settings and the registry say.
        state: What was changed.
    """
    changed = {model: one.route for model, one in state.routes.items() if base.get(model) == one.base}
    return {**base, **changed}


def models(base: Settings, state: State) -> Models:
    """Return the models that are to be served."""
    named = {key(one): one for one in base.models}
    found: Models = {at: (one, 0) for at, one in named.items()}
    for at, kept in state.models.items():
        if named.get(at) != kept.base:
            continue
        if kept.settings is None:
            found.pop(at, None)
        else:
            found[at] = (kept.settings, kept.number)
    return found


def loaded(state: State, base: Settings, settings: ModelSettings) -> State:
    """Return the state in which a model is served."""
    named = {key(one): one for one in base.models}
    at = key(settings)
    number = 1 + max((one.number for one in state.models.values()), default=0)
    return state.replace(models={**state.models, at: Kept(base=named.get(at), settings=settings, number=number)})


def unloaded(state: State, base: Settings, gone: Callable[[ModelSettings], bool]) -> State:
    """Return the state in which some models are not served."""
    named = {key(one): one for one in base.models}
    kept = dict(state.models)
    for at, (settings, number) in models(base, state).items():
        if gone(settings):
            kept[at] = Kept(base=named.get(at), settings=None, number=number)
    # What the settings do not name need not be remembered as gone.
    kept = {at: one for at, one in kept.items() if one.settings is not None or one.base is not None}
    return state.replace(models=kept)


def routed(state: State, base: Mapping[str, RouteSettings], model: str, route: RouteSettings, event: Event) -> State:
    """Return the state in which a model has a route; a canary that it no longer has is forgotten."""
    canaries = {name: one for name, one in state.canaries.items() if name != model or one.canary == route.canary}
    routes = {**state.routes, model: Routed(base=base.get(model), route=route)}
    return state.replace(routes=routes, canaries=canaries).telling(event)


def forgotten(state: State, before: Settings, after: Settings) -> State:
    """Return the state once the settings have changed: models that they say anew are no longer overruled."""
    ones, others = ({key(one): one for one in settings.models} for settings in (before, after))
    gone = [at for at, kept in state.models.items() if kept.base == ones.get(at) != others.get(at)]
    return state.replace(models={at: kept for at, kept in state.models.items() if at not in gone}) if gone else state


def forgotten_routes(state: State, before: Mapping[str, RouteSettings], after: Mapping[str, RouteSettings]) -> State:
    """Return the state once the settings or the registry have changed: routes that they say anew count again."""
    gone = [model for model, one in state.routes.items() if one.base == before.get(model) != after.get(model)]
    return state.replace(routes={at: one for at, one in state.routes.items() if at not in gone}) if gone else state
