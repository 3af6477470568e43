"""Neighbours' estimators that pick the first of equally far rows, where scikit-learn picks by no rule.

Which of equals NumPy's partition keeps hangs on its release and on the processor, and which of them a search by
several threads keeps hangs on their number: no two machines need agree, and no graph can. A copy of the model that
takes them in their order, by scikit-learn's own code in all else, shows which rows hang on that.

Source: ``sklearn/neighbors/_base.py``, ``sklearn/impute/_knn.py``
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

_DONORS, _NEAREST = "_calc_impute", "_kneighbors_reduce_func"
"""The methods that ask NumPy's partition."""


def picking_first(model: Any) -> Any:
    """Return a copy of an estimator that takes the first of equally far rows; None if it never picks among them."""
    if not any(_picks(part) for part in _parts(model, set())):
        return None
    first = copy.deepcopy(model)
    for part in _parts(first, set()):
        if _picks(part):
            name, pick = (_DONORS, _first_donors) if hasattr(part, _DONORS) else (_NEAREST, _first_nearest)
            setattr(part, name, partial(pick, getattr(part, name)))
    return first


def one_thread() -> AbstractContextManager[Any]:
    """Return a context in which scikit-learn's searches run on one thread, and meet the points in their order."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has no types

    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="openmp")
    return limits


def _picks(part: Any) -> bool:
    return hasattr(part, _DONORS) or (hasattr(part, _NEAREST) and getattr(part, "_fit_method", None) == "brute")


def _parts(value: Any, seen: set[int]) -> Iterator[Any]:
    """Yield the estimators in a value, those within others too, each once."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, (list, tuple)):
        inner = iter(value)
    elif isinstance(value, Mapping):
        inner = iter(value.values())
    elif hasattr(value, "get_params") and not isinstance(value, type):
        yield value
        inner = iter(list(vars(value).values()))
    else:
        return
    for part in inner:
        yield from _parts(part, seen)


def _first_donors(
    own: Callable[..., NDArray[Any]], dist: NDArray[Any], n_neighbors: int, values: NDArray[Any], mask: NDArray[Any]
) -> NDArray[Any]:
    """Let the imputer's own method see no more donors than it needs, row by row."""
    order = np.argsort(dist, axis=1, kind="stable")[:, :n_neighbors]
    rows = zip(np.take_along_axis(dist, order, axis=1), order, strict=True)
    return np.concatenate([own(near[None], n_neighbors, values[at], mask[at]) for near, at in rows])


def _first_nearest(
    own: Callable[..., Any], dist: NDArray[Any], start: int, n_neighbors: int, *, return_distance: bool
) -> Any:
    """Let the search's own method see no more points than it needs."""
    order = np.argsort(dist, axis=1, kind="stable")[:, :n_neighbors]
    found = own(
        np.take_along_axis(dist, order, axis=1), start, n_neighbors=n_neighbors, return_distance=return_distance
    )
    if not return_distance:
        return np.take_along_axis(order, found, axis=1)
    far, places = found
    return far, np.take_along_axis(order, places, axis=1)
