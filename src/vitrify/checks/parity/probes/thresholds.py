"""Probes on the thresholds of trees: the value itself and one unit in the last place either side.

A threshold is tried in float64 and in float32, because both are in use: LightGBM compares in float64, XGBoost and
CatBoost in float32, scikit-learn casts the input to float32 and compares it with a float64 threshold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.checks.parity.probes.splits import splits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from vitrify.checks.parity.probes.material import Column, Material, Probe

_QUOTAS = 2
"""Quotas that thresholds get: more than other probes, because here is where trees differ."""


def probes(material: Material, model: Any) -> Iterator[Probe | None]:
    """Yield rows that sit on the splits of the live model; ``model`` may be None."""
    found = splits(model) if model is not None else {}
    columns = _by_position(material)
    changes = [
        (columns[feature], values.tolist())
        for feature, thresholds in found.items()
        if feature in columns and len(values := _around(columns[feature], thresholds))
    ]
    for turn in range(_QUOTAS):
        yield material.change(
            "split thresholds" if turn == 0 else f"split thresholds ({turn + 1})",
            [(column, values[turn::_QUOTAS]) for column, values in changes],
            "the row sits on a split: < against <=, or the input or the threshold is rounded",
        )


def _by_position(material: Material) -> dict[int, Column]:
    """Return the numeric columns by their position in what the model reads: table columns, or one matrix."""
    by_field = {field.name: position for position, field in enumerate(material.signature.inputs)}
    alone = len(by_field) == 1
    return {
        (column.index if alone and column.index is not None else by_field[column.field.name]): column
        for column in material.columns
        if column.kind in "fi" and (alone or column.index is None)
    }


def _around(column: Column, thresholds: NDArray[np.float64]) -> NDArray[Any]:
    thresholds = thresholds[np.isfinite(thresholds)]
    if column.kind == "i":
        info = np.iinfo(column.dtype)
        whole = np.unique(np.concatenate([np.floor(thresholds), np.ceil(thresholds)]))
        return whole[(whole >= info.min) & (whole < info.max)].astype(column.dtype)
    with np.errstate(over="ignore", under="ignore"):
        near = thresholds.astype(np.float32)
    near = near[np.isfinite(near)]
    values = [_three(near).astype(np.float64)]
    if column.dtype == np.float64:
        values.append(_three(thresholds))
    kept = np.concatenate(values)
    return np.unique(kept[np.isfinite(kept)].astype(column.dtype))


def _three(points: NDArray[Any]) -> NDArray[Any]:
    """Return each value and its two neighbours."""
    with np.errstate(over="ignore", under="ignore"):
        up, down = np.nextafter(points, points.dtype.type(np.inf)), np.nextafter(points, points.dtype.type(-np.inf))
    return np.concatenate([points, up, down])
