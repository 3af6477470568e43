"""Tally: adds up what was ruled, probe after probe, into the figures of the report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.checks.parity.rows import plain, row

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vitrify.checks.parity.judge import Ruling
    from vitrify.checks.parity.probes import Probe
    from vitrify.checks.parity.tolerance import Bound
    from vitrify.core.protocols import Arrays

WORST = 5
"""Rows shown of all that are furthest apart."""

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
_KINDS = ("absolute", "relative", "ulp")
_LOWEST, _HIGHEST = -20, 4
"""Decades of the histogram; what lies outside is counted in the outermost."""


@dataclass(frozen=True)
class Worst:
    """One row that is far off.

    Attributes:
        excess: How many times what is allowed.
        output: The output.
        probe: The probe that found it.
        row: Its number within that probe.
        inputs: The row.
        got: What the candidate said.
        expected: What the source said.
        hint: What it most likely means.
    """

    excess: float
    output: str
    probe: str
    row: int
    inputs: dict[str, Any]
    got: Any
    expected: Any
    hint: str

    def details(self) -> dict[str, Any]:
        """Return it as JSON."""
        names = ("output", "probe", "row", "inputs", "got", "expected", "excess", "hint")
        return {name: plain(getattr(self, name)) for name in names}


@dataclass(frozen=True)
class Answers:
    """What both said to the rows of one probe that both accepted; ``places`` are the rows' numbers within it."""

    probe: Probe
    places: NDArray[np.intp]
    inputs: Arrays
    got: Arrays
    expected: Arrays


@dataclass
class _Output:
    """The running figures of one output."""

    rows: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    errors: dict[str, list[NDArray[np.float64]]] = field(default_factory=dict)


@dataclass
class Tally:
    """The running figures of a comparison; ``bounds`` holds the floating-point outputs."""

    bounds: dict[str, Bound]
    rowwise: bool
    outputs: dict[str, _Output] = field(default_factory=dict)
    probes: dict[str, Counter[str]] = field(default_factory=dict)
    worst: dict[tuple[str, str], Worst] = field(default_factory=dict)

    def count(self, probe: str, **amounts: int) -> None:
        """Add to the figures of a probe."""
        self.probes.setdefault(probe, Counter()).update(amounts)

    def add(self, answers: Answers, rulings: dict[str, Ruling]) -> None:
        """Add the rulings on the rows of one probe."""
        probe = answers.probe.name
        for name, ruling in rulings.items():
            output = self.outputs.setdefault(name, _Output())
            failed = int(ruling.failed.sum())
            output.rows += len(ruling.failed)
            output.counts.update(
                failed=failed,
                ties=int(ruling.ties.sum()),
                ill_conditioned=int(ruling.ill.sum()),
                overflowed=int(ruling.overflowed.sum()),
                unanswered=int(ruling.unanswered.sum()),
            )
            for kind in (*_KINDS, "scaled") if ruling.errors else ():
                output.errors.setdefault(kind, []).append(getattr(ruling.errors, kind)[ruling.measured])
            if failed:
                output.failed[probe] += failed
                self.count(probe, failed=failed)
                self._keep(answers, name, ruling)

    def _keep(self, answers: Answers, name: str, ruling: Ruling) -> None:
        at = int(np.argmax(np.where(ruling.failed, ruling.excess, -1.0)))
        inputs = row(answers.inputs, at) if self.rowwise else plain(answers.inputs)
        got, expected = answers.got[name], answers.expected[name]
        self.worst[name, answers.probe.name] = Worst(
            excess=float(ruling.excess[at]),
            output=name,
            probe=answers.probe.name,
            row=int(answers.places[at]),
            inputs=inputs,
            got=plain(got[at] if self.rowwise else got),
            expected=plain(expected[at] if self.rowwise else expected),
            hint=answers.probe.hint,
        )

    @property
    def ranked(self) -> list[Worst]:
        """The worst row of each output and probe, the furthest first."""
        return sorted(self.worst.values(), key=lambda worst: (-worst.excess, worst.output, worst.probe))

    def details(self) -> dict[str, Any]:
        """Return all figures as JSON."""
        return {
            "outputs": {name: self._details(name, output) for name, output in self.outputs.items()},
            "probes": {name: dict(counts) for name, counts in self.probes.items()},
            "worst": [worst.details() for worst in self.ranked[:WORST]],
        }

    def _details(self, name: str, output: _Output) -> dict[str, Any]:
        counts = {key: output.counts[key] for key in ("failed", "ties", "ill_conditioned", "overflowed", "unanswered")}
        if name not in self.bounds:
            return {"kind": "exact", "rows": output.rows, **counts}
        bound = self.bounds[name]
        errors = {kind: np.concatenate(parts) for kind, parts in output.errors.items()}
        return {
            "kind": "float",
            "rows": output.rows,
            **counts,
            "tolerance": bound.details(),
            **{kind: quantiles(errors.get(kind, np.zeros(0))) for kind in _KINDS},
            "histogram": histogram(errors.get("scaled", np.zeros(0)), bound),
        }


def quantiles(values: NDArray[np.float64]) -> dict[str, Any]:
    """Return the largest of the rows' errors and the values that 50, 90, 99 and 99.9 percent do not exceed."""
    if not len(values):
        return {"max": 0.0, **dict.fromkeys(_QUANTILES, 0.0)}
    found = np.quantile(values, list(_QUANTILES.values()), method="higher")
    return {"max": plain(float(values.max())), **{k: plain(float(v)) for k, v in zip(_QUANTILES, found, strict=True)}}


def histogram(values: NDArray[np.float64], bound: Bound) -> dict[str, Any]:
    """Count the rows by the decade of their scaled error (see :class:`.measure.Errors`).

    ``decades`` maps the exponent of the lower end of each decade to its rows; rows that are equal to the bit and
    rows that are not finite stand apart. ``line`` is the tolerance on the same axis.
    """
    finite = values[np.isfinite(values) & (values > 0)]
    decades = np.clip(np.floor(np.log10(finite)), _LOWEST, _HIGHEST).astype(int)
    line = bound.rtol or float(bound.atol.max(initial=0.0))
    return {
        "axis": "relative to the value and the output's scale" if bound.rtol else "absolute",
        "line": line,
        "equal": int((values == 0).sum()),
        "infinite": int(np.isinf(values).sum()),
        "decades": {str(decade): count for decade, count in sorted(Counter(decades.tolist()).items())},
    }
