"""Measure: how far one output is from what was expected, a row at a time.

A row's error is that of its worst element. Missing and infinite values have to be in the same places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vitrify.checks.parity.tolerance import Bound


@dataclass(frozen=True)
class Errors:
    """The errors of one floating-point output, one value a row.

    Attributes:
        absolute: ``|got - expected|``; infinite where one of them is not finite and they differ.
        relative: The same over ``|expected|``; infinite where that is zero.
        ulp: The same in units in the last place of the bound's precision.
        scaled: The same over ``|expected| + atol / rtol``, to be read against ``rtol`` (where that is zero: the
            absolute error, to be read against ``atol``).
        excess: The same over what is allowed; above 1 it fails.
        unlike: Whether one of them is not finite and they differ.
    """

    absolute: NDArray[np.float64]
    relative: NDArray[np.float64]
    ulp: NDArray[np.float64]
    scaled: NDArray[np.float64]
    excess: NDArray[np.float64]
    unlike: NDArray[np.bool_]


def errors(got: NDArray[Any], expected: NDArray[Any], bound: Bound, extra: NDArray[np.float64] | float = 0.0) -> Errors:
    """Compare numbers, one flattened row a line; ``extra`` is allowed on top of the bound, element by element."""
    with np.errstate(all="ignore"):
        same = _same(got, expected, bound.precision)
        absolute = np.where(same, 0.0, np.abs(got - expected).astype(np.float64))
        unlike = ~same & ~(np.isfinite(got) & np.isfinite(expected))
        absolute[unlike] = np.inf
        size = np.where(np.isfinite(expected), np.abs(expected), 0.0).astype(np.float64)
        floor = bound.floor(size) / bound.rtol if bound.rtol else None
        return Errors(
            absolute=_worst(absolute),
            relative=_worst(_ratio(absolute, size)),
            ulp=_worst(_ratio(absolute, _spacing(size, bound.precision))),
            scaled=_worst(absolute if floor is None else _ratio(absolute, size + floor)),
            excess=_worst(_ratio(absolute, bound.allowed(size) + extra)),
            unlike=unlike.any(axis=1),
        )


def differ(got: NDArray[Any], expected: NDArray[Any]) -> NDArray[np.bool_]:
    """Say which rows of an exact output (labels, text, integers, booleans, times) are not equal.

    None, NaN and masked are three different things, and each is equal to itself.
    """
    if got.dtype.kind in "OU" or expected.dtype.kind in "OU":
        pairs = zip(got.reshape(-1).tolist(), expected.reshape(-1).tolist(), strict=True)
        unequal = np.fromiter((not _equal(a, b) for a, b in pairs), np.bool_, got.size).reshape(got.shape)
    else:
        missing = np.ma.getmaskarray(got) != np.ma.getmaskarray(expected)
        hidden = np.ma.getmaskarray(got) & np.ma.getmaskarray(expected)
        a, b = np.ma.getdata(got), np.ma.getdata(expected)
        both_nat = (np.isnat(a) & np.isnat(b)) if a.dtype.kind in "mM" and b.dtype.kind in "mM" else False
        unequal = missing | ((a != b) & ~hidden & ~both_nat)
    return np.asarray(unequal.any(axis=1), np.bool_)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (np.isnan(a) and np.isnan(b))
    return type(a) is type(b) and bool(a == b)


def _same(got: NDArray[Any], expected: NDArray[Any], precision: str) -> NDArray[np.bool_]:
    """Equal, both NaN, or the infinity that ``expected`` becomes when rounded to the precision."""
    if got.dtype.kind == "c" or expected.dtype.kind == "c":
        return np.asarray((got == expected) | (np.isnan(got) & np.isnan(expected)), np.bool_)
    rounded = expected.astype(precision)
    overflowed = np.isinf(got) & (got == rounded)
    return np.asarray((got == expected) | (np.isnan(got) & np.isnan(expected)) | overflowed, np.bool_)


def _ratio(errors: NDArray[np.float64], size: NDArray[np.float64]) -> NDArray[np.float64]:
    ratio: NDArray[np.float64] = np.where(errors == 0, 0.0, errors / size)
    return np.where(np.isnan(ratio), np.inf, ratio)


def _spacing(size: NDArray[np.float64], precision: str) -> NDArray[np.float64]:
    largest = np.finfo(precision).max
    gaps: NDArray[np.float64] = np.spacing(np.minimum(size, largest).astype(precision)).astype(np.float64)
    return gaps


def _worst(values: NDArray[np.float64]) -> NDArray[np.float64]:
    worst: NDArray[np.float64] = values.max(axis=1, initial=0.0)
    return worst
