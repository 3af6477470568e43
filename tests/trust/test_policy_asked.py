"""Where the policy is asked: loading, and the commands, with real keys and a real store."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.linear_model import LinearRegression

import vitrify
from vitrify import stores
from vitrify.checks.scan import attest_scan
from vitrify.cli.policy import command
from vitrify.core.attestation import ATTESTATION_TYPE, SCAN
from vitrify.core.errors import AuthenticationError, ConflictError, DeniedError, ForgedError, MalformedError, StoreError
from vitrify.stores.oci_layout import OciLayout
from vitrify.trust import dsse
from vitrify.trust.keys import PrivateKey
from vitrify.trust.policy import Policy, evaluate, start
from vitrify.trust.signing import SIGNATURE, attest, sign
from vitrify.trust.statement import statement

KEY, OTHER = PrivateKey.generate(), PrivateKey.generate()
X = np.random.default_rng(0).normal(size=(20, 2))


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """Save the models once."""
    store = OciLayout(tmp_path_factory.mktemp("shelf") / "store")
    for name, column in (("team/line:1.2.0", 0), ("team/other", 1), ("free", 0)):
        vitrify.save(LinearRegression().fit(X, X[:, column]), name, example=X, store=store)
    return store.root


@pytest.fixture
def artifact(shelf, home):
    """Return a model in a store of this test's own."""
    shutil.copytree(shelf, home / "store")
    return vitrify.open("team/line:1.2.0")


@pytest.fixture
def rule(home):
    """Return a function that makes this machine's policy: one requirement for ``load`` of ``team/*``."""

    def make(*rules, names='["team/*"]'):
        home.mkdir(exist_ok=True)
        (home / "release.pub").write_bytes(KEY.public.pem)
        listed = ", ".join(f"{{ {one} }}" for one in rules)
        text = (
            f'[keys.release]\nfile = "release.pub"\nnames = ["team/*"]\n[[require]]\nfor = ["load"]\nnames = {names}\n'
        )
        (home / "policy.toml").write_text(f"{text}rules = [{listed}]\n")
        return home / "policy.toml"

    return make


def scanned(artifact, signer, verdict="clean"):
    predicate = {"check": "scan", "verdict": verdict, "when": datetime.now(UTC).isoformat()}
    attest(artifact.store, artifact.digest, SCAN, predicate, signer)


def run(*arguments):
    return CliRunner().invoke(command, [str(one) for one in arguments])


def test_without_a_policy_everything_loads(artifact):
    assert vitrify.load("team/line:1.2.0").predict(X)


def test_what_is_not_signed_by_the_key_is_neither_loaded_nor_opened_nor_converted(artifact, rule):
    rule('rule = "signed-by", keys = ["release"]')
    sign(artifact.store, artifact.digest, OTHER)
    for way in (
        lambda: vitrify.load("team/line:1.2.0"),
        lambda: vitrify.open("team/line:1.2.0").model(),
        lambda: vitrify.open("team/line:1.2.0").session(),
        lambda: vitrify.convert("team/line:1.2.0", to="onnx"),
    ):
        with pytest.raises(DeniedError, match=r"does not allow to load team/line:1\.2\.0"):
            way()
    sign(artifact.store, artifact.digest, KEY)
    (output,) = vitrify.load("team/line:1.2.0").predict(X).values()
    np.testing.assert_allclose(output, X[:, 0])


def test_an_attackers_own_clean_scan_in_the_store_opens_nothing(artifact, rule):
    rule('rule = "scan", max-age = "1d"')
    scanned(artifact, None)
    scanned(artifact, OTHER)
    with pytest.raises(DeniedError, match="2 without the signature"):
        vitrify.load("team/line:1.2.0")
    scanned(artifact, KEY)
    assert vitrify.load("team/line:1.2.0")
    scanned(artifact, KEY, "found")
    with pytest.raises(DeniedError):
        vitrify.load("team/line:1.2.0")


def test_a_signature_of_another_artifact_proves_nothing_here(artifact, rule):
    rule('rule = "signed-by", keys = ["release"]')
    other = vitrify.open("team/other")
    sign(other.store, other.digest, KEY)
    assert vitrify.load("team/other")
    with pytest.raises(DeniedError):
        vitrify.load("team/line:1.2.0")


def test_the_digest_and_an_export_get_around_no_requirement(artifact, rule, tmp_path):
    rule('rule = "signed-by", keys = ["release"]')
    stores.export(artifact.store, artifact.digest, tmp_path / "line.vit")
    with pytest.raises(DeniedError):
        vitrify.load(str(artifact.digest))
    with pytest.raises(DeniedError):
        vitrify.load(str(tmp_path / "line.vit"))
    assert vitrify.load("free")


def test_what_has_no_name_is_asked_about_by_its_digest(artifact, rule):
    artifact.store.names.unset("team/line:1.2.0")
    rule('rule = "scan"')
    assert vitrify.load(str(artifact.digest))
    rule('rule = "scan"', names='["*"]')
    with pytest.raises(DeniedError):
        vitrify.load(str(artifact.digest))


def test_a_policy_that_cannot_be_read_lets_nothing_load(artifact, rule, monkeypatch):
    rule('rule = "scann"')
    with pytest.raises(MalformedError, match="is 'scan' meant"):
        vitrify.load("team/line:1.2.0")
    monkeypatch.setenv("VITRIFY_POLICY", "nowhere.toml")
    with pytest.raises(StoreError):
        vitrify.load("team/line:1.2.0")


def test_a_forged_signature_lets_nothing_load(artifact, rule):
    rule('rule = "signed-by", keys = ["release"]')
    said = statement(artifact.digest, SIGNATURE, {"signedAt": "2026-01-01T00:00:00Z"}).to_json()
    envelope = dsse.sign(said, ATTESTATION_TYPE, [OTHER])
    forged = envelope.replace(signatures=tuple(one.replace(keyid=KEY.keyid) for one in envelope.signatures))
    stores.attach(artifact.store, artifact.digest, forged.to_json())
    with pytest.raises(ForgedError):
        vitrify.load("team/line:1.2.0")


def test_what_a_build_service_finds_out_is_signed_while_it_is_written_and_counts(rule, tmp_path, monkeypatch):
    always = ('rule = "trial"', 'rule = "provenance"', 'rule = "parity", only-converted = true, rtol = 1e-6')
    rule(*always, 'rule = "scan", max-age = "1d"')
    KEY.save(tmp_path / "ci.pem", "secret")
    monkeypatch.setenv("VITRIFY_EVIDENCE_KEY", str(tmp_path / "ci.pem"))
    monkeypatch.setenv("VITRIFY_PASSPHRASE", "secret")
    saved = vitrify.save(LinearRegression().fit(X, X[:, 1]), "team/built", example=X)
    with pytest.raises(DeniedError, match="scan: found none"):
        vitrify.load("team/built")
    attest_scan(saved)
    attest_scan(vitrify.convert(saved, to="onnx", name="team/built-onnx"))
    monkeypatch.delenv("VITRIFY_EVIDENCE_KEY")
    assert vitrify.load("team/built")
    assert vitrify.load("team/built-onnx")


@pytest.mark.parametrize("passphrase", ["wrong", None])
def test_a_build_service_that_cannot_open_its_key_saves_nothing(passphrase, store, tmp_path, monkeypatch):
    KEY.save(tmp_path / "ci.pem", "secret")
    monkeypatch.setenv("VITRIFY_EVIDENCE_KEY", str(tmp_path / "ci.pem"))
    monkeypatch.delenv("VITRIFY_PASSPHRASE", raising=False)
    if passphrase:
        monkeypatch.setenv("VITRIFY_PASSPHRASE", passphrase)
    with pytest.raises(AuthenticationError):
        vitrify.save({"w": np.ones(3)}, "w")
    assert store.names.all() == {}


def test_a_machine_without_a_policy_does_not_read_the_code_of_policies(artifact):
    script = "import sys, vitrify; vitrify.load('team/line:1.2.0'); print('vitrify.trust.policy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# --- the commands ---------------------------------------------------------------------------------------------


def test_explain_says_of_every_rule_whether_it_holds_and_what_was_found(artifact, rule):
    rule('rule = "trial"', 'rule = "signed-by", keys = ["release"]')
    sign(artifact.store, artifact.digest, KEY)
    done = run("explain", "team/line:1.2.0", "--for", "load")
    assert done.exit_code == 15
    assert "not allowed to load team/line by" in done.output
    assert "evidence counts if signed by: release" in done.output
    rows = [line.split() for line in done.output.splitlines() if line.startswith(("trial", "signed-by"))]
    assert [row[:2] for row in rows] == [["trial", "fails"], ["signed-by", "holds"]]
    assert "-> save it again where VITRIFY_EVIDENCE_KEY is a key that counts" in done.output


def test_explain_gives_the_same_answer_as_json(artifact, rule):
    file = rule('rule = "signed-by", keys = ["release"]')
    sign(artifact.store, artifact.digest, KEY)
    done = run("explain", "team/line:1.2.0", "--for", "load", "--policy", file, "--json")
    assert done.exit_code == 0
    answer = json.loads(done.output)
    assert answer["allowed"] is True
    assert answer["reports"][0]["details"]["rules"][0]["verdict"] == "clean"
    assert (
        json.loads(run("explain", "team/line:1.2.0", "--for", "ship", "--json").output)["reports"][0]["details"][
            "rules"
        ]
        == []
    )


def test_explain_without_a_policy_says_so(artifact):
    done = run("explain", "team/line:1.2.0", "--for", "serve")
    assert (done.exit_code, done.output) == (0, "no policy on this machine: everything is allowed\n")


def test_check_shows_the_keys_and_what_is_required(rule):
    file = rule('rule = "scan"', 'rule = "trial"')
    done = run("check", file)
    assert done.exit_code == 0
    assert KEY.keyid in done.output
    assert "require 1, rule 2" in done.output
    assert [one["rule"] for one in json.loads(run("check", file, "--json").output)["rules"]] == ["scan", "trial"]
    file.write_text("[[requires]]\n")
    assert isinstance(run("check", file).exception, MalformedError)


def test_init_writes_a_policy_that_can_be_read_and_replaces_nothing(tmp_path):
    file = tmp_path / "policy.toml"
    assert run("init", file).exit_code == 0
    assert len(Policy.load(file).requirements) == 1
    assert isinstance(run("init", file).exception, ConflictError)


def test_every_line_of_the_starting_policy_can_be_used(tmp_path):
    lines = start.text().splitlines()
    meant = [line.removeprefix("# ") if line.startswith("# ") and _is_toml(line[2:]) else line for line in lines]
    text = "\n".join(line.replace("# {", "{") for line in meant)
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "release.pub").write_bytes(KEY.public.pem)
    policy = Policy.from_bytes(text.encode(), base=tmp_path)
    assert set(policy.keys) == {"release"}
    from vitrify.trust.policy.rules import RULES

    assert {rule.name for one in policy.requirements for _, rule in one.rules} == set(RULES)


def _is_toml(text):
    return text.startswith(
        ("[", "]", "file", "names", "purposes", "not-after", "signed-evidence", "for =", "rules", "    {")
    )


def test_the_starting_policy_allows_what_was_saved_and_scanned(artifact):
    from vitrify.artifacts.permit import facts_of

    policy = Policy.from_bytes(start.text().encode())
    scanned(artifact, None)
    (facts,) = facts_of(artifact, "serve", policy)
    assert evaluate(policy, facts).passed
    converted = vitrify.convert(artifact, to="onnx", name="line")
    scanned(converted, None)
    (facts,) = facts_of(converted, "serve", policy)
    assert evaluate(policy, facts).passed
