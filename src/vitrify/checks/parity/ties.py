"""Ties: which scores decide a label, and where they are so close that another label is no fault.

A column of labels is decided by the place of the largest score, or by the side of zero or of one half on which a
single score lies. Which of them it is shows in the source's own answers. A flip is a tie only if

- such a decision hangs on less than the tolerance of its score,
- the label that was given is one of those that are tied, and
- rounding is there to blame: the candidate's scores are not the source's to the bit, or the source's own label
  changes when its inputs move by a few units in the last place. Equal scores and another label are another rule.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from vitrify.checks.parity.tolerance import Bound
    from vitrify.core.protocols import Arrays

_TURNS = (0.0, 0.5)
"""Where a single score turns from one label to the other."""

_STRAY = 0.1
"""Share of the rows in which a label may be another than its scores say: probabilities that were fitted apart."""

_ROWS = 2_000
_COLUMNS = 64
"""Rows and columns of an output that are looked at."""


@dataclass(frozen=True)
class Decision:
    """How a column of labels follows from one output.

    Attributes:
        output: The output that holds the scores.
        column: The single score that is looked at; None for the largest of all.
        turn: Where the single score turns.
        labels: What each outcome means: the place of the largest score, or 1 for more than the turn.
    """

    output: str
    column: int | None
    turn: float
    labels: Mapping[int, Any]

    def tied(self, scores: NDArray[np.float64], slack: NDArray[np.float64], *labels: NDArray[Any]) -> NDArray[np.bool_]:
        """Say in which rows several outcomes lie within the slack, and these labels, one a row, are among theirs."""
        near = _near(scores, slack, self.column, self.turn)
        tied: NDArray[np.bool_] = near.sum(axis=1) > 1
        for given in labels:
            tied = tied & self._among(near, given)
        return tied

    def _among(self, near: NDArray[np.bool_], given: NDArray[Any]) -> NDArray[np.bool_]:
        places = {label: place for place, label in self.labels.items()}
        # A label that the source's answers never showed may be that of any outcome that they never showed.
        others = [place for place in range(near.shape[1]) if place not in self.labels]
        wanted = [[places[label]] if label in places else others for label in given.tolist()]
        return np.array([bool(row[at].any()) for row, at in zip(near, wanted, strict=True)], np.bool_)


def decisions(labels: NDArray[Any], scores: Arrays, bounds: Mapping[str, Bound]) -> list[Decision]:
    """Return how one column of the source's labels follows from its scores, as far as these answers show.

    Args:
        labels: One label a row.
        scores: Floating-point outputs, a line a row.
        bounds: Their tolerances.
    """
    found = [
        Decision(name, column, turn, meaning)
        for name, values in scores.items()
        if values.dtype.kind == "f" and values.shape[1]
        for column, turn in _ways(values)
        if (meaning := _meaning(labels[:_ROWS], values[:_ROWS].astype(np.float64), bounds[name], column, turn))
    ]
    telling = [one for one in found if len(one.labels) > 1]
    return telling or found


def _ways(values: NDArray[Any]) -> Iterator[tuple[int | None, float]]:
    if values.shape[1] > 1:
        yield None, 0.0
    for column in range(min(values.shape[1], _COLUMNS)):
        for turn in _TURNS:
            yield column, turn


def _meaning(
    labels: NDArray[Any], scores: NDArray[np.float64], bound: Bound, column: int | None, turn: float
) -> dict[int, Any]:
    """Return the label of each outcome; empty where the labels do not follow from it, one to one."""
    with np.errstate(invalid="ignore"):
        slack = bound.allowed(scores).max(axis=1)
        clear = np.isfinite(scores).all(axis=1) & (_near(scores, slack, column, turn).sum(axis=1) == 1)
    outcome = scores.argmax(axis=1) if column is None else (scores[:, column] > turn).astype(int)
    counts = Counter(zip(outcome[clear].tolist(), labels[clear].tolist(), strict=True))
    meaning: dict[int, Any] = {}
    agreeing = 0
    for (place, label), count in counts.most_common():
        if place not in meaning:
            meaning[place] = label
            agreeing += count
    one_to_one = len(set(meaning.values())) == len(meaning)
    return meaning if one_to_one and agreeing >= (1 - _STRAY) * sum(counts.values()) else {}


def _near(
    scores: NDArray[np.float64], slack: NDArray[np.float64], column: int | None, turn: float
) -> NDArray[np.bool_]:
    """Return for each outcome whether it may be the one: (rows, outcomes)."""
    with np.errstate(invalid="ignore"):
        if column is None:
            near: NDArray[np.bool_] = scores.max(axis=1, keepdims=True) - scores <= slack[:, None]
            return near
        score = scores[:, column]
        return np.stack([score - turn <= slack, turn - score <= slack], axis=1)
