"""Probes on the source's own discontinuities, found without looking inside it.

Between two values of one column where the source's answer differs, the interval is halved until two neighbouring
numbers are left; if the answer still jumps there, both are rows that a rounded input, a rounded threshold or a
scaler with another last bit would send the other way. All intervals are halved in the same calls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.checks.parity import rows
from vitrify.checks.parity.asking import per_row, run
from vitrify.checks.parity.probes.material import Probe, deviation, spread
from vitrify.core.errors import ModelError, SignatureError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vitrify.checks.parity.probes.material import Column, Material
    from vitrify.checks.parity.tolerance import Bound
    from vitrify.core.protocols import Arrays, Session

_GRID = 9
"""Sample quantiles of a column between which jumps are looked for."""
_STEPS = 66
"""Halvings that always suffice: 64 bits of a number, and two for the signs."""
_NUDGE = 2 / 3
"""Other columns move by their own spread times the machine epsilon to this power: far more than any rounding, far
less than what separates two thresholds."""


@dataclass(frozen=True)
class _Brackets:
    """Intervals, one a row: the row, which column moves, its two ends and the answers there.

    The ends are ordinals: positions in the order of the values of the column's type.
    """

    base: Arrays
    owner: NDArray[np.intp]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    at_low: Arrays
    at_high: Arrays

    def take(self, at: NDArray[np.intp]) -> _Brackets:
        parts = (rows.take(part, at) for part in (self.base, self.at_low, self.at_high))
        base, at_low, at_high = parts
        return _Brackets(base, self.owner[at], self.low[at], self.high[at], at_low, at_high)


@dataclass(frozen=True)
class Jumps:
    """Looks for jumps of the floating-point outputs that are larger than what their bounds allow."""

    source: Session
    bounds: dict[str, Bound]
    material: Material

    def probe(self) -> Probe | None:
        """Return the rows on both sides of each jump that was found; None where there is none."""
        columns = tuple(
            column
            for column in self.material.columns
            if column.kind in "fi" and column.field.categories is None and len(self.material.present(column)) > 1
        )
        if not columns or not self.bounds:
            return None
        try:
            return self._search(columns)
        except (ModelError, SignatureError):  # the source refuses values between its samples: there is nothing to ask
            return None

    def _search(self, columns: tuple[Column, ...]) -> Probe | None:
        found = self._brackets(columns)
        for _ in range(_STEPS):
            middle = _middle(found.low, found.high)
            if bool(np.all(middle == found.low)):
                break
            at_middle = self._run(columns, found, middle)
            left = self._distance(found.at_low, at_middle) >= self._distance(at_middle, found.at_high)
            found = replace(
                found,
                low=np.where(left, found.low, middle),
                high=np.where(left, middle, found.high),
                at_low={name: _pick(left, values, at_middle[name]) for name, values in found.at_low.items()},
                at_high={name: _pick(left, at_middle[name], values) for name, values in found.at_high.items()},
            )
            found = found.take(np.flatnonzero(self._distance(found.at_low, found.at_high) > 1))
        found = found.take(self._sharp(columns, found)) if len(found.owner) else found
        if not len(found.owner):
            return None
        sides = [_filled(columns, found, values) for values in (found.low, found.high)]
        hint = "the row sits where the source jumps: an input or a threshold is rounded, or a scaler's last bit differs"
        return Probe("jumps of the source", rows.join(sides), hint)

    def _brackets(self, columns: tuple[Column, ...]) -> _Brackets:
        """Return intervals between neighbouring quantiles over which the source's answer changes."""
        grids = [self.material.present(column) for column in columns]
        grids = [_ordinals(grid[spread(len(grid), _GRID)]) for grid in grids]
        most = max(self.material.quota // 2, 1)
        repeats = max(1, most // sum(len(grid) - 1 for grid in grids))
        parts = (slice(-1), slice(1, None))
        low, high = (np.tile(np.concatenate([grid[part] for grid in grids]), repeats) for part in parts)
        owner = np.tile(np.repeat(np.arange(len(grids)), [len(grid) - 1 for grid in grids]), repeats)
        chosen = spread(len(owner), most)
        found = _Brackets(self.material.base("jumps", len(chosen)), owner[chosen], low[chosen], high[chosen], {}, {})
        found = replace(
            found, at_low=self._run(columns, found, found.low), at_high=self._run(columns, found, found.high)
        )
        return found.take(np.flatnonzero(self._distance(found.at_low, found.at_high) > 1))

    def _sharp(self, columns: tuple[Column, ...], found: _Brackets) -> NDArray[np.intp]:
        """Return the jumps that stay where they are when the other columns move a little.

        An edge that moves with them (nearest neighbours, a projection before the trees) lies where the rounding of
        sums puts it, and no two implementations agree on that.
        """
        stays = np.zeros(len(found.owner), np.bool_)
        for sign in (1.0, -1.0):
            moved = dict(found.base)
            for name, array in found.base.items():
                if array.dtype.kind == "f":
                    by = sign * deviation(self.material.samples[name]) * np.finfo(array.dtype).eps ** _NUDGE
                    moved[name] = (array + by).astype(array.dtype)
            shifted = replace(found, base=moved)
            ends = (self._run(columns, shifted, values) for values in (found.low, found.high))
            stays |= self._distance(*ends) > 1
        return np.flatnonzero(stays)

    def _run(self, columns: tuple[Column, ...], found: _Brackets, ends: NDArray[np.int64]) -> Arrays:
        if not len(found.owner):
            return {}
        outputs = run(self.source, _filled(columns, found, ends))
        lines = {name: per_row(outputs[name], rowwise=True) for name in self.bounds if name in outputs}
        return {name: line for name, line in lines.items() if len(self.bounds[name].atol) in {1, line.shape[1]}}

    def _distance(self, a: Arrays, b: Arrays) -> NDArray[np.float64]:
        """Return the larger distance of two answers over the outputs, in units of what is allowed."""
        furthest = np.zeros(len(next(iter(a.values()), ())))
        for name in a:
            with np.errstate(all="ignore"):
                allowed = self.bounds[name].allowed(np.maximum(np.abs(a[name]), np.abs(b[name])))
                apart = np.where(a[name] == b[name], 0.0, np.abs(a[name] - b[name]) / allowed)
            furthest = np.maximum(furthest, np.nan_to_num(apart, posinf=np.inf).max(axis=1, initial=0.0))
        return furthest


def _filled(columns: tuple[Column, ...], found: _Brackets, ends: NDArray[np.int64]) -> Arrays:
    """Return the rows with the moving column of each at one of its ends."""
    arrays = {name: array.copy() for name, array in found.base.items()}
    for position in np.unique(found.owner):
        at = np.flatnonzero(found.owner == position)
        columns[position].write(arrays, _values(ends[at], columns[position].dtype), at)
    return arrays


def _pick(condition: NDArray[np.bool_], yes: NDArray[Any], no: NDArray[Any]) -> NDArray[Any]:
    picked: NDArray[Any] = np.where(condition[:, None], yes, no)
    return picked


def _middle(low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the mean, rounded down, without overflow."""
    return (low & high) + ((low ^ high) >> 1)


def _ordinals(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each value in the order of its type, zero at 0."""
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    magnitude = np.abs(values).view(f"i{values.dtype.itemsize}").astype(np.int64)
    ordinals: NDArray[np.int64] = np.where(values < 0, -magnitude, magnitude)
    return ordinals


def _values(ordinals: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the values at some positions."""
    if dtype.kind in "iu":
        return ordinals.astype(dtype)
    magnitude = np.abs(ordinals).astype(f"i{dtype.itemsize}").view(dtype)
    values: NDArray[Any] = np.where(ordinals < 0, -magnitude, magnitude)
    return values
