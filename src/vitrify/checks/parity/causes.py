"""Causes: what a difference most likely comes from, and the findings that say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.report import Finding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vitrify.checks.parity.tally import Tally, Worst
    from vitrify.checks.parity.tolerance import Bound

_FINDINGS = 10
"""Findings listed; further ones are counted."""

ORDINARY = ("samples", "jittered", "shuffled")
"""Probes of ordinary rows."""

_SHARE = 0.1
"""Of ordinary rows, from which on no single probe is to blame."""

_FEW = 4
"""Rows below which nothing looks regular."""

_PERMUTED = 64
"""Columns up to which another order is looked for."""


def findings(tally: Tally, patterns: dict[str, str]) -> list[Finding]:
    """Return what was found, the furthest off first.

    There is one finding for each output and probe; but where an output is off in ordinary rows, one for all probes.
    """
    found: list[Finding] = []
    general = {name: _general(tally, name, patterns.get(name)) for name in tally.outputs}
    told: set[str] = set()
    for worst in tally.ranked:
        cause = general[worst.output]
        if cause is None:
            found.append(_finding(worst, tally, worst.hint, {worst.probe}))
        elif worst.output not in told:
            told.add(worst.output)
            found.append(_finding(worst, tally, cause, set(tally.outputs[worst.output].failed)))
    if len(found) <= _FINDINGS:
        return found
    rest = len(found) - _FINDINGS
    return [*found[:_FINDINGS], Finding(place="other probes", message=f"{rest} more findings of this kind")]


def _general(tally: Tally, output: str, guess: str | None) -> str | None:
    """Return the cause where ordinary rows are off, so that no probe is to blame; None where they are not."""
    failed = tally.outputs[output].failed
    asked = {name: tally.probes[name]["rows"] for name in ORDINARY if name in tally.probes}
    if guess or not any(failed[name] > _SHARE * rows for name, rows in asked.items()):
        return guess
    bound = tally.bounds.get(output)
    return "the model needs more precision than float32 has" if bound and bound.measured else ""


def _finding(worst: Worst, tally: Tally, cause: str, probes: set[str]) -> Finding:
    total = sum(tally.probes[name]["rows"] - tally.probes[name]["refused"] for name in probes)
    failed = sum(tally.outputs[worst.output].failed[name] for name in probes)
    how = f"{worst.excess:.3g} times what is allowed" if worst.output in tally.bounds else "not equal"
    details = worst.details()
    more = f" and {len(probes) - 1} more" if len(probes) > 1 else ""
    return Finding(
        place=f"output {worst.output!r}, probe {worst.probe!r}{more}",
        message=(
            f"{failed:,} of {total:,} rows are not the same; worst: row {worst.row}, got {details['got']!r}, "
            f"expected {details['expected']!r} ({how}), for {details['inputs']!r}"
        ),
        remedy=f"likely cause: {cause}" if cause else "",
    )


def pattern(got: NDArray[Any], expected: NDArray[Any], bound: Bound) -> str:
    """Describe a difference that is the same in every row: an offset, a factor, another order of columns."""
    if got.dtype.kind == "c" or expected.dtype.kind == "c" or len(got) < _FEW:
        return ""
    a, b = got.astype(np.float64), expected.astype(np.float64)
    keep = np.isfinite(a).all(axis=1) & np.isfinite(b).all(axis=1)
    a, b = a[keep], b[keep]
    allowed = bound.allowed(b)
    if len(a) < _FEW or bool(np.all(np.abs(a - b) <= allowed)):
        return ""
    offset = np.median(a - b, axis=0)
    if bool(np.all(np.abs(a - b - offset) <= allowed)):
        return f"every row is off by the same amount ({_shown(offset)}): a base score or intercept"
    factor = np.sum(a * b, axis=0) / np.maximum(np.sum(b * b, axis=0), np.finfo(np.float64).tiny)
    if bool(np.all(np.abs(a - b * factor) <= allowed)) and bool(np.any(factor != 0)):
        return f"every row is off by the same factor ({_shown(factor)}): a sum instead of a mean, or a scale"
    if order := _order(a, b, allowed):
        return f"the columns are in another order: {order}"
    return ""


def _order(a: NDArray[np.float64], b: NDArray[np.float64], allowed: NDArray[np.float64]) -> list[int]:
    """Return which expected column each given column is, where each is exactly one."""
    if not 1 < a.shape[1] <= _PERMUTED:
        return []
    same = np.array(
        [[bool(np.all(np.abs(x - y) <= slack)) for y, slack in zip(b.T, allowed.T, strict=True)] for x in a.T]
    )
    if not bool(np.all(same.sum(axis=1) == 1)) or not bool(np.all(same.sum(axis=0) == 1)):
        return []
    return [int(i) for i in same.argmax(axis=1)]


def _shown(values: NDArray[np.float64]) -> str:
    return ", ".join(f"{value:.6g}" for value in values[:3]) + (", ..." if values[3:].size else "")
