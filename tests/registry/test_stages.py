"""Stages: one production version a model, and back to the last good one; the same on every database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from registries import acting, register

from vitrify.core.errors import ConflictError, DeniedError, ReferenceNotFoundError, UsageError


@pytest.fixture
def three(registry):
    for seed in ("a", "b", "c"):
        register(registry.backend, seed=seed)
    return registry


def stages(registry):
    return [registry.version("churn", f"{number}").stage for number in (1, 2, 3)]


def test_a_version_passes_through_the_stages_and_its_follower_archives_it(three):
    for stage in ("staging", "production"):
        assert three.promote("churn", "1", stage, "why").stage == stage
    three.promote("churn", "2", "production")
    assert stages(three) == ["archived", "production", "development"]
    assert three.version("churn", "@production").version == "2"
    assert three.model("churn").production == "2"


def test_the_log_says_who_moved_what_from_where_and_why(three):
    three.promote("churn", "1", "production", "it is good")
    three.promote("churn", "2", "production")
    events = list(three.events("churn", "version.staged"))
    assert [(event.version, event.facts["from"], event.facts["to"]) for event in events] == [
        ("1", "development", "production"),
        ("1", "production", "archived"),
        ("2", "development", "production"),
    ]
    assert events[0].facts["comment"] == "it is good"
    assert events[1].facts["replaced_by"] == "2"


def test_promoting_to_where_it_is_changes_nothing(three):
    three.promote("churn", "1", "production")
    head = three.head()
    assert three.promote("churn", "1", "production").stage == "production"
    assert three.head() == head


def test_whoever_expects_something_else_in_production_is_refused(three):
    with pytest.raises(ConflictError, match="nothing in production, not 2"):
        three.promote("churn", "1", "production", expected="2")
    three.promote("churn", "1", "production", expected="")
    with pytest.raises(ConflictError, match="1 in production, not nothing"):
        three.promote("churn", "2", "production", expected="")
    three.promote("churn", "2", "production", expected="1")


def test_production_is_entered_and_left_by_approvers_only(three):
    writer, approver = acting(three.backend, "wes", "writer"), acting(three.backend, "bob", "approver")
    writer.promote("churn", "1", "staging")
    with pytest.raises(DeniedError, match="approver"):
        writer.promote("churn", "1", "production")
    approver.promote("churn", "1", "production")
    with pytest.raises(DeniedError, match="approver"):
        writer.promote("churn", "1", "archived")


def test_rolling_back_walks_past_what_was_rolled_back_or_withdrawn(three):
    for which in ("1", "2", "3"):
        three.promote("churn", which, "production")
    assert three.rollback("churn", "3 is bad").version == "2"
    assert three.rollback("churn", "2 is bad as well").version == "1"
    with pytest.raises(ConflictError, match="no earlier version in good standing"):
        three.rollback("churn")
    assert stages(three) == ["production", "archived", "archived"]


def test_rolling_back_skips_what_is_deprecated_yanked_or_deleted(three):
    for which in ("1", "2", "3"):
        three.promote("churn", which, "production")
    three.set_status("churn", "2", "yanked", "leaks")
    assert three.rollback("churn").version == "1"


def test_a_version_that_was_repaired_and_promoted_again_counts_as_good(three):
    three.promote("churn", "1", "production")
    three.promote("churn", "2", "production")
    three.rollback("churn")
    three.promote("churn", "2", "production")
    three.promote("churn", "3", "production")
    assert three.rollback("churn").version == "2"


def test_after_production_was_emptied_rolling_back_fills_it(three):
    three.promote("churn", "1", "production")
    three.promote("churn", "1", "archived")
    assert three.model("churn").production is None
    assert three.rollback("churn").version == "1"


def test_what_is_in_production_is_not_withdrawn(three):
    three.promote("churn", "1", "production")
    for refused in (
        lambda: three.set_status("churn", "1", "yanked"),
        lambda: three.delete_version("churn", "1"),
    ):
        with pytest.raises(ConflictError, match="in production"):
            refused()
    assert three.set_status("churn", "1", "deprecated", "soon").stage == "production"


def test_the_past_of_production_has_no_gap_and_no_overlap(three):
    for which in ("1", "2", "1", "3"):
        three.promote("churn", which, "production")
    three.rollback("churn")
    spans = [three.production_at("churn")]
    for _ in range(4):
        spans.append(three.production_at("churn", spans[-1].since - timedelta(microseconds=1)))
    with pytest.raises(ReferenceNotFoundError, match="nothing in production"):
        three.production_at("churn", spans[-1].since - timedelta(microseconds=1))
    assert [span.version for span in spans] == ["1", "3", "1", "2", "1"]
    assert three.production_at("churn", datetime.now(UTC) + timedelta(minutes=1)) == spans[0]  # another's clock
    with pytest.raises(UsageError, match="lies ahead"):
        three.production_at("churn", datetime(9999, 1, 1, tzinfo=UTC))
    assert all(later.since == earlier.until for later, earlier in pairwise(spans))
