"""Distributions of SciPy, made again from what they were made from.

A distribution keeps the source text of its own methods in its attributes, and runs that text when it gets its state
(``rv_generic._attach_argparser_methods``). So none gets its state here: its constructor is called with the parameters
that the state lists, checks them and writes that text itself. All that is taken over besides is where its random
numbers come from.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.reading.malformed import refuse

MAX_TEXT = 4096
_NUMBERS = frozenset({"a", "b", "badvalue", "inc", "moment_tol", "momtype", "xtol"})
_TEXTS = frozenset({"longname", "name", "shapes"})


def is_one(cls: type) -> bool:
    """Say whether a class is one of SciPy's distributions: a user's own has been allowed, with all that it does."""
    return cls.__module__.startswith("scipy.stats.") and any(base.__name__ == "rv_generic" for base in cls.__mro__)


def set_state(instance: Any, state: Any, *, where: str) -> None:
    """Make an empty distribution what its state says.

    Raises:
        MalformedError: It is no state of one.
    """
    if isinstance(state, tuple) and len(state) == 2:  # noqa: PLR2004 (SciPy before 1.6: parameters and random numbers)
        parameters, source = state
    elif isinstance(state, dict):
        parameters, source = state.get("_ctor_param"), state.get("_random_state")
    else:
        parameters, source = None, None
    what = f"a {type(instance).__name__} that was made from what no distribution is made from"
    if not isinstance(parameters, dict) or not all(_fits(name, value) for name, value in parameters.items()):
        refuse(where, what)
    if not (source is None or isinstance(source, np.random.RandomState | np.random.Generator)):
        refuse(where, what)
    given = {name: value for name, value in parameters.items() if name in _NUMBERS | _TEXTS}
    instance.__init__(**given)
    if (support := state.get("_support") if isinstance(state, dict) else None) and _is_support(support):
        instance._support = support  # noqa: SLF001 (its bounds by name, for its documentation)
    if source is not None:
        instance._random_state = source  # noqa: SLF001 (what its own state would set)


def _is_support(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, int | float | str) for part in value)  # noqa: PLR2004 (two bounds)


def _fits(name: Any, value: Any) -> bool:
    if name in _NUMBERS:
        return value is None or isinstance(value, int | float | np.number)
    if name in _TEXTS:
        return value is None or (isinstance(value, str) and 0 < len(value) <= MAX_TEXT)
    if name == "seed":  # where its random numbers came from: they come from its state
        return value is None or isinstance(value, int | np.random.RandomState | np.random.Generator)
    return name in {"extradoc", "values"} and value is None
