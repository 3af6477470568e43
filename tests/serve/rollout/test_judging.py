"""Whether a canary goes on, waits, or is taken back."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.serve.lanes import Figures
from vitrify.serve.rollout.drift import Distance
from vitrify.serve.rollout.judging import Side, chance, judge, side
from vitrify.serve.settings import CanarySettings

CANARY = CanarySettings(version="2", seconds=60.0, requests=100)


def latencies(seconds=0.002, count=200):
    """Latencies that are spread by a tenth around some seconds."""
    return seconds * (1 + np.linspace(-0.1, 0.1, count))


def did(requests=200, failed=0, seconds=0.002):
    return Side(requests, failed, latencies(seconds, max(1, requests - failed)))


def apart(value, noise=0.05):
    return Distance("Y", "population stability index", value, noise)


OLD = did(10_000, 10)


@pytest.mark.parametrize(
    ("new", "drift", "seconds", "expected"),
    [
        (did(), None, 61.0, ("advance", "fine")),
        (did(), apart(0.19), 61.0, ("advance", "fine")),
        (did(requests=99), None, 61.0, ("hold", "waiting")),
        (did(), None, 59.0, ("hold", "waiting")),
        (did(failed=40), None, 1.0, ("roll back", "errors")),  # at once: no step is waited for
        (did(requests=3, failed=3), None, 1.0, ("roll back", "errors")),
        (did(requests=1, failed=1), None, 1.0, ("hold", "waiting")),  # one may be chance
        (did(failed=4), None, 61.0, ("hold", "errors")),
        (did(failed=2), None, 61.0, ("advance", "fine")),
        (did(seconds=0.02), None, 1.0, ("roll back", "latency")),
        (did(seconds=0.0025), None, 61.0, ("advance", "fine")),
        (did(seconds=0.0028), None, 61.0, ("advance", "fine")),  # half as much again, but less than a millisecond more
        (did(), apart(0.5), 1.0, ("roll back", "drift")),
        (did(), apart(0.22), 61.0, ("hold", "drift")),
        (did(failed=100, seconds=1.0), apart(9.0), 61.0, ("roll back", "errors")),
    ],
)
def test_it_is_taken_back_where_it_is_surely_worse_and_waits_where_it_may_be(new, drift, seconds, expected):
    verdict = judge(OLD, new, drift, seconds, CANARY)
    assert (verdict.action, verdict.cause) == expected
    assert verdict.reason
    assert verdict.figures["new_requests"] == new.requests


def test_one_slow_request_is_no_reason_and_a_few_are_one_to_wait():
    times = latencies()
    for slow, expected in ((1, "advance"), (4, "hold"), (20, "roll back")):
        some = times.copy()
        some[:slow] = 1.0
        assert judge(OLD, Side(200, 0, some), None, 61.0, CANARY).action == expected


def test_the_reason_has_the_figures():
    errors = judge(OLD, did(failed=50), None, 61.0, CANARY).reason
    assert errors == "25.00% of the requests failed, before 0.10% (at most 1.10%)"
    slow = judge(OLD, did(seconds=0.1), None, 61.0, CANARY).reason
    assert "99th percentile" in slow
    assert "before 2.20 ms (at most 3.29 ms)" in slow
    drift = judge(OLD, did(), apart(0.5), 61.0, CANARY).reason
    assert drift == "the population stability index of output 'Y' is 0.500 (at most 0.2)"


def test_an_old_version_that_was_not_asked_is_no_reason():
    assert judge(Side(), did(), None, 61.0, CANARY).action == "advance"
    assert judge(Side(), did(failed=50), None, 61.0, CANARY).cause == "errors"


def test_a_drift_of_0_is_not_looked_at():
    assert judge(OLD, did(), apart(9.0), 61.0, CANARY.replace(drift=0.0)).action == "advance"


def test_only_errors_that_are_not_the_callers_count_and_only_those_since_the_step_began():
    before = Figures(ok=100, failed={"ModelError": 5, "SignatureError": 50})
    after = Figures(ok=150, failed={"ModelError": 7, "BusyError": 3, "SignatureError": 90, "MalformedError": 1})
    found = side(before, after, np.empty(0))
    assert (found.requests, found.failed) == (55, 5)
    assert side(after, before, np.empty(0)).requests == 0  # a lane that began anew
    assert (Side().rate, Side().p99) == (0.0, 0.0)


@given(st.integers(0, 60), st.integers(0, 60), st.floats(0, 1))
def test_chance_is_the_binomial_tail(count, of, rate):
    exact = math.fsum(math.comb(of, hits) * rate**hits * (1 - rate) ** (of - hits) for hits in range(count, of + 1))
    assert chance(count, of, rate) == pytest.approx(min(1.0, exact), abs=1e-9)


def test_chance_of_large_counts_is_quick_and_finite():
    assert chance(1_000_000, 2_000_000, 0.1) == 0.0
    assert 0 < chance(1_100, 100_000, 0.01) < 1e-2
