"""What each rule of a policy takes, and what it does not."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_cases import ANYBODY, KEYS, NOW, OTHER, allowed, facts, policy, said, scan, signature, write_keys

from vitrify.core.attestation import PARITY, SCAN, SLSA, TRIAL
from vitrify.trust.policy import Approval, evaluate
from vitrify.trust.policy.case import CYCLONEDX, SPDX
from vitrify.trust.provenance import SAVED, TRANSFORMED


@pytest.fixture
def folder(tmp_path):
    write_keys(tmp_path)
    return tmp_path


@pytest.mark.parametrize("verdict", ["found", "not checked", "Clean", "", None, True, ["clean"], {"clean": 1}])
def test_only_the_word_clean_is_clean(folder, verdict):
    for rule, kind in (("scan", SCAN), ("trial", TRIAL)):
        asked = policy(folder, f'rule = "{rule}"')
        assert not allowed(asked, facts(said(kind, {"verdict": verdict})))
        assert allowed(asked, facts(said(kind, {"verdict": "clean"})))


def parity(*outputs, verdict="clean", check="parity"):
    details = {"outputs": {f"y{number}": output for number, output in enumerate(outputs)}}
    return said(PARITY, {"reports": [{"check": check, "step": "a-to-b", "verdict": verdict, "details": details}]})


def floats(absolute, relative=0.0):
    return {"kind": "float", "absolute": {"max": absolute}, "relative": {"max": relative}}


@pytest.mark.parametrize(
    ("evidence", "holds"),
    [
        (parity(floats(1e-7)), True),
        (parity({"kind": "exact"}, floats(1e-6)), True),
        (parity({"kind": "exact"}), True),
        (parity(floats(1e-7), floats(2e-6)), False),
        (parity(floats(1e-7), verdict="found"), False),
        (parity(floats(1e-7), verdict="not checked"), False),
        (parity(floats(1e-7), check="structure"), False),
        (parity(), False),
        (parity(floats(math.nan)), False),
        (parity(floats(math.inf)), False),
        (parity(floats(-1.0)), False),
        (parity(floats(True)), False),
        (parity(floats("0")), False),
        (parity(floats(None)), False),
        (parity({"kind": "float"}), False),
        (parity("float"), False),
        (said(PARITY, {"reports": []}), False),
        (said(PARITY, {"reports": "clean"}), False),
        (said(PARITY, {"reports": [{"check": "parity", "verdict": "clean"}]}), False),
        (said(PARITY, {"reports": ["clean"]}), False),
        (said(PARITY, {}), False),
        (scan(), False),
    ],
)
def test_parity_holds_where_every_step_is_clean_and_no_figure_is_larger(folder, evidence, holds):
    assert allowed(policy(folder, 'rule = "parity", absolute = 1e-6'), facts(evidence)) is holds


def test_parity_looks_at_relative_differences_too(folder):
    asked = policy(folder, 'rule = "parity", absolute = 1.0, relative = 1e-9')
    assert not allowed(asked, facts(parity(floats(1e-7, 1e-8))))
    assert allowed(asked, facts(parity(floats(1e-7, 1e-9))))


def test_parity_looks_at_what_the_check_itself_tolerated(folder):
    def within(atol, rtol):
        return parity({"kind": "float", "tolerance": {"atol": atol, "rtol": rtol}})

    asked = policy(folder, 'rule = "parity", atol = 1e-6, rtol = 1e-5')
    assert allowed(asked, facts(within(1e-6, 1e-9)))
    assert not allowed(asked, facts(within(1e-5, 1e-9)))
    assert not allowed(asked, facts(within(1e-6, 1.0)))
    assert not allowed(asked, facts(within(1e-6, None)))
    assert not allowed(asked, facts(parity(floats(0.0))))


def built(kind=SAVED, builder="https://ci.example.org", dirty=False, commit="c" * 40, more=()):
    code = [{"digest": {"gitCommit": commit}, "annotations": {"vitrify_dirty": dirty}}] if commit else []
    definition = {"buildType": kind, "externalParameters": {}, "resolvedDependencies": [*code, *more]}
    details = {"builder": {"id": builder}, "metadata": {"finishedOn": (NOW - timedelta(days=1)).isoformat()}}
    return said(SLSA, {"buildDefinition": definition, "runDetails": details})


def test_what_was_saved_and_not_converted_may_need_no_parity(folder):
    asked = policy(folder, 'rule = "parity", only-converted = true')
    assert allowed(asked, facts(built(SAVED)))
    assert not allowed(asked, facts())
    assert not allowed(asked, facts(built(TRANSFORMED)))
    assert not allowed(asked, facts(built(SAVED), parity(floats(0.0), verdict="found")))
    assert not allowed(policy(folder, 'rule = "parity"'), facts(built(SAVED)))


@pytest.mark.parametrize(
    ("rule", "evidence", "holds"),
    [
        ("", built(), True),
        ("", built(builder=""), False),
        ("", said(SLSA, {}), False),
        ("", said(SLSA, {"buildDefinition": 3, "runDetails": []}), False),
        ('builders = ["https://ci.example.org"]', built(), True),
        ('builders = ["https://ci.example.org"]', built(builder="https://ci.example.org.evil.example"), False),
        ("commit = true", built(), True),
        ("commit = true", built(commit=""), False),
        ("commit = true", built(commit=7), False),
        ("commit = true", built(more=[{"digest": {"gitCommit": "d" * 40}}]), False),
        ("clean = true", built(), True),
        ("clean = true", built(dirty=True), False),
        ("clean = true", built(dirty="no"), False),
        ("clean = true", built(commit=""), False),
    ],
)
def test_provenance_says_who_built_it_and_from_which_commit(folder, rule, evidence, holds):
    asked = policy(folder, f'rule = "provenance"{", " if rule else ""}{rule}')
    assert allowed(asked, facts(evidence)) is holds


def test_signatures_of_the_named_keys_are_counted_and_a_key_once(folder):
    (folder / "again.pub").write_bytes(KEYS["release"].public.pem)
    keys = [(name, '["*"]', "") for name in ("release", "again", "ci")]
    asked = policy(folder, 'rule = "signed-by", keys = ["release", "again", "ci"], at-least = 2', keys=keys)
    assert not allowed(asked, facts(signature("release")))
    assert not allowed(asked, facts(signature("release"), signature("release")))
    assert not allowed(asked, facts(signature("release", "stranger")))
    assert allowed(asked, facts(signature("release"), signature("ci")))
    assert allowed(asked, facts(signature("release", "ci")))
    assert not allowed(asked, facts(signature("release", "ci", digest=OTHER)))


def test_a_signature_under_a_report_is_no_signature_on_the_model(folder):
    asked = policy(folder, 'rule = "signed-by", keys = ["release"]', keys=[ANYBODY])
    assert not allowed(asked, facts(scan("found", "release"), scan("clean", "release")))


def test_a_key_for_another_name_or_purpose_has_not_signed(folder):
    for names, more in (('["other"]', ""), ('["*"]', 'purposes = ["load"]'), ('["*"]', "not-after = 2026-11-01")):
        asked = policy(folder, 'rule = "signed-by", keys = ["release"]', keys=[("release", names, more)])
        report = evaluate(asked, facts(signature("release")))
        assert not report.passed
        assert "no key for this name, purpose and moment: release" in report.findings[0].message


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, True, "0.95", None, [0.95], {}, pytest.param(10**5000, id="huge")]
)
def test_what_is_no_finite_number_satisfies_no_bound(folder, value):
    for bound in ("at-least = 0.9", "at-most = 0.9", "at-least = -1e300", "at-most = 1e300"):
        assert not allowed(policy(folder, f'rule = "metric", name = "auc", {bound}'), facts(metrics={"auc": value}))


@given(st.floats(), st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_a_metric_holds_within_its_bounds_and_nowhere_else(value, one, other):
    low, high = sorted((one, other))
    rule = f'rule = "metric", name = "auc", at-least = {low!r}, at-most = {high!r}'
    assert allowed(policy(None, rule), facts(metrics={"auc": value})) is (low <= value <= high)


@pytest.mark.parametrize(
    ("rule", "predicate", "holds"),
    [
        ("", {}, True),
        (', field = "bias.ok", equals = true', {"bias": {"ok": True}}, True),
        (', field = "bias.ok", equals = true', {"bias": {"ok": 1}}, False),
        (', field = "bias.ok", equals = true', {"bias": {"ok": "true"}}, False),
        (', field = "bias.ok", equals = true', {"bias": [True]}, False),
        (', field = "bias.ok", equals = true', {}, False),
        (', field = "n", equals = 1', {"n": 1.0}, True),
        (', field = "n", equals = 1', {"n": True}, False),
        (', field = "n", at-least = 3', {"n": 3}, True),
        (', field = "n", at-least = 3', {"n": "4"}, False),
        (', field = "by", equals = "ada"', {"by": "ada"}, True),
        (', field = "by", equals = "ada"', {"by": "Ada"}, False),
    ],
)
def test_an_attestation_says_what_it_must(folder, rule, predicate, holds):
    asked = policy(folder, f'rule = "attestation", type = "urn:acme:review"{rule}')
    assert allowed(asked, facts(said("urn:acme:review", predicate))) is holds
    assert not allowed(asked, facts(said("urn:acme:review:v2", predicate)))


def test_a_bill_of_materials_is_there_in_one_of_the_formats(folder):
    cyclonedx, spdx = said(CYCLONEDX, {"bomFormat": "CycloneDX"}), said(SPDX, {"spdxVersion": "SPDX-2.3"})
    either, only = policy(folder, 'rule = "sbom"'), policy(folder, 'rule = "sbom", formats = ["spdx"]')
    assert not allowed(either, facts())
    assert allowed(either, facts(cyclonedx))
    assert allowed(either, facts(spdx))
    assert not allowed(only, facts(cyclonedx))
    assert allowed(only, facts(spdx))
    assert not allowed(either, facts(said(CYCLONEDX, {"bomFormat": 1})))


def yes(who, ago=1, *roles):
    return Approval(who, NOW - timedelta(days=ago), roles)


@pytest.mark.parametrize(
    ("approvals", "holds"),
    [
        ([yes("ada"), yes("bob")], True),
        ([yes("ada")], False),
        ([yes("ada"), yes("ada", 2)], False),
        ([yes("ada"), yes("ADA"), yes("ada "), yes("\uff41da")], False),
        ([yes("ada"), yes("eve")], False),
        ([yes("ada"), yes("Eve")], False),
        ([yes("ada"), yes("bob", -1)], False),
        ([yes("ada"), yes("bob", 8)], False),
        ([yes("ada"), yes("")], False),
        ([yes("ada"), yes("bob"), yes("eve")], True),
    ],
)
def test_approvals_are_of_different_people_and_not_the_authors(folder, approvals, holds):
    asked = policy(folder, 'rule = "approved", at-least = 2, max-age = "7d"')
    assert allowed(asked, facts(author="eve", approvals=tuple(approvals))) is holds


def test_nobody_can_be_told_from_an_unknown_author(folder):
    asked = policy(folder, 'rule = "approved"')
    assert not allowed(asked, facts(approvals=(yes("ada"),)))
    assert allowed(asked, facts(approvals=(yes("ada"),), author="eve"))
    anybody = policy(folder, 'rule = "approved", not-author = false')
    assert allowed(anybody, facts(approvals=(yes("ada"),)))


def test_approvals_can_be_asked_of_certain_people_or_of_a_role(folder):
    by = policy(folder, 'rule = "approved", by = ["ada", "bob"]')
    assert not allowed(by, facts(author="eve", approvals=(yes("Ada"), yes("mallory"))))
    assert allowed(by, facts(author="eve", approvals=(yes("bob"),)))
    role = policy(folder, 'rule = "approved", role = "approver"')
    assert not allowed(role, facts(author="eve", approvals=(yes("ada", 1, "reader"),)))
    assert allowed(role, facts(author="eve", approvals=(yes("ada", 1, "reader", "approver"),)))


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ('rule = "stage", in = ["staging"]', {"stage": "staging"}, {"stage": None}),
        ('rule = "licence", in = ["MIT", "Apache-2.0"]', {"licence": "MIT"}, {"licence": "MIT OR GPL-3.0-only"}),
        ('rule = "status"', {}, {"status": "yanked"}),
        ('rule = "status"', {"status": "active"}, {"status": "Deprecated"}),
        ('rule = "status", in = ["active", "deprecated"]', {"status": "deprecated"}, {"status": "yanked"}),
        ('rule = "tag", name = "tier", equals = "1"', {"tags": {"tier": "1"}}, {"tags": {}}),
    ],
)
def test_what_the_registry_knows_is_compared_exactly(folder, rule, good, bad):
    assert allowed(policy(folder, rule), facts(**good))
    assert not allowed(policy(folder, rule), facts(**bad))


json = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KNOWN = (
    "when",
    "verdict",
    "reports",
    "buildDefinition",
    "runDetails",
    "metadata",
    "bomFormat",
    "spdxVersion",
    "creationInfo",
)


@given(st.dictionaries(st.sampled_from(KNOWN), json, max_size=5))
def test_no_predicate_makes_a_rule_raise(predicate):
    rules = ['rule = "scan", max-age = "1d"', 'rule = "parity", absolute = 1', 'rule = "provenance", clean = true']
    asked = policy(None, *rules, 'rule = "sbom"', 'rule = "parity", only-converted = true')
    kinds = (SCAN, PARITY, SLSA, CYCLONEDX, SPDX)
    assert not allowed(asked, facts(*(said(kind, predicate) for kind in kinds)))
