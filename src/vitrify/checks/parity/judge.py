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
  candidate says there is reported, and does not count. Nor does it where the NaN is in a tensor of three dimensions or
  more (pictures, sequences): no such model has a meaning for it, and engines differ in whether a maximum passes it on,
  some even between a small and a large batch.
- *tie*: a label differs where the source's decision hangs on less than the tolerance of its scores; see :mod:`.ties`.
  So is a row, in all its outputs, to which the candidate says what the source says when it takes the first of equally
  far points (:class:`~vitrify.core.protocols.Picks`): the source's pick is no rule, and the processor makes it.

What may be forgiven goes by each output's own precision: an output in float32 excuses none in float64.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.checks.parity import rows
from vitrify.checks.parity.asking import per_row, run
from vitrify.checks.parity.measure import Errors, differ, errors
from vitrify.checks.parity.ties import decisions
from vitrify.core.errors import ModelError, SignatureError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vitrify.checks.parity.tolerance import Bound
    from vitrify.core.protocols import Arrays, Session

_STEPS = 8
"""Inputs move by 1 to this many units in the last place, each by a number of its own, so that differences show."""
_DRAWS = 2
_PICTURE = 3
"""Dimensions from which on a tensor is no table: its NaN is no missing value."""
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
        ties: Label flips that the scores explain, and rows where the source picks among equals.
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
        return ~(self.overflowed | self.unanswered | self.ties)

    def without(self, tied: NDArray[np.bool_]) -> Ruling:
        """Return it with some of the failed rows counted as ties."""
        failed = self.failed & ~tied
        return replace(self, failed=failed, excess=np.where(tied, 0.0, self.excess), ties=self.ties | tied)


@dataclass(frozen=True)
class _Second:
    """A second look at the rows beyond the tolerance: which they are, and what may excuse them.

    Attributes:
        at: Their indices.
        extra: What is allowed on top, element by element of each output.
        large: Whether their inputs overflow in the precision of each floating-point output.
        unknown: Whether one of their inputs is NaN where the example had none.
        torn: Whether that is in a tensor of three dimensions or more.
        moved: Whether each label of each other output changes when the inputs move by a few units in the last place.
    """

    at: NDArray[np.intp]
    extra: Arrays
    large: dict[str, NDArray[np.bool_]]
    unknown: NDArray[np.bool_]
    torn: NDArray[np.bool_]
    moved: dict[str, NDArray[np.bool_]]


_Pair = tuple["NDArray[Any]", "NDArray[Any]"]
"""What the candidate said and what was expected, a line a row."""


@dataclass(frozen=True)
class Judge:
    """Knows the source and what is allowed.

    Attributes:
        source: The model that is right by definition.
        bounds: The tolerance of each floating-point output.
        rowwise: Whether it answers row by row; else every batch is one row.
        seed: For the moves of the inputs.
        answers: The source's answers to the samples, which show what its labels follow from; without them, its
            answers to the rows at hand do.
        first: The source as it answers when it picks the first of equals, if it has to pick.
    """

    source: Session
    bounds: dict[str, Bound]
    rowwise: bool
    seed: int
    answers: Arrays | None = None
    first: Session | None = None

    def rule(self, inputs: Arrays, got: Arrays, expected: Arrays) -> dict[str, Ruling]:
        """Compare the outputs that both have; their rows and shapes fit each other."""
        lines = {
            name: (per_row(got[name], rowwise=self.rowwise), per_row(expected[name], rowwise=self.rowwise))
            for name in expected
            if name in got
        }
        plain = {name: self._compare(name, *pair) for name, pair in lines.items()}
        if self.first is not None and any(ruling.failed.any() for ruling in plain.values()):
            plain = self._picked(self.first, inputs, lines, plain)
        suspects = np.flatnonzero(np.logical_or.reduce([ruling.failed for ruling in plain.values()]))
        if not len(suspects):
            return plain
        chosen = rows.take(inputs, suspects) if self.rowwise else inputs
        extra, moved = self._condition(chosen)
        large, unknown = self._overflow(chosen, len(suspects)), self._unknown(chosen, len(suspects))
        torn = self._unknown(chosen, len(suspects), rank=_PICTURE)
        second = _Second(suspects, extra, large, unknown, torn, moved)
        return {name: self._review(name, plain[name], lines, second) for name in lines}

    def _picked(
        self, first: Session, inputs: Arrays, lines: dict[str, _Pair], plain: dict[str, Ruling]
    ) -> dict[str, Ruling]:
        """Excuse the rows in which every output is that of the source when it picks the first of equals."""
        try:
            answers = run(first, inputs)
        except (ModelError, SignatureError):
            return plain
        same = np.ones(len(next(iter(plain.values())).failed), np.bool_)
        for name, (got, expected) in lines.items():
            picked = per_row(answers[name], rowwise=self.rowwise)
            if picked.shape != expected.shape:
                return plain
            same &= ~self._compare(name, got, picked).failed
        return {name: ruling.without(ruling.failed & same) for name, ruling in plain.items()}

    def _compare(self, name: str, got: NDArray[Any], expected: NDArray[Any]) -> Ruling:
        none = np.zeros(len(expected), np.bool_)
        if name not in self.bounds:
            flipped = differ(got, expected)
            return Ruling(flipped, flipped.astype(np.float64), None, none, none, none, none)
        found = errors(got, expected, self.bounds[name])
        return Ruling(found.excess > 1, found.excess, found, none, none, none, none)

    def _review(self, name: str, ruling: Ruling, lines: dict[str, _Pair], second: _Second) -> Ruling:
        at = second.at
        failed, excess, ties = ruling.failed.copy(), ruling.excess.copy(), ruling.ties.copy()
        ill, overflowed, unanswered = (np.zeros(len(failed), np.bool_) for _ in range(3))
        before = failed[at]
        if ruling.errors is None:
            ties[at] |= before & self._tied(name, lines, second)
            unanswered[at] = before & second.torn & ~ties[at]
        else:
            got, expected = (part[at] for part in lines[name])
            again = errors(got, expected, self.bounds[name], second.extra.get(name, 0.0))
            overflowed[at] = before & again.unlike & second.large[name]
            silent = errors(np.where(np.isnan(expected), expected, got), expected, self.bounds[name])
            unanswered[at] = before & (second.torn | (second.unknown & (silent.excess <= 1)))
            ill[at] = before & (again.excess <= 1)
            excess[at] = again.excess
        failed &= ~(ties | ill | overflowed | unanswered)
        return Ruling(failed, np.where(failed, excess, 0.0), ruling.errors, ties, ill, overflowed, unanswered)

    def _condition(self, inputs: Arrays) -> tuple[Arrays, dict[str, NDArray[np.bool_]]]:
        """Return how far the source itself moves, element by element of each floating-point output.

        With it, which labels change.
        """
        before = self._answer(inputs)
        worst: Arrays = {}
        moved: dict[str, NDArray[np.bool_]] = {}
        coarse = {name: float(np.finfo(bound.precision).eps) > _EPSILON for name, bound in self.bounds.items()}
        for grain in sorted({*coarse.values()} or {False}):
            for draw in range(_DRAWS):
                up, down = (self._answer(shifted) for shifted in self._moves(inputs, draw, coarse=grain))
                for name in before.keys() & up.keys() & down.keys():
                    if name not in self.bounds:
                        changed = _unlike(up[name], before[name]) | _unlike(down[name], before[name])
                        moved[name] = moved.get(name, False) | changed
                    elif coarse[name] == grain:
                        effect = np.minimum(_distance(up[name], before[name]), _distance(down[name], before[name]))
                        worst[name] = np.maximum(worst.get(name, 0.0), _SAFETY * effect)
        return worst, moved

    def _moves(self, inputs: Arrays, draw: int, *, coarse: bool) -> tuple[Arrays, Arrays]:
        """Return the inputs a few units in the last place up, and down."""
        rng = np.random.default_rng([self.seed, draw])
        up, down = dict(inputs), dict(inputs)
        for name, array in inputs.items():
            if array.dtype.kind != "f":
                continue
            gap = _gap(array, coarse=coarse) * rng.integers(1, _STEPS + 1, array.shape)
            with np.errstate(all="ignore"):
                up[name], down[name] = array + gap, array - gap
        return up, down

    def _answer(self, inputs: Arrays) -> Arrays:
        """Return the source's answers, a line a row; none where it refuses."""
        try:
            outputs = run(self.source, inputs)
        except (ModelError, SignatureError):
            return {}
        return {name: per_row(output, rowwise=self.rowwise) for name, output in outputs.items()}

    def _overflow(self, inputs: Arrays, count: int) -> dict[str, NDArray[np.bool_]]:
        large = {name: np.zeros(count, np.bool_) for name in self.bounds}
        for array in inputs.values():
            if array.dtype.kind != "f":
                continue
            sizes = np.nan_to_num(np.abs(per_row(array, rowwise=self.rowwise)), nan=0.0, posinf=np.inf)
            for name, bound in self.bounds.items():
                ends = float(np.finfo(bound.precision).max), float(np.finfo(array.dtype).max)
                large[name] |= (sizes > float(np.sqrt(min(ends)))).any(axis=1)
        return large

    def _unknown(self, inputs: Arrays, count: int, *, rank: int = 0) -> NDArray[np.bool_]:
        unknown = np.zeros(count, np.bool_)
        for field in self.source.signature.inputs:
            array = inputs[field.name]
            if array.dtype.kind == "f" and not field.nullable and len(field.shape) >= rank:
                unknown |= np.isnan(per_row(array, rowwise=self.rowwise)).any(axis=1)
        return unknown

    def _tied(self, name: str, lines: dict[str, _Pair], second: _Second) -> NDArray[np.bool_]:
        """Say in which rows of the second look every label that differs is tied."""
        got, expected = (part[second.at] for part in lines[name])
        tied = np.ones(len(second.at), np.bool_)
        for column in range(expected.shape[1]):
            place = slice(column, column + 1)
            flipped = differ(got[:, place], expected[:, place])
            if flipped.any():
                tied &= ~flipped | self._explained(name, column, lines, second)
        return tied

    def _explained(self, name: str, column: int, lines: dict[str, _Pair], second: _Second) -> NDArray[np.bool_]:
        """Say in which rows of the second look a column of labels hangs on what rounding can turn."""
        shown = {key: pair[1] for key, pair in lines.items()}
        if self.answers is not None:
            shown = {key: per_row(array, rowwise=self.rowwise) for key, array in self.answers.items()}
        scores = {key: shown[key] for key in self.bounds if key in shown and key in lines}
        ways = decisions(shown[name][:, column], scores, self.bounds)
        if shown[name].shape[1] > 1:  # of several columns, only those that are known to be labels
            ways = [way for way in ways if len(way.labels) > 1]
        given, right = (part[second.at, column] for part in lines[name])
        explained = np.zeros(len(second.at), np.bool_)
        moved = second.moved.get(name)
        for way in ways:
            got, expected = (part[second.at] for part in lines[way.output])
            rounded = _unlike(got, expected).any(axis=1)
            if moved is not None:
                rounded |= moved[:, column]
            values = expected.astype(np.float64)
            with np.errstate(invalid="ignore"):
                slack = (self.bounds[way.output].allowed(values) + second.extra.get(way.output, 0.0)).max(axis=1)
            explained |= rounded & way.tied(values, slack, given, right)
        return explained


def _unlike(after: NDArray[Any], before: NDArray[Any]) -> NDArray[np.bool_]:
    """Say which elements are not equal to the bit; NaN is equal to itself."""
    if after.shape != before.shape:
        return np.ones(before.shape, np.bool_)
    flat = after.reshape(-1, 1), before.reshape(-1, 1)
    if after.dtype.kind in "fc" and before.dtype.kind in "fc":
        a, b = flat
        return np.asarray((a != b) & ~(np.isnan(a) & np.isnan(b)), np.bool_).reshape(before.shape)
    return differ(*flat).reshape(before.shape)


def _distance(after: NDArray[Any], before: NDArray[Any]) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):
        distance = np.abs(after - before).astype(np.float64)
    finite: NDArray[np.float64] = np.where(np.isfinite(distance), distance, 0.0)
    return finite


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
