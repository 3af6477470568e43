"""Rounding: how far the source's own answers depend on the order of its additions.

A library adds up a row alone in another order than a row among others (a matrix times a vector, and a matrix times
a matrix). The difference is rounding and nothing else, and it grows with the width and the depth of a model as the
error of a faithful copy does, which adds in an order of its own. So it is measured, and allowed for; but a model
whose answers depend on the batch for another reason is not forgiven for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from vitrify.checks.parity import rows
from vitrify.checks.parity.asking import per_row, run
from vitrify.core.errors import ModelError, SignatureError

if TYPE_CHECKING:
    from vitrify.checks.parity.tolerance import Bound
    from vitrify.core.protocols import Arrays, Session

_ROWS = 8
"""Sample rows that are asked alone."""

_SAFETY = 4.0
"""A few rows show a typical difference, not the largest."""

_MOST = 10.0
"""What the tolerance may grow by; beyond, it is no rounding."""


def widened(source: Session, samples: Arrays, once: Arrays, bounds: dict[str, Bound]) -> dict[str, Bound]:
    """Return the bounds with room for the source's own rounding; those that the user set stay.

    Args:
        source: The model that is right by definition, answering row by row.
        samples: The sample rows.
        once: Its answers to all of them together.
        bounds: The tolerance of each floating-point output.
    """
    count = min(rows.count(samples), _ROWS)
    try:
        alone = rows.join([run(source, rows.take(samples, slice(row, row + 1))) for row in range(count)])
    except (ModelError, SignatureError):
        return bounds
    return {name: _widened(bound, alone, once, name, count) for name, bound in bounds.items()}


def _widened(bound: Bound, alone: Arrays, once: Arrays, name: str, count: int) -> Bound:
    if not bound.grows or name not in alone or alone[name].shape != once[name][:count].shape:
        return bound
    with np.errstate(all="ignore"):
        apart = np.abs(per_row(alone[name], rowwise=True) - per_row(once[name][:count], rowwise=True))
    largest = np.where(np.isfinite(apart), apart, 0.0).astype(np.float64).max(axis=0, initial=0.0)
    rounding = largest if len(bound.atol) == len(largest) else largest.max(keepdims=True, initial=0.0)
    atol = np.clip(_SAFETY * rounding, bound.atol, _MOST * bound.atol)
    return replace(bound, atol=atol, rounding=float(rounding.max(initial=0.0)))
