"""What a policy asks about, which evidence counts, and what somebody would try who wants to get around it."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_cases import ANYBODY, KEYS, NOW, OTHER, allowed, facts, policy, said, scan, signature, write_keys

from vitrify.core.attestation import SCAN
from vitrify.core.errors import DeniedError, UsageError
from vitrify.trust.policy import Approval, Policy, evaluate, require


@pytest.fixture
def folder(tmp_path):
    write_keys(tmp_path)
    return tmp_path


# --- what is asked --------------------------------------------------------------------------------------------


def test_without_a_requirement_for_it_everything_is_allowed(folder):
    asked = policy(folder, 'rule = "scan"', actions='["promote:production"]')
    report = evaluate(asked, facts())
    assert report.passed
    assert report.details["rules"] == []


def test_every_rule_is_told_with_its_place_what_was_found_and_what_was_expected(folder):
    asked = policy(folder, 'rule = "scan"', 'rule = "metric", name = "auc", at-least = 0.9')
    report = evaluate(asked, facts(scan(), metrics={"auc": 0.5}))
    assert [(row["rule"], row["verdict"]) for row in report.details["rules"]] == [
        ("scan", "clean"),
        ("metric", "found"),
    ]
    (finding,) = report.findings
    assert finding.place == "policy.toml: require 1, rule 2"
    assert finding.message == "metric: found auc is 0.5, expected auc >= 0.9"


def test_what_is_denied_raises_with_the_report_and_the_next_command(folder):
    asked = policy(folder, 'rule = "scan"')
    with pytest.raises(DeniedError, match=r"does not allow to serve churn:3 .*\n.*scan: found none") as caught:
        require(asked, facts(version="3"))
    assert caught.value.report.verdict == "found"
    assert "--attest" in caught.value.remedy
    assert require(asked, facts(scan())).passed


@pytest.mark.parametrize(
    ("actions", "action", "asked"),
    [
        ('["promote"]', "promote:production", True),
        ('["promote:*"]', "promote:production", True),
        ('["promote:prod*"]', "promote:production", True),
        ('["promote:staging"]', "promote:production", False),
        ('["*"]', "promote:archived", True),
        ('["serve", "ship"]', "ship", True),
        ('["serve"]', "load", False),
    ],
)
def test_a_requirement_is_asked_for_its_actions(folder, actions, action, asked):
    rules = policy(folder, 'rule = "scan"', actions=actions)
    assert allowed(rules, facts(action=action)) is not asked


@pytest.mark.parametrize(
    "action", ["", "Serve", "deploy", "promote:", "serve:x", "promote:a b", "promote:../x", "load\n"]
)
def test_a_misspelt_action_is_an_error_and_not_one_that_nothing_is_required_for(action):
    with pytest.raises(UsageError):
        facts(action=action)


def test_a_time_without_a_zone_is_an_error():
    with pytest.raises(UsageError, match="without a zone"):
        facts(now=datetime(2026, 12, 1))  # noqa: DTZ001 (that is what is refused)
    with pytest.raises(UsageError, match="without a zone"):
        Approval("ada", datetime(2026, 12, 1))  # noqa: DTZ001 (that is what is refused)


# --- names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "churn",
        "Churn",
        "CHURN",
        "churn ",
        "./churn",
        "x/../churn",
        "/churn",
        "x\\..\\churn",
        "churn/",
        "\uff23hurn",
    ],
)
def test_no_spelling_of_a_name_falls_out_of_a_requirement(folder, name):
    asked = policy(folder, 'rule = "scan"', names='["churn"]')
    assert not allowed(asked, facts(name=name))


@pytest.mark.parametrize(
    "name", ["Team/churn", "team/../prod", "team//x", "team/./x", "t\u0435am/churn", "team/", "team/x\n"]
)
def test_a_key_that_is_good_for_a_name_is_good_for_no_other_spelling_of_it(folder, name):
    asked = policy(folder, 'rule = "signed-by", keys = ["release"]', keys=[("release", '["team/*"]', "")])
    assert not allowed(asked, facts(signature("release"), name=name))
    assert allowed(asked, facts(signature("release"), name="team/churn"))


def test_an_exception_is_for_exactly_its_names(folder):
    text = '[[require]]\nfor = ["serve"]\nnames = ["*"]\nexcept = ["sandbox/*"]\nrules = [{ rule = "scan" }]\n'
    asked = Policy.from_bytes(text.encode())
    assert allowed(asked, facts(name="sandbox/x"))
    for name in ("Sandbox/x", "sandbox/../prod", "sandbox"):
        assert not allowed(asked, facts(name=name))


@given(st.text(max_size=20))
def test_a_star_covers_every_name_there_can_be(name):
    asked = Policy.from_bytes(b'[[require]]\nfor = ["*"]\nnames = ["*"]\nrules = [{ rule = "scan" }]\n')
    assert not allowed(asked, facts(name=name))


# --- evidence -------------------------------------------------------------------------------------------------


def test_where_a_key_is_named_evidence_counts_only_with_its_signature(folder):
    asked = policy(folder, 'rule = "scan"', keys=[ANYBODY])
    assert not allowed(asked, facts(scan()))
    assert not allowed(asked, facts(scan("clean", "stranger")))
    assert allowed(asked, facts(scan("clean", "stranger", "release")))
    report = evaluate(asked, facts(scan(), scan("clean", "stranger")))
    assert "2 without the signature of a key that counts here" in report.findings[0].message


def test_without_a_key_unsigned_evidence_counts_and_a_policy_can_say_otherwise(folder):
    assert allowed(policy(folder, 'rule = "scan"'), facts(scan()))
    assert not allowed(policy(folder, 'rule = "scan"', top="signed-evidence = true"), facts(scan()))
    assert allowed(policy(folder, 'rule = "scan"', top="signed-evidence = false", keys=[ANYBODY]), facts(scan()))


@pytest.mark.parametrize(
    "more",
    ['purposes = ["promote"]', "not-after = 2026-11-30", "not-before = 2026-12-02", "not-after = 2026-12-01T12:00:00Z"],
)
def test_a_key_that_does_not_count_now_still_closes_the_door_to_unsigned_evidence(folder, more):
    asked = policy(folder, 'rule = "scan"', keys=[("release", '["churn"]', more)])
    assert not allowed(asked, facts(scan()))
    assert not allowed(asked, facts(scan("clean", "release")))
    assert not allowed(asked, facts(scan(), name="Churn"))


def test_a_key_counts_within_its_time(folder):
    more = "not-before = 2026-12-01\nnot-after = 2026-12-02"
    asked = policy(folder, 'rule = "scan"', keys=[("release", '["churn"]', more)])
    assert allowed(asked, facts(scan("clean", "release")))
    assert not allowed(asked, facts(scan("clean", "release"), now=NOW - timedelta(days=1)))
    assert not allowed(asked, facts(scan("clean", "release"), now=NOW + timedelta(days=1)))


def test_evidence_about_another_artifact_counts_for_nothing(folder):
    assert not allowed(policy(folder, 'rule = "scan"'), facts(scan(digest=OTHER)))
    mine = said(SCAN, {"verdict": "clean"}, type_="https://example.org/no-statement")
    assert not allowed(policy(folder, 'rule = "scan"'), facts(mine))


@pytest.mark.parametrize("order", [1, -1])
def test_the_newest_decides_whatever_order_the_store_has(folder, order):
    asked = policy(folder, 'rule = "scan"')
    assert not allowed(asked, facts(*[scan(ago=9), scan("found", ago=1)][::order]))
    assert allowed(asked, facts(*[scan("found", ago=9), scan(ago=1)][::order]))


def test_a_newer_answer_by_nobody_who_counts_decides_nothing(folder):
    asked = policy(folder, 'rule = "scan"', keys=[ANYBODY])
    assert not allowed(asked, facts(scan("found", "release", ago=9), scan("clean", "stranger", ago=1)))
    assert allowed(asked, facts(scan("clean", "release", ago=9), scan("found", "stranger", ago=1)))


@pytest.mark.parametrize(
    "when", [None, "", "yesterday", "2026-12-01", "2026-12-01T10:00:00", 17, "9" * 5000, "0001-01-01T00:00:00+23:59"]
)
def test_a_bad_answer_without_a_readable_time_is_not_passed_over(folder, when):
    bad = said(SCAN, {"verdict": "found", "when": when})
    assert not allowed(policy(folder, 'rule = "scan"'), facts(bad, scan(ago=1)))


def test_two_answers_of_the_same_moment_must_both_be_good(folder):
    assert not allowed(policy(folder, 'rule = "scan"'), facts(scan(ago=1), scan("found", ago=1)))


def test_what_is_dated_in_the_future_holds_for_nothing_and_hides_nothing(folder):
    asked = policy(folder, 'rule = "scan"')
    assert not allowed(asked, facts(scan(ago=-1)))
    assert not allowed(asked, facts(scan(ago=-1), scan("found", ago=1)))
    assert allowed(asked, facts(scan(ago=-0.001)))
    assert "dated in the future" in evaluate(asked, facts(scan(ago=-1))).findings[0].message


def test_a_clock_that_went_back_makes_nothing_young(folder):
    asked = policy(folder, 'rule = "scan", max-age = "30d"')
    assert allowed(asked, facts(scan(ago=29)))
    assert not allowed(asked, facts(scan(ago=31)))
    assert not allowed(asked, facts(scan(ago=29), now=NOW - timedelta(days=60)))
    assert not allowed(asked, facts(scan()))


TIMES = st.none() | st.sampled_from([-2, -0.001, 0, 1, 1, 2, 30])
VERDICTS = st.sampled_from(["clean", "found", "not checked"])


@given(
    st.lists(st.tuples(VERDICTS, TIMES), max_size=4),
    st.lists(st.tuples(VERDICTS, TIMES, st.sampled_from(["stranger", "other digest", "nobody"])), max_size=4),
    st.randoms(use_true_random=False),
)
def test_no_evidence_that_does_not_count_and_no_order_of_it_changes_an_answer(tmp_path_factory, good, bad, random):
    folder = tmp_path_factory.mktemp("policy")
    (folder / "release.pub").write_bytes(KEYS["release"].public.pem)
    asked = policy(folder, 'rule = "scan"', 'rule = "scan", max-age = "10d"', keys=[ANYBODY])
    counting = [scan(verdict, "release", ago=ago) for verdict, ago in good]
    others = {
        "stranger": lambda verdict, ago: scan(verdict, "stranger", ago=ago),
        "other digest": lambda verdict, ago: scan(verdict, "release", ago=ago, digest=OTHER),
        "nobody": lambda verdict, ago: scan(verdict, ago=ago),
    }
    mixed = [*counting, *(others[who](verdict, ago) for verdict, ago, who in bad)]
    random.shuffle(mixed)
    alone, together = (evaluate(asked, facts(*evidence)).details["rules"] for evidence in (counting, mixed))
    assert [row["verdict"] for row in alone] == [row["verdict"] for row in together]


@given(st.lists(st.tuples(VERDICTS, TIMES), max_size=5))
def test_a_scan_counts_only_if_the_newest_is_clean_and_of_the_past(good):
    report = evaluate(policy(None, 'rule = "scan"'), facts(*(scan(verdict, ago=ago) for verdict, ago in good)))
    newest = min((ago for _, ago in good if ago is not None), default=None)
    deciding = [(verdict, ago) for verdict, ago in good if ago in {None, newest}]
    assert report.passed is (bool(deciding) and all(v == "clean" and (ago is None or ago > -1) for v, ago in deciding))
