"""Comparing: what a second version answered to the same rows, held against what was answered, output by output."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.protocols import Arrays

    Array = np.ndarray[Any, Any]

_KEPT = 4096
_SHOWN = (50, 90, 99)
"""Percentiles."""


@dataclass
class Reservoir:
    """Numbers of which, once they are many, a fair sample is kept.

    Attributes:
        count: How many there were.
        total: Their sum.
        largest: The largest.
    """

    count: int = 0
    total: float = 0.0
    largest: float = 0.0
    _kept: list[float] = field(default_factory=list)

    def add(self, value: float) -> None:
        """Take one number."""
        self.count += 1
        self.total += value
        self.largest = max(self.largest, value)
        if len(self._kept) < _KEPT:
            self._kept.append(value)
        elif (at := random.randrange(self.count)) < _KEPT:  # noqa: S311 (no secret)
            self._kept[at] = value

    def show(self) -> dict[str, float]:
        """Return what they are, as JSON."""
        if not self.count:
            return {}
        percentiles = np.percentile(self._kept, _SHOWN).tolist()
        shown = {f"p{which}": value for which, value in zip(_SHOWN, percentiles, strict=True)}
        return {"mean": self.total / self.count, **shown, "max": self.largest}


@dataclass
class Output:
    """How one output compares.

    Attributes:
        rows: That both versions answered in the same form.
        equal: Rows of which every value is the same.
        unlike: Answers whose type or form differ, or that only one version has.
        numbers: Whether they are numbers.
        differences: The largest absolute difference of each row, for numbers; infinite ones are counted in ``equal``
            only.
    """

    rows: int = 0
    equal: int = 0
    unlike: int = 0
    numbers: bool = False
    differences: Reservoir = field(default_factory=Reservoir)

    def add(self, old: Any, new: Any) -> None:
        """Compare an answer."""
        old, new = _plain(old), _plain(new)
        if old.shape != new.shape or old.ndim == 0 or (old.dtype.kind in "fiub") != (new.dtype.kind in "fiub"):
            self.unlike += 1
            return
        self.rows += len(old)
        old, new = old.reshape(len(old), -1), new.reshape(len(new), -1)
        self.numbers = old.dtype.kind in "fiu"
        if old.dtype.kind not in "fiu":
            self.equal += int((old == new).all(axis=1).sum())
            return
        same = (old == new) | ((old != old) & (new != new))  # noqa: PLR0124 (NaN is not equal to itself)
        self.equal += int(same.all(axis=1).sum())
        with np.errstate(all="ignore"):
            apart = abs(new.astype(np.float64) - old.astype(np.float64))
        apart = np.where(same, 0.0, apart).max(axis=1, initial=0.0)
        for value in apart[np.isfinite(apart)].tolist():
            self.differences.add(value)

    def show(self) -> dict[str, Any]:
        """Return what was found, as JSON."""
        rate = 1 - self.equal / self.rows if self.rows else 0.0
        shown = {"rows": self.rows, "equal": self.equal, "disagreement": rate, "unlike": self.unlike}
        return {**shown, "difference": self.differences.show()} if self.numbers else shown


@dataclass
class Comparison:
    """How two versions of a model compare.

    Attributes:
        answers: That were compared.
        errors: Copies that the second version did not answer, by the name of the error's class.
        old: Seconds from admission to the answer, of the version that answered.
        new: The same of the second version.
        outputs: By name.
    """

    answers: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    old: Reservoir = field(default_factory=Reservoir)
    new: Reservoir = field(default_factory=Reservoir)
    outputs: dict[str, Output] = field(default_factory=dict)

    def add(self, old: Arrays, new: Arrays, seconds: tuple[float, float]) -> None:
        """Compare one answer; ``seconds`` are the old version's and the new one's."""
        self.answers += 1
        self.old.add(seconds[0])
        self.new.add(seconds[1])
        for name in [*old, *(name for name in new if name not in old)]:
            output = self.outputs.setdefault(name, Output())
            if name in old and name in new:
                output.add(old[name], new[name])
            else:
                output.unlike += 1

    def show(self) -> dict[str, Any]:
        """Return what was found, as JSON."""
        return {
            "answers": self.answers,
            "errors": dict(self.errors),
            "seconds": {"old": self.old.show(), "new": self.new.show()},
            "outputs": {name: output.show() for name, output in self.outputs.items()},
        }


def _plain(array: Any) -> Array:
    """Return an array that can be compared; what is missing is NaN or None."""
    if isinstance(array, np.ma.MaskedArray):
        return np.ma.filled(array.astype(np.float64), np.nan) if array.dtype.kind in "fiub" else array.filled(None)
    return np.asarray(array)


def markdown(report: Mapping[str, Any]) -> str:
    """Return a report on shadow traffic as Markdown."""
    lines = [f"# Shadow traffic of {report['model']}", ""]
    lines += [f"Copies that were dropped because the queue was full: {report['dropped']}", ""]
    for pair in report["pairs"]:
        lines += [f"## {pair['shadow']} against {pair['answered']}", ""]
        lines += [f"{pair['answers']} answers compared; not answered: {_listed(pair['errors'])}", ""]
        lines += ["| | mean | p50 | p90 | p99 | max |", "| --- | --- | --- | --- | --- | --- |"]
        lines += [_row(f"{side}, ms", pair["seconds"][side], 1000) for side in ("old", "new")]
        for name, output in pair["outputs"].items():
            if output.get("difference"):
                lines.append(_row(f"`{name}`, absolute difference", output["difference"], 1))
        lines += ["", "| output | rows | equal | disagreement | of another form |", "| --- | --- | --- | --- | --- |"]
        for name, output in pair["outputs"].items():
            rate = f"{output['disagreement']:.3%}"
            lines.append(f"| `{name}` | {output['rows']} | {output['equal']} | {rate} | {output['unlike']} |")
        lines.append("")
    return "\n".join(lines)


def _row(title: str, figures: Mapping[str, float], factor: float) -> str:
    cells = [
        f"{figures[name] * factor:.4g}" if name in figures else "" for name in ("mean", "p50", "p90", "p99", "max")
    ]
    return f"| {title} | {' | '.join(cells)} |"


def _listed(errors: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in errors.items()) or "none"
