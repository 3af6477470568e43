"""What is wanted: what follows from the settings, the registry, and what was changed while the server ran."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from vitrify.core.errors import UsageError
from vitrify.serve.models._graph import ordered
from vitrify.serve.models.limits import require_sane, require_sane_ensemble
from vitrify.serve.models.opening import label
from vitrify.serve.rollout.state import Event, Kept, KeptEnsemble, Routed
from vitrify.serve.settings import EnsembleSettings, ModelSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vitrify.serve.rollout.state import State
    from vitrify.serve.settings import Loadable, RouteSettings, Settings

Wanted = dict[str, tuple["Loadable", int]]
"""Settings by key, with a number that changes when they are to be loaded again; ensembles come last."""


def key(settings: Loadable) -> str:
    """Return what tells one version from another, as far as the settings' own text says it.

    Raises:
        UsageError: The reference is none.
    """
    return ":".join(called(settings))


def called(settings: Loadable) -> tuple[str, str]:
    """Return the name and the version, likewise.

    Raises:
        UsageError: The reference is none.
    """
    return (settings.name, settings.version) if isinstance(settings, EnsembleSettings) else label(settings)


def validate(settings: Settings) -> None:
    """Refuse settings of which something could never be loaded.

    Raises:
        UsageError: There is such.
    """
    for model in settings.models:
        require_sane(model)
    for ensemble in settings.ensembles:
        require_sane_ensemble(ensemble)
    models = {called(one)[0] for one in settings.models}
    twice = {at for at, times in Counter(map(key, settings.ensembles)).items() if times > 1}
    if taken := sorted(twice | models & {one.name for one in settings.ensembles}):
        msg = f"an ensemble is called as something else is: {', '.join(taken)}"
        raise UsageError(msg, remedy="give each a name of its own, or versions of one name each a version of its own")
    ordered(settings.ensembles)


def routes(base: Mapping[str, RouteSettings], state: State) -> dict[str, RouteSettings]:
    """Return the routes that count, by model.

    Args:
        base: What the settings and the registry say.
        state: What was changed.
    """
    changed = {model: one.route for model, one in state.routes.items() if base.get(model) == one.base}
    return {**base, **changed}


def everything(base: Settings, state: State) -> Wanted:
    """Return the models and the ensembles that are to be served."""
    named = _named(base)
    found: Wanted = {at: (one, 0) for at, one in named.items()}
    for at, kept in _kept(state).items():
        if named.get(at) != kept.base:
            continue
        if kept.settings is None:
            found.pop(at, None)
        else:
            found[at] = (kept.settings, kept.number)
    return dict(sorted(found.items(), key=lambda item: isinstance(item[1][0], EnsembleSettings)))


def loaded(state: State, base: Settings, settings: Loadable) -> State:
    """Return the state in which something is served."""
    kept = _kept(state)
    number = 1 + max((one.number for one in kept.values()), default=0)
    at = key(settings)
    return _with(state, {**kept, at: _keeping(_named(base).get(at), settings, number)})


def unloaded(state: State, base: Settings, gone: Callable[[Loadable], bool]) -> State:
    """Return the state in which some models or ensembles are not served."""
    named, kept = _named(base), _kept(state)
    for at, (settings, number) in everything(base, state).items():
        if gone(settings):
            kept[at] = _keeping(named.get(at), settings, number).replace(settings=None)
    # What the settings do not name need not be remembered as gone.
    return _with(state, {at: one for at, one in kept.items() if one.settings is not None or one.base is not None})


def routed(state: State, base: Mapping[str, RouteSettings], model: str, route: RouteSettings, event: Event) -> State:
    """Return the state in which a model has a route; a canary that it no longer has is forgotten."""
    canaries = {name: one for name, one in state.canaries.items() if name != model or one.canary == route.canary}
    routes = {**state.routes, model: Routed(base=base.get(model), route=route)}
    return state.replace(routes=routes, canaries=canaries).telling(event)


def forgotten(state: State, before: Settings, after: Settings) -> State:
    """Return the state once the settings have changed: what they say anew is no longer overruled."""
    ones, others = _named(before), _named(after)
    kept = _kept(state)
    left = {at: one for at, one in kept.items() if not one.base == ones.get(at) != others.get(at)}
    return _with(state, left) if len(left) < len(kept) else state


def forgotten_routes(state: State, before: Mapping[str, RouteSettings], after: Mapping[str, RouteSettings]) -> State:
    """Return the state once the settings or the registry have changed: routes that they say anew count again."""
    gone = [model for model, one in state.routes.items() if one.base == before.get(model) != after.get(model)]
    return state.replace(routes={at: one for at, one in state.routes.items() if at not in gone}) if gone else state


def _named(settings: Settings) -> dict[str, Loadable]:
    everything: tuple[Loadable, ...] = (*settings.models, *settings.ensembles)
    return {key(one): one for one in everything}


def _kept(state: State) -> dict[str, Kept | KeptEnsemble]:
    return {**state.models, **state.ensembles}


def _with(state: State, kept: Mapping[str, Kept | KeptEnsemble]) -> State:
    models = {at: one for at, one in kept.items() if isinstance(one, Kept)}
    ensembles = {at: one for at, one in kept.items() if isinstance(one, KeptEnsemble)}
    return state.replace(models=models, ensembles=ensembles)


def _keeping(base: Loadable | None, settings: Loadable, number: int) -> Kept | KeptEnsemble:
    """Return what is remembered of a load. A model whose place an ensemble takes, or the other way, is none of it."""
    if isinstance(settings, EnsembleSettings):
        return KeptEnsemble(base=base if isinstance(base, EnsembleSettings) else None, settings=settings, number=number)
    return Kept(base=base if isinstance(base, ModelSettings) else None, settings=settings, number=number)
