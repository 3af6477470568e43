"""When a batch waits for more rows."""

from __future__ import annotations

import pytest

from vitrify.serve.lanes._patience import Patience


def batches(patience, count, arrival=None):
    for _ in range(count):
        patience.start(100.0)
        if arrival is not None:
            patience.arrived(100.0 + arrival)
        patience.end()


def test_nothing_waits_at_first():
    assert not Patience(1.0).pays()


def test_waiting_pays_when_others_come_while_batches_are_run():
    patience = Patience(1.0)
    batches(patience, 4, arrival=0.5)
    assert patience.pays()


@pytest.mark.parametrize("arrival", [None, 1.5])
def test_waiting_does_not_pay_when_nobody_comes_or_too_late(arrival):
    patience = Patience(1.0)
    batches(patience, 50, arrival)
    assert not patience.pays()


def test_who_comes_after_the_batch_is_done_does_not_count():
    patience = Patience(1.0)
    for _ in range(50):
        patience.start(100.0)
        patience.end()
        patience.arrived(100.1)
    assert not patience.pays()


def test_waiting_in_vain_ends_the_waiting():
    patience = Patience(1.0)
    batches(patience, 20, arrival=0.5)
    for _ in range(4):
        patience.learn(brought=False)
    assert not patience.pays()


def test_without_a_delay_nothing_ever_waits():
    patience = Patience(0.0)
    batches(patience, 50, arrival=0.0)
    assert not patience.pays()


@pytest.mark.parametrize(("deadline", "until"), [(1000.0, 101.0), (102.0, 101.0), (101.0, 100.5), (100.0, 100.0)])
def test_a_wait_leaves_half_of_the_time_for_the_model(deadline, until):
    assert Patience(1.0).until(100.0, deadline) == until
