"""Policies: exact, with a reason and an end; what they do not say is an error."""

from __future__ import annotations

from datetime import date

import pytest

from vitrify.checks.scan.policy import Allowance, Policy, find_policy, read_policy
from vitrify.core.errors import UsageError
from vitrify.core.report import Finding, Report
from vitrify.inspection.scan import Limits

TODAY = date(2026, 6, 1)
FULL = """
fail-on = "found"
skip = ["docs/**", "*.ipynb"]

[[allow]]
rule = "untrusted-global"
subject = "acme.steps.Scale"
path = "models/*.pkl"
reason = "ours"
expires = 2027-01-01

[limits]
depth = 3
"""


def finding(**changes):
    about = {
        "place": "m.pkl:opcode 3",
        "message": "would use it",
        "rule": "untrusted-global",
        "subject": "acme.steps.Scale",
    }
    return Finding(**{**about, **changes})


def report(*findings):
    return Report.of("scan", findings)


@pytest.fixture
def written(tmp_path):
    def write(text):
        (tmp_path / "vitrify-scan.toml").write_text(text)
        return tmp_path / "vitrify-scan.toml"

    return write


def test_a_policy_is_read_from_its_file(written):
    policy = read_policy(written(FULL))
    assert policy.allow == (
        Allowance(
            rule="untrusted-global",
            subject="acme.steps.Scale",
            path="models/*.pkl",
            reason="ours",
            expires=date(2027, 1, 1),
        ),
    )
    assert (policy.fail_on, policy.skip, policy.limits) == ("found", ("docs/**", "*.ipynb"), Limits(depth=3))


def test_a_folder_without_a_policy_has_one_that_allows_nothing(tmp_path, written):
    assert find_policy(tmp_path) == Policy()
    written(FULL)
    assert find_policy(tmp_path).fail_on == "found"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alow = []", "unknown key 'alow'"),
        ("fail-on = 'never'", "fail-on = 'never'"),
        ("skip = 'docs'", "skip = 'docs', expected a list"),
        ("skip = [1]", "skip: 1, expected text"),
        ("allow = 3", "allow = 3"),
        ("allow = [3]", r"allow 1: expected a table"),
        ("[[allow]]\nrule = 'r'\nreason = 'x'", "allow 1: it has no subject"),
        ("[[allow]]\nsubject = 's'\nreason = 'x'", "allow 1: it has no rule"),
        ("[[allow]]\nrule = 'r'\nsubject = 's'", "allow 1: it has no reason"),
        ("[[allow]]\nrule = 'r'\nsubject = 's'\nreason = 'x'\nuntil = 2027-01-01", "unknown key 'until'"),
        ("[[allow]]\nrule = 'r'\nsubject = 's'\nreason = 'x'\nexpires = 'soon'", "expires = 'soon'"),
        ("[limits]\ndepth = 0", "depth = 0"),
        ("[limits]\ndepth = true", "depth = True"),
        ("[limits]\ntime = 3", "unknown key 'time'"),
        ("limits = 3", "limits = 3"),
        ("allow = [", "not a policy"),
    ],
)
def test_what_means_nothing_is_an_error_that_says_where(written, text, message):
    with pytest.raises(UsageError, match=message):
        read_policy(written(text))


def test_a_policy_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="not a policy"):
        read_policy(tmp_path / "missing.toml")


def test_what_is_allowed_is_taken_and_shown():
    policy = Policy(allow=(Allowance(subject="acme.steps.Scale", reason="ours"),))
    decided = policy.apply(report(finding()), "m.pkl", today=TODAY)
    assert decided.verdict == "clean"
    assert decided.details["allowed"] == [
        {"place": "m.pkl:opcode 3", "rule": "untrusted-global", "subject": "acme.steps.Scale", "reason": "ours"}
    ]


@pytest.mark.parametrize(
    "changes", [{"subject": "acme.steps.Scales"}, {"subject": "acme.steps"}, {"rule": "python-code"}]
)
def test_nothing_else_is_allowed(changes):
    policy = Policy(allow=(Allowance(rule="untrusted-global", subject="acme.steps.Scale"),))
    decided = policy.apply(report(finding(), finding(**changes)), "m.pkl", today=TODAY)
    assert [one.replace() for one in decided.findings] == [finding(**changes)]


def test_a_subject_is_no_pattern():
    policy = Policy(allow=(Allowance(subject="acme.*"),))
    assert policy.apply(report(finding()), "m.pkl", today=TODAY).verdict == "found"


def test_an_allowance_ends_on_its_day():
    one = Allowance(subject="acme.steps.Scale", expires=TODAY)
    assert Policy(allow=(one,)).apply(report(finding()), "m", today=date(2026, 5, 31)).verdict == "clean"
    decided = Policy(allow=(one,)).apply(report(finding()), "m", today=TODAY)
    assert decided.verdict == "found"
    assert "allowed until 2026-06-01" in decided.findings[0].remedy


def test_a_path_holds_for_a_file_and_for_files_of_a_folder():
    one = Allowance(subject="acme.steps.Scale", path="models/*.pkl")
    policy = Policy(allow=(one,))
    assert policy.apply(report(finding()), "models/m.pkl", today=TODAY).verdict == "clean"
    assert policy.apply(report(finding(place="m.pkl:opcode 3")), "models", today=TODAY).verdict == "clean"
    assert policy.apply(report(finding()), "other/m.pkl", today=TODAY).verdict == "found"


def test_what_was_not_checked_cannot_be_allowed():
    policy = Policy(allow=(Allowance(subject="acme.steps.Scale"),))
    decided = policy.apply(report(finding(verdict="not checked")), "m.pkl", today=TODAY)
    assert decided.verdict == "not checked"


def test_skipping_is_by_the_path_or_a_part_of_it():
    policy = Policy(skip=("docs/**", "*.ipynb"))
    assert policy.skips("docs/a/b.md")
    assert policy.skips("notes/x.ipynb")
    assert policy.skips("a/.git/config")
    assert not policy.skips("models/docs.pkl")
