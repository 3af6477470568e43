"""Figures as text: Prometheus' format, and OpenMetrics.

Sources: https://prometheus.io/docs/instrumenting/exposition_formats/ (text format 0.0.4);
https://prometheus.io/docs/specs/om/open_metrics_spec/ (1.0).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vitrify.serve.lanes import Histogram

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass
class Family:
    """One figure, by its labels.

    Attributes:
        name: Without the ``_total`` of a counter.
        kind: What it is.
        what: One sentence for people.
        samples: The end of the name, the labels and the value of each line.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    what: str
    samples: list[tuple[str, Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float, **labels: str) -> Family:
        """Add a value, and return the family."""
        self.samples.append(("_total" if self.kind == "counter" else "", labels, value))
        return self

    def count(self, bounds: Sequence[float], histogram: Histogram, **labels: str) -> Family:
        """Add a histogram, whose counts are not cumulated, and return the family."""
        sums = list(accumulate(histogram.counts))
        for bound, count in zip((*bounds, math.inf), sums, strict=True):
            self.samples.append(("_bucket", {**labels, "le": _number(float(bound))}, count))
        self.samples += [("_sum", labels, histogram.total), ("_count", labels, sums[-1])]
        return self


def written(families: Iterable[Family], *, openmetrics: bool = False, common: Mapping[str, str] | None = None) -> str:
    """Return figures as text; families without a value are left out.

    Args:
        families: Each name once.
        openmetrics: In which of the two formats.
        common: Labels of every line.
    """
    lines = [line for family in families if family.samples for line in _lines(family, common or {}, openmetrics)]
    return "\n".join([*lines, *(["# EOF"] if openmetrics else []), ""])


def _lines(family: Family, common: Mapping[str, str], openmetrics: bool) -> Iterator[str]:  # noqa: FBT001 (private)
    name = f"{family.name}_total" if family.kind == "counter" and not openmetrics else family.name
    yield f"# HELP {name} {family.what.translate(_ESCAPES)}"
    yield f"# TYPE {name} {family.kind}"
    for end, labels, value in family.samples:
        text = ",".join(f'{label}="{said.translate(_ESCAPES)}"' for label, said in {**common, **labels}.items())
        yield f"{family.name}{end}{f'{{{text}}}' if text else ''} {_number(value)}"


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(int(value))
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(value)
