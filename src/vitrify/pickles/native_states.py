"""States that compiled code takes apart without looking, checked before it does.

Trees of neighbours and their distances read the parts of their state by position, in code that was compiled without
bounds: too few parts, or parts that do not fit each other, would be read from memory that is not theirs.
Source: ``sklearn/neighbors/_binary_tree.pxi.tp`` and ``sklearn/metrics/_dist_metrics.pyx.tp``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

_FLAT, _SQUARE = 1, 2
_LEVELS = 63
_TREE, _DISTANCE, _CALLED = 13, 3, 5
"""Parts of the state of a tree, of a distance, and of one that calls a function."""


def check(cls: type, state: Any, *, where: str) -> None:
    """Check a state before its class gets it.

    Raises:
        MalformedError: It would be read outside of its bounds.
    """
    for base in cls.__mro__:
        fits = _STATES.get(f"{base.__module__}.{base.__qualname__}")
        if fits is not None and not _holds(fits, cls, state):
            refuse(where, f"a {cls.__module__}.{cls.__qualname__} whose state does not fit itself")


def _holds(fits: Callable[[type, Any], bool], cls: type, state: Any) -> bool:
    try:
        return type(state) is tuple and fits(cls, state)
    except (AttributeError, TypeError, ValueError):  # its parts are of other types, or its distance takes other data
        return False


def _tree(cls: type, state: tuple[Any, ...]) -> bool:  # noqa: ARG001 (all trees have one state)
    if len(state) != _TREE:
        return False
    data, index, nodes, bounds, leaf_size, levels, count = state[:7]
    distance, weights = state[11:]
    whole = all(type(number) is int and number >= 0 for number in state[4:11])
    arrays = all(isinstance(part, np.ndarray) for part in (data, index, nodes, bounds))
    if not (whole and arrays and data.ndim == _SQUARE and index.ndim == nodes.ndim == _FLAT):
        return False
    distance._validate_data(data)  # noqa: SLF001 (as the tree's own constructor does); raises
    weighted = weights is None or (isinstance(weights, np.ndarray) and weights.shape == (len(data),))
    full = levels < _LEVELS and count == 2**levels - 1 == len(nodes) == bounds.shape[1]
    return weighted and leaf_size > 0 and full


def _distance(cls: type, state: tuple[Any, ...]) -> bool:
    called = cls.__name__.startswith("PyFunc")
    if len(state) != (_CALLED if called else _DISTANCE):
        return False
    power, vector, matrix, *rest = state
    if not (isinstance(power, float) and all(isinstance(part, np.ndarray) for part in (vector, matrix))):
        return False
    square = matrix.ndim == _SQUARE and matrix.shape[0] == matrix.shape[1]
    return square and vector.ndim == _FLAT and (not called or (callable(rest[0]) and isinstance(rest[1], dict)))


_STATES: dict[str, Callable[[type, Any], bool]] = {
    "sklearn.neighbors._ball_tree.BallTree": _tree,
    "sklearn.neighbors._kd_tree.KDTree": _tree,
    "sklearn.metrics._dist_metrics.DistanceMetric": _distance,
}
