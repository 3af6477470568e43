"""The tally: what a lane has done, counted as it happens. Nothing here is locked: the lane does that."""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import replace

from vitrify.serve.lanes import BOUNDS, ROW_BOUNDS, Figures, Histogram

_WEIGHT = 0.2
"""Of the latest batch in the average time a request takes."""
_FIRST = 1.0
"""Seconds after which to come again, where nothing was run yet."""
_SOONEST, _LATEST = 0.1, 60.0


class Tally:
    """Counts and histograms of one lane."""

    def __init__(self) -> None:
        empty = [0] * (len(BOUNDS) + 1)
        self._figures = Figures(
            batch_rows=Histogram([0] * (len(ROW_BOUNDS) + 1)),
            queued=Histogram(empty.copy()),
            computed=Histogram(empty.copy()),
            answered=Histogram(empty.copy()),
        )
        self._pace = 0.0

    def figures(self, *, waiting: int, running: int, stuck: bool) -> Figures:
        """Return a copy, with what is now."""
        now = self._figures
        return replace(
            now,
            waiting=waiting,
            running=running,
            stuck=stuck,
            failed=dict(now.failed),
            batch_rows=_copy(now.batch_rows),
            queued=_copy(now.queued),
            computed=_copy(now.computed),
            answered=_copy(now.answered),
        )

    def admitted(self) -> None:
        """Note that a request was taken."""
        self._figures.last = time.time()

    def queued(self, seconds: float) -> None:
        """Note how long a request waited for its first piece to be run."""
        _add(self._figures.queued, BOUNDS, seconds)

    def ran(self, rows: int, requests: int, seconds: float) -> None:
        """Note a batch, whatever became of it."""
        figures = self._figures
        figures.batches += 1
        figures.rows += rows
        _add(figures.batch_rows, ROW_BOUNDS, rows)
        _add(figures.computed, BOUNDS, seconds)
        each = seconds / max(requests, 1)
        self._pace = each if not self._pace else self._pace + (each - self._pace) * _WEIGHT

    def answered(self, seconds: float) -> None:
        """Note a request that has its answer."""
        self._figures.ok += 1
        _add(self._figures.answered, BOUNDS, seconds)

    def failed(self, name: str) -> None:
        """Note a request that has none, by the name of its error's class."""
        failed = self._figures.failed
        failed[name] = failed.get(name, 0) + 1

    def retry_after(self, waiting: int, instances: int) -> float:
        """Return the seconds in which what waits will be done, at the pace of the latest batches."""
        if not self._pace:
            return _FIRST
        return min(max(waiting * self._pace / instances, _SOONEST), _LATEST)


def _add(histogram: Histogram, bounds: tuple[float, ...], value: float) -> None:
    histogram.counts[bisect_left(bounds, value)] += 1
    histogram.total += value


def _copy(histogram: Histogram) -> Histogram:
    return Histogram(list(histogram.counts), histogram.total)
