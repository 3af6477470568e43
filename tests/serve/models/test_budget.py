from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import UnavailableError, UsageError
from vitrify.serve.models.budget import Budget


class Versions:
    """What a budget may let go, in order."""

    def __init__(self, limit, idle=()):
        self.idle, self.gone = list(idle), []
        self.budget = Budget(limit, lambda: [("m", one) for one in self.idle], self.let_go)

    def let_go(self, key):
        self.gone.append(key[1])
        self.idle.remove(key[1])
        return True

    def take(self, version, size):
        return self.budget.take(("m", version), size)


def test_a_budget_lets_go_as_many_as_it_must_and_no_more():
    versions = Versions(100)
    for one in "abcd":
        versions.take(one, 25)
        versions.budget.settle(("m", one), 25)
        versions.idle.append(one)
    versions.take("e", 40)
    assert (versions.gone, versions.budget.held) == (["a", "b"], 90)


def test_a_budget_without_room_or_idle_models_changes_nothing():
    versions = Versions(100)
    versions.take("a", 60)
    versions.budget.settle(("m", "a"), 60)
    with pytest.raises(UnavailableError, match="all other models are in use"):
        versions.take("b", 60)
    with pytest.raises(UsageError, match="all models may have 100"):
        versions.take("b", 101)
    assert versions.budget.held == 60
    assert Versions(0).take("b", 10**12) == 0


def test_a_budget_waits_for_what_is_being_loaded_and_for_whom_it_was_loaded():
    versions, looked, over = Versions(100), threading.Event(), threading.Event()

    def awaited():
        looked.set()
        return not over.is_set()

    budget = Budget(100, lambda: [("m", one) for one in versions.idle], versions.let_go, awaited)
    budget.take(("m", "a"), 60)
    looked.clear()
    with ThreadPoolExecutor(1) as threads:
        try:
            waiting = threads.submit(budget.take, ("m", "b"), 60)
            with pytest.raises(TimeoutError):
                waiting.result(0.1)
            assert not looked.is_set()  # what is being loaded is reason enough
            budget.settle(("m", "a"), 60)
            assert looked.wait(60)
            versions.idle.append("a")
            assert waiting.result(60) == 0
        finally:
            over.set()
            budget.settle(("m", "a"), 0)
    assert (versions.gone, budget.held) == (["a"], 60)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 120)), max_size=40))
def test_a_budget_is_never_exceeded(steps):
    versions = Versions(100)
    for version, size in steps:
        try:
            before = versions.take(version, size)
        except UsageError:
            assert size > 100
            continue
        except UnavailableError:
            pytest.fail("everything else was idle")
        versions.budget.settle(("m", version), size)
        assert before >= 0
        assert versions.budget.held <= 100
        versions.idle = [one for one in versions.idle if one != version] + [version]
