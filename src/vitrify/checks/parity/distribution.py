"""Distribution: models that draw at random (sampling, dropout at inference), compared as distributions.

Each model answers the same rows many times; every element's two samples are held against each other by the
Kolmogorov-Smirnov test, corrected for the number of elements (Bonferroni). Equal distributions fail with a probability
below ``LEVEL``; that two distributions nearer than the critical distance are told apart is not promised.

Source: N. Smirnov, Annals of Mathematical Statistics 19 (1948); critical values as in Knuth, TAOCP 2, section 3.3.1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.checks.parity import rows
from vitrify.checks.parity.asking import per_row, run
from vitrify.core.progress import track
from vitrify.core.report import Finding, Report

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vitrify.core.protocols import Arrays, Session

DRAWS = 300
LEVEL = 1e-4
_ROWS = 8
_ELEMENTS = 512
"""Elements of one output tested, spread evenly over it."""


def compare(candidate: Session, source: Session, samples: Arrays, *, rowwise: bool) -> Report:
    """Say whether two models that draw at random draw from the same distributions."""
    inputs = rows.take(samples, slice(0, _ROWS)) if rowwise else samples
    with track("drawing", total=2 * DRAWS) as bar:
        expected = _draws(source, inputs, bar)
        got = _draws(candidate, inputs, bar)
    tests = sum(min(array.shape[1], _ELEMENTS) for array in expected.values())
    critical = math.sqrt(-math.log(LEVEL / (2 * max(tests, 1))) / DRAWS)
    found, figures = [], {}
    for name, array in expected.items():
        if name not in got or got[name].shape != array.shape:
            found.append(Finding(place=f"output {name!r}", message="is missing, or of another shape"))
            continue
        at = np.unique(np.linspace(0, array.shape[1] - 1, min(array.shape[1], _ELEMENTS)).astype(np.intp))
        distances = np.array([_distance(got[name][:, i], array[:, i]) for i in at])
        figures[name] = {"elements": len(at), "largest_distance": round(float(distances.max(initial=0.0)), 4)}
        if (far := int((distances > critical).sum())) > 0:
            message = (
                f"{far} of {len(at)} elements are drawn from another distribution "
                f"(distance up to {distances.max():.3f}, allowed {critical:.3f})"
            )
            found.append(
                Finding(place=f"output {name!r}", message=message, remedy="compare the random operators of both")
            )
    counted = rows.count(inputs) if rowwise else 1
    details = {
        "rows": {"compared": counted, "samples": counted},
        "distribution": {"draws": DRAWS, "level": LEVEL, "critical_distance": round(critical, 4), "outputs": figures},
        "outputs": {},
    }
    return Report.of("parity", found, details)


def _draws(session: Session, inputs: Arrays, bar: Any) -> dict[str, NDArray[Any]]:
    """Return for each output one draw a line, its elements flattened; labels as numbers."""
    drawn: dict[str, list[NDArray[Any]]] = {}
    for _ in range(DRAWS):
        for name, array in run(session, inputs).items():
            drawn.setdefault(name, []).append(per_row(array, rowwise=False)[0])
        bar.advance()
    return {name: _numbers(np.stack(lines)) for name, lines in drawn.items() if len({x.shape for x in lines}) == 1}


def _numbers(values: NDArray[Any]) -> NDArray[np.float64]:
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    codes: dict[str, float] = {}
    return np.array([[codes.setdefault(str(v), _code(str(v))) for v in line] for line in values])


def _code(text: str) -> float:
    """Return a number that is the same for the same text in both models."""
    import zlib

    return float(zlib.crc32(text.encode()))


def _distance(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Return the largest distance of the two empirical distribution functions."""
    both = np.sort(np.concatenate([left, right]))
    ranks = [np.searchsorted(np.sort(side), both, side="right") / len(side) for side in (left, right)]
    return float(np.abs(ranks[0] - ranks[1]).max())
