"""Judge: which rows are the same, which are not, and which nobody can blame on the candidate.

A row beyond the tolerance is looked at again before it counts:

- *ill-conditioned*: the source's own answer moves as far when its inputs move by a few units in the last place.
  The forward error of a faithful computation is bounded by the condition number times the backward error
  (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM 2002, section 1.6), so that much is
  allowed on top. All inputs move up together, then down together, and the smaller effect counts: an answer that
  jumps to one side only is a threshold, not a condition, and is forgiven nothing.
- *overflowed*: an input is so large that its square leaves the range of the precision. Whether the answer is then
  infinite, NaN or finite depends on the order of the arithmetic; finite answers are still compared.
- *unanswered*: an input is NaN where the example had none, and the source answers NaN: it has no answer. What the
  candidate says there is reported, and does not count.
- *tie*: a label differs where the source's best two scores are closer than the tolerance of those scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.checks.parity import rows
from vitrify.checks.parity.asking import per_row, run
from vitrify.checks.parity.measure import Errors, differ, errors
from vitrify.core.errors import ModelError, SignatureError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vitrify.checks.parity.tolerance import Bound
    from vitrify.core.protocols import Arrays, Session

_STEPS = 8
"""Inputs move by 1 to this many units in the last place, each by a number of its own, so that differences show."""
_DRAWS = 2
_EPSILON = float(np.finfo(np.float64).eps)
_SAFETY = 4.0
"""A sum of n terms loses about sqrt(n) roundings, of which the moved inputs show only a few."""


@dataclass(frozen=True)
class Ruling:
    """What was decided about the rows of one output.

    Attributes:
        failed: Rows that are not the same.
        excess: How many times the tolerance the row's error is; for exact outputs 1 where it differs.
        errors: The figures, for a floating-point output.
        ties: Label flips that the scores explain.
        ill: Rows forgiven because the source is ill-conditioned there.
        overflowed: Rows forgiven because their inputs overflow.
        unanswered: Rows forgiven because the source has no answer for what is missing.
    """

    failed: NDArray[np.bool_]
    excess: NDArray[np.float64]
    errors: Errors | None
    ties: NDArray[np.bool_]
    ill: NDArray[np.bool_]
    overflowed: NDArray[np.bool_]
    unanswered: NDArray[np.bool_]

    @property
    def measured(self) -> NDArray[np.bool_]:
        """The rows whose errors mean something."""
        return ~(self.overflowed | self.unanswered)


@dataclass(frozen=True)
class _Second:
    """A second look at the rows beyond the tolerance: which they are, and what may excuse them.

    Attributes:
        at: Their indices.
        extra: What is allowed on top, element by element of each output.
        large: Whether their inputs overflow.
        unknown: Whether one of their inputs is NaN where the example had none.
        tied: Whether their decision hangs on less than a tolerance.
    """

    at: NDArray[np.intp]
    extra: Arrays
    large: NDArray[np.bool_]
    unknown: NDArray[np.bool_]
    tied: NDArray[np.bool_]


@dataclass(frozen=True)
class Judge:
    """Knows the source and what is allowed.

    Attributes:
        source: The model that is right by definition.
        bounds: The tolerance of each floating-point output.
        rowwise: Whether it answers row by row; else every batch is one row.
        seed: For the moves of the inputs.
    """

    source: Session
    bounds: dict[str, Bound]
    rowwise: bool
    seed: int

    def rule(self, inputs: Arrays, got: Arrays, expected: Arrays) -> dict[str, Ruling]:
        """Compare the outputs that both have; their rows and shapes fit each other."""
        lines = {
            name: (per_row(got[name], rowwise=self.rowwise), per_row(expected[name], rowwise=self.rowwise))
            for name in expected
            if name in got
        }
        plain = {name: self._compare(name, *pair) for name, pair in lines.items()}
        suspects = np.flatnonzero(np.logical_or.reduce([ruling.failed for ruling in plain.values()]))
        if not len(suspects):
            return plain
        chosen = rows.take(inputs, suspects) if self.rowwise else inputs
        answers = {name: pair[1][suspects] for name, pair in lines.items()}
        extra = self._condition(chosen)
        large, unknown = self._overflow(chosen, len(suspects)), self._unknown(chosen, len(suspects))
        second = _Second(suspects, extra, large, unknown, self._tied(answers, extra))
        return {name: self._review(name, plain[name], lines[name], second) for name in lines}

    def _compare(self, name: str, got: NDArray[Any], expected: NDArray[Any]) -> Ruling:
        none = np.zeros(len(expected), np.bool_)
        if name not in self.bounds:
            flipped = differ(got, expected)
            return Ruling(flipped, flipped.astype(np.float64), None, none, none, none, none)
        found = errors(got, expected, self.bounds[name])
        return Ruling(found.excess > 1, found.excess, found, none, none, none, none)

    def _review(self, name: str, ruling: Ruling, pair: tuple[NDArray[Any], NDArray[Any]], second: _Second) -> Ruling:
        at = second.at
        failed, excess = ruling.failed.copy(), ruling.excess.copy()
        ties, ill, overflowed, unanswered = (np.zeros(len(failed), np.bool_) for _ in range(4))
        before = failed[at]
        if ruling.errors is None:
            ties[at] = before & second.tied
        else:
            got, expected = (part[at] for part in pair)
            again = errors(got, expected, self.bounds[name], second.extra.get(name, 0.0))
            overflowed[at] = before & again.unlike & second.large
            silent = errors(np.where(np.isnan(expected), expected, got), expected, self.bounds[name])
            unanswered[at] = before & second.unknown & (silent.excess <= 1)
            ill[at] = before & (again.excess <= 1)
            excess[at] = again.excess
        failed &= ~(ties | ill | overflowed | unanswered)
        return Ruling(failed, np.where(failed, excess, 0.0), ruling.errors, ties, ill, overflowed, unanswered)

    def _condition(self, inputs: Arrays) -> Arrays:
        """Return how far the source itself moves, element by element of each floating-point output."""
        before = self._answer(inputs)
        worst: Arrays = {}
        for draw in range(_DRAWS):
            up, down = (self._answer(moved) for moved in self._moves(inputs, draw))
            for name in before.keys() & up.keys() & down.keys():
                effect = np.minimum(_distance(up[name], before[name]), _distance(down[name], before[name]))
                worst[name] = np.maximum(worst.get(name, 0.0), _SAFETY * effect)
        return worst

    def _moves(self, inputs: Arrays, draw: int) -> tuple[Arrays, Arrays]:
        """Return the inputs a few units in the last place up, and down."""
        rng = np.random.default_rng([self.seed, draw])
        up, down = dict(inputs), dict(inputs)
        for name, array in inputs.items():
            if array.dtype.kind != "f":
                continue
            gap = _gap(array, coarse=self._epsilon > _EPSILON) * rng.integers(1, _STEPS + 1, array.shape)
            with np.errstate(all="ignore"):
                up[name], down[name] = array + gap, array - gap
        return up, down

    @property
    def _epsilon(self) -> float:
        """The coarsest precision of all outputs."""
        return max((float(np.finfo(bound.precision).eps) for bound in self.bounds.values()), default=_EPSILON)

    def _answer(self, inputs: Arrays) -> Arrays:
        """Return the source's floating-point answers, a line a row; none where it refuses."""
        try:
            outputs = run(self.source, inputs)
        except (ModelError, SignatureError):
            return {}
        return {name: per_row(outputs[name], rowwise=self.rowwise) for name in self.bounds if name in outputs}

    def _overflow(self, inputs: Arrays, count: int) -> NDArray[np.bool_]:
        precision = max(
            (np.finfo(bound.precision) for bound in self.bounds.values()), key=lambda i: i.eps, default=None
        )
        large = np.zeros(count, np.bool_)
        for array in inputs.values():
            if array.dtype.kind == "f" and precision is not None:
                limit = float(np.sqrt(min(float(precision.max), float(np.finfo(array.dtype).max))))
                with np.errstate(invalid="ignore"):
                    large |= (np.abs(per_row(array, rowwise=self.rowwise)) > limit).any(axis=1)
        return large

    def _unknown(self, inputs: Arrays, count: int) -> NDArray[np.bool_]:
        unknown = np.zeros(count, np.bool_)
        for field in self.source.signature.inputs:
            array = inputs[field.name]
            if array.dtype.kind == "f" and not field.nullable:
                unknown |= np.isnan(per_row(array, rowwise=self.rowwise)).any(axis=1)
        return unknown

    def _tied(self, expected: Arrays, extra: Arrays) -> NDArray[np.bool_]:
        """Say in which rows the source's decision hangs on less than the tolerance of a score."""
        count = len(next(iter(expected.values())))
        tied = np.zeros(count, np.bool_)
        for name, bound in self.bounds.items():
            if name not in expected or expected[name].dtype.kind == "c" or not expected[name].shape[1]:
                continue
            scores = expected[name].astype(np.float64)
            with np.errstate(invalid="ignore"):
                slack = (bound.allowed(scores) + extra.get(name, 0.0)).max(axis=1)
                tied |= _margin(scores) <= slack
        return tied


def _distance(after: NDArray[Any], before: NDArray[Any]) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):
        distance = np.abs(after - before).astype(np.float64)
    finite: NDArray[np.float64] = np.where(np.isfinite(distance), distance, 0.0)
    return finite


def _margin(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distance between the best two scores; of a single score, from where decisions turn: 0 and 1/2."""
    if scores.shape[1] == 1:
        return np.minimum(np.abs(scores[:, 0]), np.abs(scores[:, 0] - 0.5))
    best = np.partition(scores, -2, axis=1)
    margin: NDArray[np.float64] = best[:, -1] - best[:, -2]
    return margin


def _gap(array: NDArray[Any], *, coarse: bool) -> NDArray[Any]:
    """Return one unit in the last place of each value, in float32 where that is the precision in question."""
    with np.errstate(all="ignore"):
        if coarse and array.dtype == np.float64:
            gap = np.spacing(np.abs(array).astype(np.float32)).astype(np.float64)
            gap = np.where(np.isfinite(gap), gap, np.spacing(np.abs(array)))
        else:
            gap = np.spacing(np.abs(array))
    finite: NDArray[Any] = np.where(np.isfinite(gap), gap, 0).astype(array.dtype)
    return finite
