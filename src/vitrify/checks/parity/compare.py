"""Compare: two sessions, many rows, one report."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.checks.parity import causes, distribution, form, nested, rounding, rows, steps
from vitrify.checks.parity.asking import Answer, ask, per_row
from vitrify.checks.parity.judge import Judge
from vitrify.checks.parity.measure import differ, errors
from vitrify.checks.parity.probes import Probe, call_probes, material, probes
from vitrify.checks.parity.tally import Answers, Tally
from vitrify.checks.parity.tolerance import Bound, Tolerance
from vitrify.core.errors import UsageError
from vitrify.core.progress import track
from vitrify.core.protocols import Picks, Stateful
from vitrify.core.report import Finding, Report

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from numpy.typing import NDArray

    from vitrify.core.protocols import Arrays, Session
    from vitrify.core.signature import Signature

ROWS = 20_000
"""Rows compared unless the caller says otherwise."""

MAX_ELEMENTS = 4_000_000
"""Array elements of inputs, or of outputs, that all probes together may have: 20 000 rows of 200 columns, or 26
pictures of 224 x 224 x 3."""

_TABLE = 2
"""Dimensions up to which an output is a table, each of whose columns has its own size."""

_FEWEST = 16
"""Rows compared however large one row is."""


@np.errstate(all="ignore")
def compare_sessions(
    candidate: Session,
    source: Session,
    samples: Arrays,
    tolerance: Tolerance | None = None,
    *,
    row_count: int = ROWS,
    model: Any = None,
    without: Collection[str] = (),
    state: Mapping[str, str] | None = None,
    stochastic: bool = False,
    seed: int = 0,
) -> Report:
    """Say whether two models predict the same, on samples and on probes made to break the candidate.

    Args:
        candidate: The model to be proven.
        source: The model that is right by definition.
        samples: Input rows by name, taken from real data.
        tolerance: What counts as the same; by default chosen from the precision that takes part.
        row_count: Rows compared in all, about; fewer where rows are large.
        model: The live model behind the source, whose tree thresholds become probes.
        without: Names of probes to leave out, as the report names them; it says so.
        state: Input to the output whose last value it takes in the next call: several calls in a row are compared.
        stochastic: Compare distributions, not values.
        seed: The same seed makes the same probes.

    Returns:
        A report of the check ``parity``; ``not checked`` where there was no row to compare.
    """
    steps.require(source.signature, state or {})
    remembers = any(isinstance(session, Stateful) for session in (candidate, source))
    wrapped: tuple[Session, Session] = (candidate, source)
    if remembers:
        wrapped = steps.Fresh(candidate), steps.Fresh(source)
    comparison = Comparison(
        *wrapped, samples, tolerance or Tolerance(), row_count, model, frozenset(without), seed, stochastic
    )
    if remembers or state:
        comparison.steps = (candidate, source, state or {})
    elif isinstance(source, Picks):
        comparison.first = source.picking_first()
    return comparison.report()


@dataclass
class Comparison:
    """One comparison while it goes on."""

    candidate: Session
    source: Session
    samples: Arrays
    tolerance: Tolerance
    row_count: int
    model: Any
    without: frozenset[str]
    seed: int
    stochastic: bool = False
    steps: tuple[Session, Session, Mapping[str, str]] | None = None
    first: Session | None = None
    findings: list[Finding] = field(default_factory=list)
    unsteady: set[str] = field(default_factory=set)
    compared: int = 0

    def report(self) -> Report:
        """Run it."""
        signature = self.source.signature
        samples = {f.name: np.asanyarray(self.samples[f.name]) for f in signature.inputs if f.name in self.samples}
        if len(samples) < len(signature.inputs) or not signature.inputs or not rows.count(samples):
            return self._unchecked("there are no samples: the model was saved without an example")
        samples = rows.take(samples, slice(0, self.row_count)) if signature.batched else samples
        first = ask(self.source, samples, rowwise=signature.batched)
        if first.outputs is None:
            return self._unchecked(f"the source refuses its own samples: {first.refusal}")
        rowwise = signature.batched and all(
            array.ndim and array.shape[0] == len(first.accepted) for array in first.outputs.values()
        )
        samples = rows.take(samples, first.accepted) if rowwise else samples
        if self.stochastic:
            return distribution.compare(self.candidate, self.source, samples, rowwise=rowwise)
        if widths := nested.widths(first.outputs):
            self.candidate, self.source = (nested.Flat(one, widths) for one in (self.candidate, self.source))
            self.first = None
        first = ask(self.source, samples, rowwise=rowwise) if widths else first
        assert first.outputs is not None
        bounds = self._bounds(samples, first.outputs, rowwise=rowwise)
        alone = ask(self.source, rows.take(samples, slice(0, 1)), rowwise=True).outputs if rowwise else None
        self._steady(alone or {}, bounds, rowwise=rowwise)
        if self.unsteady:
            return Report(check="parity", verdict="found", findings=tuple(self.findings))
        noise = self._noise(samples, first.outputs, bounds, rowwise=rowwise)
        bounds = rounding.widened(self.source, samples, first.outputs, bounds) if rowwise else bounds
        self._classes()
        tally = Tally(bounds, rowwise)
        self._compare_all(samples, first, tally, rowwise=rowwise)
        figures = self._steps(samples, bounds)
        self.findings += causes.findings(tally, self._pattern(samples, first.outputs, bounds, rowwise=rowwise))
        if not self.compared:
            return self._unchecked("no row was answered by both")
        return Report(
            check="parity",
            verdict="found" if self.findings else "clean",
            findings=tuple(self.findings),
            details={
                "rows": {"compared": self.compared, "samples": rows.count(samples)},
                "tolerance": self.tolerance.details(),
                **tally.details(),
                "noise": noise,
                **figures,
                "left_out": sorted(self.without),
                "seed": self.seed,
                "versions": {"numpy": np.__version__, "python": platform.python_version()},
            },
        )

    def _steps(self, samples: Arrays, bounds: dict[str, Bound]) -> dict[str, Any]:
        """Compare several calls in a row, where the model remembers."""
        if self.steps is None:
            return {}
        candidate, source, state = self.steps
        found, figures = steps.compare(candidate, source, samples, bounds, state)
        self.findings += found
        return {"steps": figures}

    def _compare_all(self, samples: Arrays, first: Answer, tally: Tally, *, rowwise: bool) -> None:
        judge = Judge(self.source, tally.bounds, rowwise, self.seed, first.outputs, self.first)
        wanted = self._affordable(samples, first.outputs or {}, rowwise=rowwise)
        stock = material(self.source.signature, samples, wanted, self.seed)
        start = Probe("samples", rows.take(stock.samples, slice(0, wanted)) if rowwise else stock.samples)
        rest = probes(stock, self.source, tally.bounds, self.model) if rowwise else call_probes(stock)
        known = set()
        with track("comparing predictions", total=wanted if rowwise else None) as bar:
            for probe in _chain(start, rest):
                known.add(probe.name)
                if probe.name not in self.without:
                    self._compare(probe, judge, tally)
                bar.advance(rows.count(probe.arrays) if rowwise else 1)
        if unknown := sorted(self.without - known):
            names = ", ".join(map(repr, unknown))
            msg = f"no probe of this model is called {names} (there are: {', '.join(sorted(known))})"
            raise UsageError(msg, remedy="leave out probes by these names")

    def _affordable(self, samples: Arrays, outputs: Arrays, *, rowwise: bool) -> int:
        if not rowwise:
            return 1
        total = max(rows.count(samples), 1)
        largest = max(sum(array.size for array in arrays.values()) // total for arrays in (samples, outputs))
        return max(min(self.row_count, MAX_ELEMENTS // max(largest, 1)), min(_FEWEST, self.row_count), 1)

    def _compare(self, probe: Probe, judge: Judge, tally: Tally) -> None:
        total = rows.count(probe.arrays) if judge.rowwise else 1
        said = ask(self.source, probe.arrays, rowwise=judge.rowwise)
        tally.count(probe.name, rows=total, refused=total - len(said.accepted))
        if said.outputs is None:  # the candidate is not asked what the source refuses: some engines then crash
            return
        inputs = rows.take(probe.arrays, said.accepted) if judge.rowwise else probe.arrays
        got = ask(self.candidate, inputs, rowwise=judge.rowwise)
        if got.refusal or got.outputs is None:
            self._refusal(probe, len(said.accepted) - len(got.accepted), len(said.accepted), got.refusal)
        if got.outputs is None:
            return
        expected = said.outputs if not judge.rowwise else rows.take(said.outputs, got.accepted)
        inputs = rows.take(inputs, got.accepted) if judge.rowwise else inputs
        places = said.accepted[got.accepted] if judge.rowwise else np.arange(1)
        expected = self._steady(expected, judge.bounds, rowwise=judge.rowwise)
        if not self._same_form(probe, got.outputs, expected):
            expected = {
                name: array for name, array in expected.items() if form.comparable(got.outputs.get(name), array)
            }
        if expected and len(places):
            self.compared += len(places)
            answers = Answers(probe, places, inputs, got.outputs, expected)
            tally.add(answers, judge.rule(inputs, got.outputs, expected))

    def _refusal(self, probe: Probe, count: int, total: int, message: str) -> None:
        self._find(
            f"probe {probe.name!r}",
            f"the candidate refuses {count or 'the batch'} of {total} rows that the source accepts: {message}",
            f"likely cause: {probe.hint}" if probe.hint else "",
        )

    def _steady(self, expected: Arrays, bounds: dict[str, Bound], *, rowwise: bool) -> Arrays:
        """Return the source's answers without those that have more or fewer values a row than to the samples."""
        kept = {}
        for name, array in expected.items():
            bound = bounds.get(name)
            width = per_row(array, rowwise=rowwise).shape[1]
            if bound is None or len(bound.atol) in {1, width}:
                kept[name] = array
            elif name not in self.unsteady:
                self.unsteady.add(name)
                self._find(
                    f"output {name!r}",
                    f"the source gives {width} values a row, and {len(bound.atol)} for its samples: its answer "
                    "to a row depends on the other rows of its call",
                    "let the model answer each row for itself",
                )
        return kept

    def _same_form(self, probe: Probe, got: Arrays, expected: Arrays) -> bool:
        """Hold the outputs' names, types and shapes against each other, strictly."""
        problems = form.problems(got, expected)
        known = {(found.place, found.message.partition(", in probe")[0]) for found in self.findings}
        for name, problem in problems.items():
            if (f"output {name!r}", problem) not in known:
                self._find(f"output {name!r}", f"{problem}, in probe {probe.name!r}", probe.hint)
        return not problems

    def _bounds(self, samples: Arrays, expected: Arrays, *, rowwise: bool) -> dict[str, Bound]:
        got = ask(self.candidate, samples, rowwise=rowwise).outputs or {}
        return bounds(self.tolerance, self.source.signature, expected, got, rowwise=rowwise)

    def _noise(self, samples: Arrays, once: Arrays, bounds: dict[str, Bound], *, rowwise: bool) -> dict[str, Any]:
        """Ask the source the same again; a model that does not agree with itself cannot be proven."""
        again = ask(self.source, samples, rowwise=rowwise).outputs or {}
        noise: dict[str, Any] = {}
        for name, array in once.items():
            if name not in again or again[name].shape != array.shape:
                self._find(f"output {name!r}", "the source answers the same rows in another shape the second time")
                continue
            pair = per_row(again[name], rowwise=rowwise), per_row(array, rowwise=rowwise)
            if name in bounds:
                measured = errors(*pair, bounds[name])
                noise[name] = rows.plain(float(measured.absolute.max(initial=0.0)))
                unstable = bool((measured.excess > 1).any())
            else:
                noise[name] = int(differ(*pair).sum())
                unstable = noise[name] > 0
            if unstable:
                self._find(
                    f"output {name!r}",
                    f"the source gives the same rows different answers (by up to {noise[name]}): it cannot be proven",
                    "fix its random state, or put it into evaluation mode",
                )
        return noise

    def _classes(self) -> None:
        """Hold the class labels of outputs of one name against each other: same labels, same order."""
        theirs = {f.name: f.classes for f in self.candidate.signature.outputs}
        for output in self.source.signature.outputs:
            classes = theirs.get(output.name)
            if output.classes is not None and classes is not None and classes != output.classes:
                self._find(f"output {output.name!r}", f"has the classes {classes}, expected {output.classes}")

    def _pattern(self, samples: Arrays, expected: Arrays, bounds: dict[str, Bound], *, rowwise: bool) -> dict[str, str]:
        """Return a guess for each output whose sample rows are off in a regular way."""
        got = ask(self.candidate, samples, rowwise=rowwise).outputs or {}
        return {
            name: guess
            for name, bound in bounds.items()
            if form.comparable(got.get(name), expected[name])
            and (guess := causes.pattern(_lines(got, name, rowwise), _lines(expected, name, rowwise), bound))
        }

    def _find(self, place: str, message: str, remedy: str = "") -> None:
        self.findings.append(Finding(place=place, message=message, remedy=remedy))

    def _unchecked(self, why: str) -> Report:
        findings = (
            *self.findings,
            Finding(place="samples", message=why, remedy="give example rows that the model accepts"),
        )
        return Report(check="parity", verdict="found" if self.findings else "not checked", findings=findings)


def bounds(
    tolerance: Tolerance, signature: Signature, expected: Arrays, got: Arrays, *, rowwise: bool
) -> dict[str, Bound]:
    """Return what applies to each floating-point output, from both models' answers to the samples."""
    fixed = all(isinstance(size, int) for field in signature.inputs for size in field.shape[1:])
    return {
        name: tolerance.bound(array, got.get(name), columns=rowwise and fixed and array.ndim <= _TABLE)
        for name, array in expected.items()
        if array.dtype.kind in "fc"
    }


def _chain(first: Probe, rest: Iterator[Probe]) -> Iterator[Probe]:
    yield first
    yield from rest


def _lines(arrays: Arrays, name: str, rowwise: bool) -> NDArray[Any]:  # noqa: FBT001 (one flag, named alike at the call)
    return per_row(arrays[name], rowwise=rowwise)
