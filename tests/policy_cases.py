"""What the tests of policies share: a policy of some rules, evidence of some signers, and the facts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from vitrify.core.attestation import SCAN, STATEMENT_TYPE, Attestation, Subject
from vitrify.trust.evidence import Evidence
from vitrify.trust.keys import PrivateKey
from vitrify.trust.policy import Facts, Policy, evaluate
from vitrify.trust.signing import SIGNATURE

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
DIGEST = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64
KEYS = {name: PrivateKey.generate() for name in ("release", "ci", "stranger")}


def policy(folder, *rules, names='["*"]', actions='["serve"]', top="", keys=()):
    """Return a policy with one requirement of these rules, and keys of name, names and more lines."""
    tables = "".join(
        f'[keys.{name}]\nfile = "{name}.pub"\nnames = {patterns}\n{more}\n' for name, patterns, more in keys
    )
    listed = ",\n".join(f"  {{ {rule} }}" for rule in rules)
    text = f"{top}\n{tables}\n[[require]]\nfor = {actions}\nnames = {names}\nrules = [\n{listed}\n]\n"
    return Policy.from_bytes(text.encode(), base=folder, where="policy.toml")


def said(kind, predicate, *signers, digest=DIGEST, ago=None, type_=STATEMENT_TYPE):
    """Return evidence: what these signers said, so many days ago."""
    time = {} if ago is None else {"when": (NOW - timedelta(days=ago)).isoformat()}
    subject = Subject(name="artifact", digest={"sha256": digest.removeprefix("sha256:")})
    attestation = Attestation(type_=type_, subject=(subject,), predicate_type=kind, predicate={**time, **predicate})
    return Evidence(attestation, tuple(KEYS[name].keyid for name in signers))


def facts(*evidence, **more):
    """Return the facts about one model, with what differs."""
    known = {"action": "serve", "name": "churn", "digest": DIGEST, "now": NOW}
    return Facts(**{**known, "evidence": evidence, **more})


def scan(verdict="clean", *signers, **more):
    """Return a scan by these signers."""
    return said(SCAN, {"verdict": verdict}, *signers, **more)


def signature(*signers, **more):
    """Return a signature on the model."""
    return said(SIGNATURE, {"signedAt": (NOW - timedelta(days=1)).isoformat()}, *signers, **more)


def allowed(asked, known):
    """Say whether a policy allows it."""
    return evaluate(asked, known).passed


def write_keys(folder):
    """Write the public keys where a policy looks for them."""
    for name, key in KEYS.items():
        (folder / f"{name}.pub").write_bytes(key.public.pem)


ANYBODY = ("release", '["*"]', "")
