"""Drift: how far the predictions of two versions are apart, and how much of that chance explains.

Numbers are counted in bins between the quantiles of the old version's; their distance is the population stability
index, ``sum((p - q) * ln(p / q))``. Classes, texts, and the likeliest class of probabilities are counted by value;
their distance is the Jensen-Shannon distance to the base 2, from 0 to 1.

Two samples of the same predictions are never quite alike: beside each distance stands what chance alone would rarely
exceed. Both statistics are close to a multiple of chi squared where nothing has changed.

Source: https://doi.org/10.1109/18.61115 for the Jensen-Shannon divergence; B. Yurdakul, Statistical Properties of
Population Stability Index, 2018, for its distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    Array = np.ndarray[Any, Any]

LEAST = 30
"""Rows of each version; of fewer nothing can be said."""
_BINS = 10
_ROWS_A_BIN = 25
_CLASSES = 50
"""Integers of at most so many values are classes; others are numbers."""
_COLUMNS = 16
"""Columns of an output that are looked at, one by one."""
_DEVIATIONS = 3.0
_SUM_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Distance:
    """How far one output is apart.

    Attributes:
        output: Its name; with a column where it has several.
        kind: ``population stability index`` or ``Jensen-Shannon distance``.
        value: The distance.
        noise: What chance alone rarely exceeds.
    """

    output: str
    kind: str
    value: float
    noise: float


def distance(old: Mapping[str, Array], new: Mapping[str, Array]) -> Distance | None:
    """Return the distance of the output that is surely furthest apart; None where there are too few rows.

    Args:
        old: The old version's outputs by name; rows in the first dimension.
        new: The new version's. What only one of them has is not compared.
    """
    found: list[Distance] = []
    for name in old.keys() & new.keys():
        found.extend(_output(name, old[name], new[name]))
    return max(found, key=lambda one: (one.value - one.noise, one.output), default=None)


def _output(name: str, old: Array, new: Array) -> list[Distance]:
    if min(len(old), len(new)) < LEAST:
        return []
    if old.dtype.kind not in "fiu" or new.dtype.kind not in "fiu":
        return [_classes(name, _texts(old), _texts(new))]
    old, new = old.reshape(len(old), -1), new.reshape(len(new), -1)
    if _are_probabilities(old) and _are_probabilities(new):
        return [_classes(name, old.argmax(1), new.argmax(1))]
    if "f" not in old.dtype.kind + new.dtype.kind and len(np.unique(old)) <= _CLASSES:
        return [_classes(name, old.ravel(), new.ravel())]
    columns = range(min(old.shape[1], new.shape[1], _COLUMNS))
    labels = [name] if len(columns) == 1 else [f"{name}[{column}]" for column in columns]
    return [_numbers(label, old[:, at], new[:, at]) for label, at in zip(labels, columns, strict=True)]


def _are_probabilities(array: Array) -> bool:
    if array.dtype.kind != "f" or array.shape[1] < 2:  # noqa: PLR2004 (of one class there is nothing to choose)
        return False
    return bool(((array >= 0) & (array <= 1)).all() and (abs(array.sum(1) - 1) <= _SUM_TOLERANCE).all())


def _texts(array: Array) -> Array:
    return np.array([str(value) for value in array.ravel().tolist()], dtype=str)


def _classes(name: str, old: Array, new: Array) -> Distance:
    values = np.unique(np.concatenate([old, new]))
    p, q = (np.bincount(np.searchsorted(values, side), minlength=len(values)) / len(side) for side in (old, new))
    middle = (p + q) / 2
    divergence = (_entropy(middle) - (_entropy(p) + _entropy(q)) / 2) if len(values) > 1 else 0.0
    free = len(values) - 1
    chance = _chi_squared(free) * (1 / len(old) + 1 / len(new)) / (8 * math.log(2))
    return Distance(name, "Jensen-Shannon distance", math.sqrt(max(0.0, divergence)), math.sqrt(chance))


def _entropy(shares: Array) -> float:
    some = shares[shares > 0]
    return float(-(some * np.log2(some)).sum())


def _numbers(name: str, old: Array, new: Array) -> Distance:
    """Count in bins; a value that many rows have is a bin of its own, and so is what is no number."""
    old, new = old.astype(np.float64), new.astype(np.float64)
    finite = old[np.isfinite(old)]
    bins = max(2, min(_BINS, min(len(old), len(new)) // _ROWS_A_BIN))
    edges = np.unique(np.quantile(finite, np.linspace(0, 1, bins + 1)[1:-1])) if len(finite) else np.array([])
    counts = [np.bincount(_places(edges, side), minlength=2 * len(edges) + 2) for side in (old, new)]
    used = (counts[0] + counts[1]) > 0
    p, q = ((count[used] + 0.5) / (count.sum() + 0.5 * used.sum()) for count in counts)
    value = float(((p - q) * np.log(p / q)).sum())
    chance = _chi_squared(int(used.sum()) - 1) * (1 / len(old) + 1 / len(new))
    return Distance(name, "population stability index", value, chance)


def _places(edges: Array, values: Array) -> Any:
    places = np.searchsorted(edges, values, "left") + np.searchsorted(edges, values, "right")
    return np.where(np.isnan(values), 2 * len(edges) + 1, places)


def _chi_squared(free: int) -> float:
    """Return what chi squared with so many degrees of freedom rarely exceeds."""
    return free + _DEVIATIONS * math.sqrt(2 * free)
