"""The figures of a version across its lanes: a reload opens a new lane, and nothing that was counted is lost."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from vitrify.serve.lanes import BOUNDS, ROW_BOUNDS, Figures, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable


def together(parts: Iterable[Figures]) -> Figures:
    """Return the sum of what several lanes of one version have done; without any, nothing in every bucket."""
    parts = tuple(parts)
    failed: Counter[str] = Counter()
    for part in parts:
        failed.update(part.failed)
    return Figures(
        waiting=sum(part.waiting for part in parts),
        running=sum(part.running for part in parts),
        stuck=any(part.stuck for part in parts),
        ok=sum(part.ok for part in parts),
        failed=dict(failed),
        batches=sum(part.batches for part in parts),
        rows=sum(part.rows for part in parts),
        batch_rows=_sum([part.batch_rows for part in parts], len(ROW_BOUNDS)),
        queued=_sum([part.queued for part in parts], len(BOUNDS)),
        computed=_sum([part.computed for part in parts], len(BOUNDS)),
        answered=_sum([part.answered for part in parts], len(BOUNDS)),
        last=max((part.last for part in parts), default=0.0),
    )


def _sum(parts: list[Histogram], bounds: int) -> Histogram:
    counts = [0] * (bounds + 1)
    for part in parts:
        for bucket, count in enumerate(part.counts):
            counts[bucket] += count
    return Histogram(counts, sum(part.total for part in parts))
