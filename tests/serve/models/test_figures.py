from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vitrify.serve.lanes import BOUNDS, Figures, Histogram
from vitrify.serve.models.figures import together


@given(st.lists(st.integers(0, 1000), max_size=5))
def test_figures_of_several_lanes_add_up(counts):
    lanes = [
        Figures(ok=n, failed={"BusyError": n}, rows=2 * n, queued=Histogram([n] * (len(BOUNDS) + 1), n / 2), last=n)
        for n in counts
    ]
    sums = together(lanes)
    assert (sums.ok, sums.rows, sums.queued.total) == (sum(counts), 2 * sum(counts), sum(counts) / 2)
    assert sums.queued.counts == [sum(counts)] * (len(BOUNDS) + 1)
    assert sums.failed.get("BusyError", 0) == sum(counts)
    assert sums.last == max(counts, default=0)
    assert together([sums, together(())]) == sums
