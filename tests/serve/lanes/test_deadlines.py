"""Which request is late next."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from vitrify.serve.lanes._deadlines import Deadlines


def test_without_requests_nothing_is_late():
    deadlines = Deadlines(set())
    assert (deadlines.late(1e9), deadlines.next(), len(deadlines)) == ([], math.inf, 0)


def test_a_deadline_that_is_reached_has_passed():
    deadlines = Deadlines({1, 2})
    deadlines.push(5.0, 1)
    deadlines.push(5.5, 2)
    assert deadlines.late(4.9) == []
    assert (deadlines.next(), deadlines.late(5.0), deadlines.next()) == (5.0, [1], 5.5)


def test_deadlines_of_requests_that_are_done_do_not_pile_up():
    live = set()
    deadlines = Deadlines(live)
    for number in range(10_000):
        live.add(number)
        deadlines.push(60.0 + number, number)
        live.discard(number - 5)
        assert len(deadlines) <= 80


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=200), st.integers(-1, 21))
def test_exactly_the_live_ones_are_late_and_in_order(asked, now):
    live = set(range(len(asked)))
    deadlines = Deadlines(live)
    for number, (deadline, _) in enumerate(asked):
        deadlines.push(float(deadline), number)
    live -= {number for number, (_, done) in enumerate(asked) if done}
    expected = sorted((deadline, number) for number, (deadline, done) in enumerate(asked) if not done)
    assert deadlines.late(now) == [number for deadline, number in expected if deadline <= now]
    assert deadlines.next() == min((float(deadline) for deadline, _ in expected if deadline > now), default=math.inf)
