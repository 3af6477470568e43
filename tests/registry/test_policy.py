"""A promotion is an answer of the policy: the same rules as everywhere, with the registry's facts."""

import datetime as dt
import hashlib
from contextlib import closing

import pytest
from registries import acting, register, statement

from vitrify.core.attestation import SCAN
from vitrify.core.errors import ConflictError, DeniedError
from vitrify.core.wire import to_builtins
from vitrify.registry import open_registry
from vitrify.registry import requests as r
from vitrify.registry.actor import Actor
from vitrify.registry.registry import Registry
from vitrify.trust.policy import Policy

POLICY = """
[[require]]
for = ["promote:production"]
names = ["*"]
rules = [
    { rule = "approved", at-least = 2 },
    { rule = "metric", name = "auc", at-least = 0.9 },
    { rule = "scan" },
    { rule = "licence", in = ["MIT"] },
]

[[require]]
for = ["serve"]
names = ["*"]
rules = [{ rule = "stage", in = ["production"] }]
"""


@pytest.fixture(params=["sqlite+disk", "postgresql+disk"])
def backend(request, registries):
    return registries.open(request.param, policy=Policy.from_bytes(POLICY.encode()))


@pytest.fixture
def author(backend):
    return acting(backend, "ann", "writer")


def fit(backend, author, **about):
    """Register a version that has all but the approvals."""
    with_licence = r.CreateModel(name="churn", licence="MIT")
    backend.acting(Actor("root", ("admin",))).do(with_licence)
    version = register(author.backend, metrics={"auc": 0.93}, **about)
    clean = statement(version.digest, SCAN, check="scan", verdict="clean", when=_now())
    author.attach(version.digest, clean.encode())
    return version


def _now():
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def test_whoever_is_refused_is_not_told_where_the_policy_lies(tmp_path, monkeypatch):
    file = tmp_path / "secret place" / "rules.toml"
    file.parent.mkdir()
    file.write_text(POLICY)
    monkeypatch.setenv("VITRIFY_POLICY", str(file))
    with closing(open_registry(str(tmp_path / "registry"))) as mine:
        register(mine.backend)
        with pytest.raises(DeniedError) as caught:
            mine.promote("churn", "1", "production")
        shown = f"{caught.value} {to_builtins(caught.value.report)} {mine.explain('churn', '1', 'serve')}"
    assert f"rules.toml (sha256:{hashlib.sha256(POLICY.encode()).hexdigest()[:12]}): require 1, rule 2" in shown
    assert "secret place" not in shown


def test_two_others_approve_and_it_is_done(backend, author):
    version = fit(backend, author)
    request = author.request_promotion("churn", "1", "production", "it is better")
    assert [missing for missing in request.missing if "approv" in missing]
    with pytest.raises(DeniedError):
        acting(backend, "ann", "approver").decide(request.id, "approve")
    assert acting(backend, "bob", "approver").decide(request.id, "approve", "fine").state == "open"
    assert acting(backend, "bob", "approver").decide(request.id, "approve").state == "open", "one head, one vote"
    done = acting(backend, "cid", "approver").decide(request.id, "approve")
    assert (done.state, done.missing) == ("done", ())
    there = author.production_at("churn")
    assert (there.version, there.digest) == ("1", version.digest)
    assert {decision.who for decision in there.approvals} == {"bob", "cid"}
    assert len(there.evidence) == 1


def test_whoever_may_promote_is_told_what_is_missing(backend, author):
    register(author.backend, metrics={"auc": 0.5})
    with pytest.raises(DeniedError) as refused:
        acting(backend, "bob", "approver", "writer").promote("churn", "1", "production")
    rules = {finding.place for finding in refused.value.report.findings}
    assert len(rules) == 4, refused.value
    assert author.version("churn", "1").stage == "development"


def test_a_request_that_was_carried_out_is_closed(backend, author):
    fit(backend, author)
    request = author.request_promotion("churn", "1", "production")
    for who in ("bob", "cid"):
        acting(backend, who, "approver").decide(request.id, "approve")
    with pytest.raises(ConflictError, match="done"):
        acting(backend, "dan", "approver").decide(request.id, "reject")


def test_a_promotion_elsewhere_needs_nothing_of_this(backend, author):
    register(author.backend)
    assert author.promote("churn", "1", "staging").stage == "staging"


def test_serving_asks_too(backend, author):
    register(author.backend)
    with pytest.raises(DeniedError, match="serve"):
        author.deploy("churn", "1", "eu")


def test_explaining_lists_every_rule(backend, author):
    fit(backend, author)
    answer = author.explain("churn", "1", "promote:production")
    assert not answer.allowed
    verdicts = {rule["rule"]: rule["verdict"] for rule in answer.report["details"]["rules"]}
    assert verdicts["approved"] != verdicts["metric"] == verdicts["scan"] == verdicts["licence"]


def test_a_writer_does_not_promote_to_production_whatever_the_policy_says(registries):
    backend = registries.open()
    register(backend)
    with pytest.raises(DeniedError, match="approver"):
        acting(backend, "ann", "writer").promote("churn", "1", "production")
    assert Registry(backend).promote("churn", "1", "production").stage == "production"
