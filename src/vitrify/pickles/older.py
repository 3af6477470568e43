"""Pickles of older releases: what moved is found where it is today, and older states become today's.

A model that scikit-learn wrote says with which release. Its classes are looked up under today's names
(:mod:`._older.moved`), classes that are gone have stand-ins (:mod:`._older.gone`), and before an instance gets its
attributes they are brought up to date: by small steps for the classes that changed (:mod:`._older.trees`,
:mod:`._older.others`), and with today's default for each parameter that is new. What cannot be brought up to date is
an error that names the release which can read it.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError, VitrifyError
from vitrify.pickles._older import gone, moved
from vitrify.pickles.dialect import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vitrify.pickles._older.steps import State

_VERSION = "_sklearn_version"
_UNVERSIONED = frozenset(
    {
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.tree._tree.Tree",
    }
)
"""Classes that are no estimators, and do not say which release wrote them."""

_NEIGHBOURS = frozenset({"sklearn.neighbors._ball_tree.BallTree", "sklearn.neighbors._kd_tree.KDTree"})
_PARTS = 13
"""Parts of the state of a tree of neighbours; the last, the weights of the samples, came with 0.20."""


class Older(Dialect):
    """Names and states of older releases of scikit-learn, NumPy, SciPy, pandas and joblib."""

    constructors: Mapping[str, Callable[..., Any]] = gone.STAND_INS
    refers = gone.REFERRED

    def rename(self, module: str, name: str) -> tuple[str, str] | None:
        """Return where a name lives today."""
        found = moved.today(module, name)
        return found if found != (module, name) else None

    def migrate(self, cls: str, state: Any) -> Any:
        """Return today's state for what an older release of scikit-learn wrote; see the base class."""
        if cls in _NEIGHBOURS and isinstance(state, tuple):
            return _with_weights(cls, state)
        if not cls.startswith("sklearn.") or not isinstance(state, dict):
            return state
        if cls in _UNVERSIONED or _VERSION in state or _is_estimator(cls):
            return _migrated(cls, dict(state))
        return state


def _with_weights(cls: str, state: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the state with no weights where it has none; its reader believes in its length."""
    if len(state) not in {_PARTS - 1, _PARTS}:
        raise _unmapped(cls, None, f"its state has {len(state)} parts, not {_PARTS}")
    return (*state, None)[:_PARTS]


def _migrated(cls: str, state: State) -> State:
    import sklearn

    from vitrify.pickles._older import others, steps, trees  # noqa: F401 (importing them registers their steps)

    wrote = state.get(_VERSION)
    if wrote == sklearn.__version__:
        return state
    version = steps.parsed(wrote)
    if wrote is not None and version > steps.parsed(sklearn.__version__):
        why = f"scikit-learn {sklearn.__version__} is older than what wrote it"
        raise _unmapped(cls, wrote, why)
    if cls not in _UNVERSIONED:
        state[_VERSION] = sklearn.__version__
        _rename_estimator(cls, state)
    try:
        steps.take(cls, state, version)
    except VitrifyError as error:
        raise _unmapped(cls, wrote, error.message) from error
    except Exception as error:  # a state of any shape may come from a file
        raise _unmapped(cls, wrote, f"its state is not what that release wrote: {error!r:.200}") from error
    if cls not in _UNVERSIONED:
        _add_parameters(cls, state)
    return state


def _rename_estimator(cls: str, state: State) -> None:
    """1.2 calls the estimator inside another ``estimator``."""
    if "estimator" in _parameters(cls) or cls.startswith("sklearn.ensemble."):
        for old, new in (("base_estimator", "estimator"), ("base_estimator_", "estimator_")):
            if old in state:
                value = state.pop(old)
                state.setdefault(new, None if value == "deprecated" else value)


def _add_parameters(cls: str, state: State) -> None:
    """Give each new parameter today's default, without which an estimator can be neither shown nor cloned."""
    import inspect

    for name, default in _parameters(cls).items():
        if name not in state and default is not inspect.Parameter.empty:
            state[name] = default
    if missing := sorted(set(_parameters(cls)) - set(state)):
        raise _unmapped(cls, None, f"it lacks {', '.join(missing)}")


@cache
def _parameters(cls: str) -> dict[str, Any]:
    import inspect

    found = _resolved(cls)
    if found is None:
        return {}
    listed = list(inspect.signature(found.__init__).parameters.values())[1:]
    return {one.name: one.default for one in listed if one.kind not in {one.VAR_POSITIONAL, one.VAR_KEYWORD}}


@cache
def _is_estimator(cls: str) -> bool:
    found = _resolved(cls)
    return hasattr(found, "get_params") and hasattr(found, "__sklearn_tags__")


def _resolved(cls: str) -> Any:
    """Return the class; the machine has found it trusted and imported it before its state is asked for."""
    module, _, name = cls.rpartition(".")
    return getattr(importlib.import_module(module), name, None)


def _unmapped(cls: str, wrote: Any, why: str) -> MalformedError:
    name = cls.rpartition(".")[2]
    release = f"scikit-learn {wrote}" if isinstance(wrote, str) else "an old release of scikit-learn"
    exact = f"scikit-learn=={wrote}" if isinstance(wrote, str) else "that release"
    msg = f"this {name} was written by {release} and cannot be brought up to date: {why}"
    return MalformedError(msg, remedy=f"load it in an environment with {exact} and save it again with vitrify")
