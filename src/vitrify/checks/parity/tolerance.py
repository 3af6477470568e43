"""Tolerance: how far two models may be apart and still count as the same.

Combined and elementwise, as in :func:`numpy.isclose`: ``|got - expected| <= atol + rtol * |expected|``. Unless
the user sets them, both follow from the least precise floating-point type that takes part, and ``atol`` from the
size of the output itself, so that predictions of 1e6 and probabilities are held to the same standard.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.checks.parity.rows import plain
from vitrify.core.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DEFAULTS = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-9}
"""``rtol``, and ``atol`` as a share of the output's typical magnitude. In float32 some 80 units in the last place:
what the sums of a deep network lose; in float64 what an ill-conditioned kernel model still keeps, which is a hundred
times less than float32 could."""

_SEEN = "every value that the candidate gave fits float32, the source's do not"

_OUTLIER = 10.0
"""How many times larger than the usual value one may be and still count in full; normally distributed ones all do."""

_SUM = 1e-3
"""How far the sum of a row of probabilities may be from one."""


@dataclass(frozen=True)
class Bound:
    """A tolerance as it applies to one output.

    Attributes:
        precision: ``float16``, ``float32`` or ``float64``.
        why: Where the precision comes from, for people.
        rtol: Relative part.
        atol: Absolute part: one value a column of the output, or one for all.
        grows: Whether a row whose values are beyond the typical size has as much more absolute tolerance. The error
            of a sum is bounded by its largest terms, not by what is left of them (Higham 2002, section 3.1).
        rounding: The source's own rounding, as measured, in units of the output; see :mod:`.rounding`.
    """

    precision: str
    why: str
    rtol: float
    atol: NDArray[np.float64]
    grows: bool = False
    rounding: float = 0.0

    @property
    def measured(self) -> bool:
        """Whether the precision was seen in the candidate's values and is less than the source's."""
        return self.why == _SEEN

    def allowed(self, expected: NDArray[Any]) -> NDArray[np.float64]:
        """Return the error allowed for each element of rows of finite values."""
        allowed: NDArray[np.float64] = self.floor(expected) + self.rtol * np.abs(expected)
        return allowed

    def floor(self, expected: NDArray[Any]) -> NDArray[np.float64]:
        """Return the absolute part for each element of rows of finite values."""
        whole = np.broadcast_to(self.atol, expected.shape)
        if not self.grows:
            return whole
        sizes = np.divide(self.rtol * np.abs(expected), whole, out=np.zeros(expected.shape), where=whole > 0)
        floor: NDArray[np.float64] = whole * np.maximum(sizes.max(axis=1, keepdims=True, initial=0.0), 1.0)
        return floor

    def details(self) -> dict[str, Any]:
        """Return it as JSON; of the absolute parts the largest is shown."""
        atol = float(self.atol.max(initial=0.0))
        about = {"precision": self.precision, "why": self.why, "rounding": plain(self.rounding)}
        return {"rtol": self.rtol, "atol": plain(atol), **about}


@dataclass(frozen=True)
class Tolerance:
    """What the user asks for; None leaves the choice to the precision that takes part.

    Attributes:
        rtol: Share of the expected value, for example 1e-5.
        atol: In units of the output.
    """

    rtol: float | None = None
    atol: float | None = None

    def __post_init__(self) -> None:
        """Refuse what bounds nothing."""
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if value is not None and not 0 <= value < np.inf:
                msg = f"{name}={value}: not a tolerance (expected a finite number, zero or more)"
                raise UsageError(msg)

    def bound(self, expected: NDArray[Any], got: NDArray[Any] | None, *, columns: bool) -> Bound:
        """Return what applies to one output.

        Args:
            expected: The source's answers to the samples.
            got: The candidate's, if it answered.
            columns: Whether it is a table whose columns may be of different sizes. Else it is a tensor, each element
                of which carries the rounding of sums over all others: its size is its largest element (the error
                is relative in the maximum norm; Higham, section 6.2).
        """
        precision, why = _precision(expected, got)
        share = _DEFAULTS[precision]
        if self.atol is not None:
            atol = np.array([self.atol])
        elif columns:
            atol = share * _magnitude(expected.reshape(len(expected), -1))
        else:
            atol = share * _sizes(expected).max(keepdims=True, initial=0.0).reshape(1)
        grows = self.atol is None and self.rtol is None
        return Bound(precision, why, share if self.rtol is None else self.rtol, atol, grows)

    def details(self) -> dict[str, Any]:
        """Return what was asked for, as JSON."""
        return {"rtol": self.rtol, "atol": self.atol}


def _precision(expected: NDArray[Any], got: NDArray[Any] | None) -> tuple[str, str]:
    """Return the least precise type that takes part, declared or seen in the values."""
    declared = _real(expected.dtype)
    if got is None or got.dtype.kind not in "fc":
        return declared, "the source's type"
    if np.finfo(_real(got.dtype)).eps > np.finfo(declared).eps:
        return _real(got.dtype), "the candidate's type"
    if declared == "float64" and _fits_float32(got) and not _fits_float32(expected):
        return "float32", _SEEN
    return declared, "the source's type"


def _real(dtype: np.dtype[Any]) -> str:
    name = np.empty(0, dtype).real.dtype.name
    return name if name in _DEFAULTS else "float64"


def _fits_float32(values: NDArray[Any]) -> bool:
    parts = np.stack([values.real, values.imag]).astype(np.float64)
    with np.errstate(over="ignore"):
        return bool(np.array_equal(parts.astype(np.float32).astype(np.float64), parts, equal_nan=True))


def _sizes(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the absolute values, zero for what is missing or infinite."""
    sizes: NDArray[np.float64] = np.where(np.isfinite(values), np.abs(values), 0.0).astype(np.float64)
    return sizes


def _magnitude(expected: NDArray[Any]) -> NDArray[np.float64]:
    """Return the root mean square of each column; of a distribution, whose columns share their errors, one.

    Outliers count as no more than so many times what is usual: else one of them would hide the errors of all others.
    A row of such a size has its own tolerance (:attr:`Bound.grows`).
    """
    sizes = _sizes(expected)
    columns = sizes.shape[1]
    real = expected.dtype.kind == "f"
    if columns > 1 and real and bool(np.all(expected >= 0)) and bool(np.all(np.abs(sizes.sum(axis=1) - 1) < _SUM)):
        return np.ones(columns)
    if not len(sizes):
        return np.zeros(columns)
    sizes = np.minimum(sizes, _OUTLIER * _usual(sizes))
    largest = sizes.max(axis=0, initial=0.0)
    unit = np.where(largest > 0, largest, 1.0)
    square: NDArray[np.float64] = np.mean(np.square(sizes / unit), axis=0)
    magnitude: NDArray[np.float64] = largest * np.sqrt(square)
    known = magnitude[magnitude > 0]
    # A column that is zero in every sample has no size of its own; it comes out of the same sums as the others.
    return np.where(magnitude > 0, magnitude, known.min(initial=np.inf)) if len(known) else magnitude


def _usual(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the median of each column's values that are not zero."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of columns that are all zero
        median: NDArray[np.float64] = np.nanmedian(np.where(sizes > 0, sizes, np.nan), axis=0)
    return np.nan_to_num(median, nan=0.0)
