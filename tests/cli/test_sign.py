"""The commands of trust: keys, sign, attest, verify with a key; what they print and with which code they end."""

from __future__ import annotations

import importlib.util
import json
import shutil
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import vitrify
from vitrify import stores
from vitrify.cli import attest, export, keys, sign, verify
from vitrify.cli import main as command_line
from vitrify.core.errors import (
    AuthenticationError,
    ConflictError,
    MalformedError,
    ReferenceNotFoundError,
    StoreError,
    UsageError,
)
from vitrify.trust.keyring import Keyring
from vitrify.trust.keys import PrivateKey

COMMANDS = {
    "export": export.command,
    "keys": keys.command,
    "sign": sign.command,
    "attest": attest.command,
    "verify": verify.command,
}


@pytest.fixture
def run(monkeypatch):
    """Return a function that runs one command and gives its exit code and output; errors of ours come through."""
    monkeypatch.delenv("VITRIFY_PASSPHRASE", raising=False)

    def one(name, *arguments, expect=0):
        done = CliRunner().invoke(COMMANDS[name], [str(argument) for argument in arguments])
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == expect, done.output
        return json.loads(done.output) if "--json" in arguments else done.output

    return one


@pytest.fixture
def ring(home):
    """Return the user's keyring, with an open key of each algorithm."""
    ring = Keyring()
    ring.generate("ed", passphrase=None, unencrypted=True)
    ring.generate("ec", "ecdsa-p256", passphrase=None, unencrypted=True)
    return ring


@pytest.fixture
def line(home, shelf):
    shutil.copytree(shelf, home / "store")
    return vitrify.open("line")


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w").write_bytes(b"1")
    return folder


def test_a_key_is_made_listed_and_shown(run, tmp_path):
    (tmp_path / "secret").write_text("pass\nphrase")
    made = run("keys", "generate", "release", "--passphrase-file", tmp_path / "secret", "--json")
    assert PrivateKey.load(made["private"], "pass").keyid == made["keyid"]
    assert made["algorithm"] == "ed25519"
    assert run("keys", "list", "--json") == [
        {"name": "release", "algorithm": "ed25519", "keyid": made["keyid"], "signs": True, "error": ""}
    ]
    shown = run("keys", "show", "release", "--json")
    assert shown["keyid"] == made["keyid"]
    done = CliRunner().invoke(keys.command, ["show", made["public"]])
    assert (done.stdout, made["keyid"] in done.stderr) == (shown["pem"], True)
    assert made["keyid"] in run("keys", "list")


def test_the_environment_and_a_question_give_the_passphrase(run, monkeypatch):
    monkeypatch.setenv("VITRIFY_PASSPHRASE", "secret")
    made = run("keys", "generate", "one", "--json")
    assert PrivateKey.load(made["private"], "secret").keyid == made["keyid"]
    monkeypatch.delenv("VITRIFY_PASSPHRASE")
    with pytest.raises(AuthenticationError, match="nobody is there to ask"):
        run("keys", "generate", "two")
    assert Keyring().names() == ("one",)


def test_a_person_is_asked_twice_for_a_new_passphrase_and_once_for_a_known_one(home, monkeypatch):
    monkeypatch.delenv("VITRIFY_PASSPHRASE", raising=False)
    monkeypatch.setattr("vitrify.cli._keys._is_terminal", lambda: True)
    one = CliRunner().invoke(keys.command, ["generate", "one"], input="pass\npass\n")
    assert one.exit_code == 0, one.output
    assert CliRunner().invoke(keys.command, ["generate", "two"], input="pass\nother\n").exit_code == 1
    assert Keyring().names() == ("one",)
    (home / "m").mkdir()
    (home / "m" / "w").write_text("x")
    done = CliRunner().invoke(sign.command, [str(home / "m"), "--key", "one"], input="wrong\n")
    assert isinstance(done.exception, AuthenticationError)


def test_a_key_without_a_passphrase_has_to_be_asked_for(run, tmp_path):
    made = run("keys", "generate", "open", "--unencrypted", "--algorithm", "ecdsa-p256", "--json")
    assert PrivateKey.load(made["private"]).algorithm == "ecdsa-p256"
    with pytest.raises(ConflictError):
        run("keys", "generate", "open", "--unencrypted")
    with pytest.raises(UsageError, match="contradict"):
        run("keys", "generate", "x", "--unencrypted", "--passphrase-file", tmp_path / "latin")
    (tmp_path / "latin").write_bytes(b"\xff")
    with pytest.raises(MalformedError, match="UTF-8"):
        run("keys", "generate", "x", "--passphrase-file", tmp_path / "latin")
    with pytest.raises(StoreError):
        run("keys", "generate", "x", "--passphrase-file", tmp_path / "absent")


def test_a_damaged_key_is_listed_with_what_is_wrong(run, ring):
    ring.public("ed").write_text("x")
    ring.private("ec").unlink()
    by_name = {row["name"]: row for row in run("keys", "list", "--json")}
    assert "not one key in PEM" in by_name["ed"]["error"]
    assert not by_name["ec"]["signs"]


def test_an_artifact_is_signed_and_verified(run, ring, line):
    signed = run("sign", "line", "--key", "ed", "--claim", "ticket=ML-42", "--json")
    assert signed["artifact"] == str(line.digest)
    report = run("verify", "line", "--key", "ed", "--json")
    assert report["verdict"] == "clean"
    assert report["check"] == "verify"
    assert report["signature"]["details"]["signers"] == [signed["keyid"]]
    assert line.attestations[-1].predicate["claims"] == {"ticket": "ML-42"}
    assert f"signers: {signed['keyid']}" in run("verify", "line", "--key", ring.public("ed"))


def test_nothing_of_an_artifact_runs_that_nobody_signed(run, ring, line, monkeypatch):
    run("sign", "line", "--key", "ed")
    monkeypatch.setattr("vitrify.checks.verify.verify", lambda *_, **__: pytest.fail("it ran"))
    report = run("verify", "line", "--key", "ec", "--json", expect=17)
    assert report["check"] == "signature"
    assert report["findings"][0]["rule"] == "unsigned"
    assert "signature: found" in run("verify", "line", "--key", "ec", expect=17)


def test_what_is_verified_is_what_was_signed_though_the_name_moves(run, ring, line, store, monkeypatch):
    run("sign", "line", "--key", "ed")
    from vitrify.trust import signing

    honest = signing.verify

    def move(*arguments):
        store.names.set("line:latest", store.names.get("parts:latest"))
        return honest(*arguments)

    monkeypatch.setattr(signing, "verify", move)
    seen = []
    monkeypatch.setattr("vitrify.checks.verify.verify", lambda reference, **_: seen.append(reference) or report)
    report = vitrify.Report(check="verify", verdict="clean")
    run("verify", "line", "--key", "ed")
    assert seen == [str(line.digest)]
    assert store.names.get("line:latest").content != line.digest


def test_without_a_key_verify_is_what_it_was(run, line):
    report = run("verify", "line", "--json")
    assert report["verdict"] == "clean"
    assert "signature" not in report
    assert run("verify", "--json")["check"] == "fsck"


def test_a_directory_is_signed_and_verified(run, ring, model):
    signed = run("sign", model, "--key", "ec", "--json")
    assert signed["file"] == str(model / "model.sig")
    report = run("verify", model, "--key", "ec", "--json")
    assert (report["verdict"], report["details"]["files"]) == ("clean", 1)
    (model / "extra").write_text("x")
    assert "extra: is there" in run("verify", model, "--key", "ec", expect=17)
    run("verify", model, "--key", "ed", expect=17)


def test_the_signature_of_a_directory_may_lie_elsewhere(run, ring, model, tmp_path):
    run("sign", model, "--key", "ec", "-o", tmp_path / "elsewhere.sig")
    assert not (model / "model.sig").exists()
    run("verify", model, "--key", "ec", "--signature", tmp_path / "elsewhere.sig")
    with pytest.raises(StoreError, match=r"model\.sig"):
        run("verify", model, "--key", "ec")


def test_a_file_that_the_signer_left_out_has_to_be_accepted(run, ring, model):
    tool = pytest.importorskip("model_signing")
    (model / "README.md").write_text("x")
    hashing = tool.hashing.Config().set_ignored_paths(paths=["README.md", "model.sig"])
    config = tool.signing.Config().use_elliptic_key_signer(private_key=ring.private("ec"))
    config.set_hashing_config(hashing).sign(model, model / "model.sig")
    assert "unsigned-file" in json.dumps(run("verify", model, "--key", "ec", "--json", expect=17))
    run("verify", model, "--key", "ec", "--unsigned", "README.md")


def test_the_files_of_an_artifact_are_signed_for_other_tools(run, ring, line, store, tmp_path):
    run("sign", "line", "--key", "ec", "-o", tmp_path / "line.sig")
    assert run("verify", "line", "--key", "ec", "--signature", tmp_path / "line.sig", "--json")["verdict"] == "clean"
    run("export", "line", tmp_path / "out", "--as", "directory")
    run("verify", tmp_path / "out", "--key", "ec", "--signature", tmp_path / "line.sig")
    tool = pytest.importorskip("model_signing")
    config = tool.verifying.Config().use_elliptic_key_verifier(public_key=ring.public("ec"))
    config.verify(tmp_path / "out", tmp_path / "line.sig")
    with pytest.raises(UsageError, match="P-256"):
        run("sign", "line", "--key", "ed", "-o", tmp_path / "x.sig")


def test_a_statement_is_kept_signed_or_not(run, ring, line, store, tmp_path):
    (tmp_path / "said.json").write_text('{"reviewer": "ada"}')
    arguments = ("line", "--type", "urn:acme:review:v1", "--predicate", tmp_path / "said.json", "--json")
    before = len(stores.attestations(store, line.digest))
    assert run("attest", *arguments, "--key", "ed")["keyid"] == ring.verifier("ed").keyid
    assert run("attest", *arguments)["keyid"] == ""
    assert [one.predicate for one in line.attestations[before:]] == [{"reviewer": "ada"}] * 2


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a":1,"a":2}', "NaN"])
def test_what_is_no_json_object_is_not_said(run, line, tmp_path, text):
    (tmp_path / "said.json").write_text(text)
    with pytest.raises(MalformedError, match=r"said\.json"):
        run("attest", "line", "--type", "urn:a:b", "--predicate", tmp_path / "said.json")


@pytest.fixture
def identity(tmp_path, monkeypatch):
    """Return options of sign and of verify for a Sigstore instance in this process, and a token for it."""
    pytest.importorskip("sigstore")
    place = Path(__file__).parent.parent / "trust" / "_instance.py"
    spec = importlib.util.spec_from_file_location("cli_instance", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    services, jwt, now = module.Instance(), pytest.importorskip("jwt"), int(time.time())
    (tmp_path / "sigstore.json").write_text(json.dumps(services.configuration()))
    claims = {"iss": module.ISSUER, "sub": "ada@example.org", "aud": "sigstore", "iat": now, "exp": now + 600}
    (tmp_path / "token").write_text(jwt.encode(claims, "a secret of the provider's, long enough", algorithm="HS256"))
    sigstore = ("--sigstore", tmp_path / "sigstore.json")
    yield (
        ("--token-file", tmp_path / "token", *sigstore),
        ("--signed-by", "ada@example.org", "--issuer", module.ISSUER, *sigstore),
    )
    services.close()


def test_an_identity_signs_in_place_of_a_key(run, identity, line, model, monkeypatch):
    (signs, verifies), tmp_path = identity, model.parent
    assert run("sign", model, *signs, "--json")["identity"] == "ada@example.org"
    assert run("verify", model, *verifies, "--json")["details"]["signers"] == ["ada@example.org"]
    run("sign", "line", *signs, "-o", tmp_path / "line.sig")
    report = run("verify", "line", *verifies, "--signature", tmp_path / "line.sig", "--json")
    assert (report["verdict"], report["signature"]["verdict"]) == ("clean", "clean")
    run("verify", model, *verifies, "--signature", tmp_path / "line.sig", expect=17)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    run("verify", model, *verifies[:4], "--offline", expect=17)  # the public instance, which knows nothing of ours
    for wrong in (
        ("sign", "line", *signs),
        ("sign", "line", *signs, "--key", "x"),
        ("sign", model, "--key", "x", "--sigstore", tmp_path / "sigstore.json"),
        ("verify", "line", *verifies),
        ("verify", model, *verifies, "--key", "x"),
        ("verify", model, "--signed-by", "ada@example.org"),
        ("verify", model, "--key", "x", "--offline"),
        ("verify", model, "--issuer", "https://accounts.example.org"),
    ):
        with pytest.raises(UsageError):
            run(*wrong)


def test_what_cannot_be_meant_is_said_so(run, ring, line, model, tmp_path):
    for wrong in (
        ("sign", "line"),
        ("sign", "line", "--key", "ed", "--claim", "x"),
        ("sign", "line", "--key", "ed", "--claim", "=x"),
        ("sign", "line", "--key", "ed", "--claim", "x=1", "--claim", "x=2"),
        ("sign", model, "--key", "ec", "--claim", "x=1"),
        ("verify", "--key", "ed"),
        ("verify", "line", "--signature", tmp_path / "x"),
        ("verify", model),
        ("verify", "line", "--key", "ed", "--unsigned", "x"),
    ):
        with pytest.raises(UsageError):
            run(*wrong)
    with pytest.raises(ReferenceNotFoundError, match="there are: ec, ed"):
        run("sign", "line", "--key", "absent")
    with pytest.raises(ReferenceNotFoundError):
        run("sign", "absent", "--key", "ed")


def test_a_forged_signature_ends_with_the_code_of_forged(ring, line, capsys):
    with pytest.raises(SystemExit) as stop:
        command_line(["verify", "line", "--key", "ed"])
    assert stop.value.code == 17


def test_a_layout_is_an_artifact_and_no_directory_of_files(run, ring, line, store):
    run("sign", "line", "--key", "ed")
    store.names.unset("parts:latest")
    assert run("verify", store.root, "--key", "ed", "--json")["signature"]["verdict"] == "clean"
