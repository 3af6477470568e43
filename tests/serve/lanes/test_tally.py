"""What is counted, and when to come again."""

from __future__ import annotations

import pytest

from vitrify.serve.lanes import BOUNDS, ROW_BOUNDS
from vitrify.serve.lanes._tally import Tally


def now(tally):
    return tally.figures(waiting=1, running=2, stuck=False)


@pytest.mark.parametrize(
    ("rows", "bucket"), [(0, 0), (1, 0), (2, 1), (3, 2), (32, 5), (33, 6), (512, 9), (513, len(ROW_BOUNDS))]
)
def test_a_bound_is_the_last_of_its_bucket(rows, bucket):
    tally = Tally()
    tally.ran(rows, 1, BOUNDS[3])
    figures = now(tally)
    assert [index for index, count in enumerate(figures.batch_rows.counts) if count] == [bucket]
    assert [index for index, count in enumerate(figures.computed.counts) if count] == [3]
    assert (figures.batch_rows.total, figures.computed.total) == (rows, BOUNDS[3])


def test_figures_are_a_copy():
    tally = Tally()
    before = now(tally)
    tally.failed("BusyError")
    tally.answered(0.5)
    tally.queued(0.5)
    assert (before.ok, before.failed, sum(before.answered.counts), sum(before.queued.counts)) == (0, {}, 0, 0)


def test_who_is_refused_is_told_how_long_the_queue_takes():
    tally = Tally()
    assert tally.retry_after(100, 1) == 1.0
    tally.ran(8, 4, 2.0)
    assert tally.retry_after(10, 1) == pytest.approx(5.0)
    assert tally.retry_after(10, 2) == pytest.approx(2.5)
    assert tally.retry_after(0, 1) == 0.1
    assert tally.retry_after(10_000, 1) == 60.0


def test_the_pace_follows_the_latest_batches():
    tally = Tally()
    for seconds in [10.0, *[1.0] * 50]:
        tally.ran(1, 1, seconds)
    assert tally.retry_after(10, 1) == pytest.approx(10.0, rel=0.01)
