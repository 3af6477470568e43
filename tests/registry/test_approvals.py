"""Approvals: asked for, decided by others, in time; the same on every database."""

from __future__ import annotations

import time

import pytest
from registries import acting, register

from vitrify.core.errors import ConflictError, DeniedError, ReferenceNotFoundError, UsageError
from vitrify.registry import requests as r
from vitrify.registry.audit import verify


@pytest.fixture
def asked(registry):
    """A request for production, by ann, who made the version too."""
    register(registry.backend)
    return registry.request_promotion("churn", "1", "production", "please")


@pytest.fixture
def bob(registry):
    return acting(registry.backend, "bob", "approver", "writer")


def test_an_approval_carries_the_request_out_and_the_log_says_who_approved(registry, bob, asked):
    assert (asked.state, asked.author, asked.missing) == ("open", "ann", ())
    done = bob.decide(asked.id, "approve", "good figures")
    assert done.state == "done"
    assert [(one.who, one.verdict, one.comment) for one in done.decisions] == [("bob", "approve", "good figures")]
    assert registry.version("churn", "@production").version == "1"
    assert [one.who for one in registry.production_at("churn").approvals] == ["bob"]


def test_whoever_asked_or_made_the_version_does_not_decide(registry, bob, asked):
    with pytest.raises(DeniedError, match="somebody else has to decide"):
        registry.decide(asked.id, "approve")
    registry.withdraw(asked.id)
    own = bob.request_promotion("churn", "1", "production")
    for who in (bob, registry):  # who asked, and who made it
        with pytest.raises(DeniedError, match="somebody else has to decide"):
            who.decide(own.id, "approve")
    assert acting(registry.backend, "cleo", "approver").decide(own.id, "approve").state == "done"


@pytest.mark.parametrize("end", ["reject", "withdraw", "approve"])
def test_what_is_over_is_not_decided_again(registry, bob, asked, end):
    registry.withdraw(asked.id) if end == "withdraw" else bob.decide(asked.id, end)
    state = {"reject": "rejected", "withdraw": "withdrawn", "approve": "done"}[end]
    for again in (lambda: bob.decide(asked.id, "approve"), lambda: registry.withdraw(asked.id)):
        with pytest.raises(ConflictError, match=state):
            again()
    assert registry.do(r.GetPromotion(id=asked.id)).state == state
    assert [one.id for one in registry.promotions(state=state)] == [asked.id]
    assert registry.promotions(state="open") == ()


def test_a_request_that_expired_counts_for_nothing(registry, bob, asked, monkeypatch):
    later = time.time_ns() + 8 * 86_400 * 1_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: later)
    assert registry.do(r.GetPromotion(id=asked.id)).state == "expired"
    assert [one.state for one in registry.promotions()] == ["expired"]
    with pytest.raises(ConflictError, match="expired"):
        bob.decide(asked.id, "approve")
    again = registry.request_promotion("churn", "1", "production")  # so it can be asked for again
    assert bob.decide(again.id, "approve").state == "done"
    assert verify(registry.backend.database).passed


def test_only_who_asked_or_an_admin_takes_a_request_back(registry, bob, asked):
    with pytest.raises(DeniedError, match="admin"):
        bob.withdraw(asked.id)
    assert acting(registry.backend, "root", "admin").withdraw(asked.id).state == "withdrawn"


def test_the_same_is_asked_for_once(registry, bob, asked):
    with pytest.raises(ConflictError, match=f"request {asked.id}"):
        bob.request_promotion("churn", "1", "production")
    bob.request_promotion("churn", "1", "staging")  # another stage is another question


def test_what_makes_no_sense_is_not_asked_for(registry):
    register(registry.backend)
    for days in (0, -1, 1000):
        with pytest.raises(UsageError, match="days"):
            registry.request_promotion("churn", "1", "staging", days=days)
    with pytest.raises(ConflictError, match="in development"):
        registry.request_promotion("churn", "1", "development")
    registry.set_status("churn", "1", "deprecated")
    with pytest.raises(ConflictError, match="deprecated"):
        registry.request_promotion("churn", "1", "staging")
    with pytest.raises(ReferenceNotFoundError, match="no request"):
        registry.withdraw(99)


def test_a_version_that_was_promoted_otherwise_closes_its_request(registry, bob, asked):
    bob.promote("churn", "1", "production")
    assert registry.do(r.GetPromotion(id=asked.id)).state == "done"


def test_a_version_that_was_rolled_back_to_closes_its_request(registry, bob):
    for seed in ("a", "b"):
        register(registry.backend, seed=seed)
    for which in ("1", "2"):
        registry.promote("churn", which, "production")
    asked = registry.request_promotion("churn", "1", "production")
    registry.rollback("churn")
    assert registry.do(r.GetPromotion(id=asked.id)).state == "done"
    with pytest.raises(ConflictError, match="done"):
        bob.decide(asked.id, "approve")
    assert verify(registry.backend.database).passed


@pytest.mark.parametrize("what", ["version", "model"])
def test_what_was_asked_for_something_that_is_given_up_is_withdrawn(registry, bob, asked, what):
    registry.delete_version("churn", "1") if what == "version" else registry.delete_model("churn")
    assert registry.do(r.GetPromotion(id=asked.id)).state == "withdrawn"
    with pytest.raises(ConflictError, match="withdrawn"):
        bob.decide(asked.id, "approve")
    assert verify(registry.backend.database).passed


def test_a_version_that_was_yanked_meanwhile_is_not_promoted_and_the_request_stays_open(registry, bob, asked):
    registry.set_status("churn", "1", "yanked", "leaks")
    with pytest.raises(ConflictError, match="leaks"):
        bob.decide(asked.id, "approve")
    assert registry.do(r.GetPromotion(id=asked.id)).decisions == ()
    registry.set_status("churn", "1", "active")
    assert bob.decide(asked.id, "approve").state == "done"


def test_a_stranger_neither_sees_nor_decides(registry, asked):
    eve = acting(registry.backend, "eve", "approver", models=("mine/*",))
    assert eve.promotions() == ()
    with pytest.raises(DeniedError):
        eve.decide(asked.id, "approve")
    with pytest.raises(DeniedError):
        eve.do(r.GetPromotion(id=asked.id))
