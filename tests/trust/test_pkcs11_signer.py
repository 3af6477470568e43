"""Keys in SoftHSM: they sign, and whatever a token, its module or a PIN does wrong is told as one of our errors."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from trust._softhsm import PIN

from vitrify.core.errors import (
    AuthenticationError,
    ReferenceNotFoundError,
    UnavailableError,
    UsageError,
)
from vitrify.testing.signers import SignerConformance
from vitrify.trust import _program, dsse
from vitrify.trust.keyring import Keyring
from vitrify.trust.keys import PrivateKey

pytest.importorskip("pkcs11")
pytestmark = pytest.mark.external


def pin():
    return PIN


@pytest.fixture
def p256(token):
    """Return a key that is in the token, too."""
    key = ec.generate_private_key(ec.SECP256R1())
    token.take(key, "release")
    return PrivateKey(key)


class TestEcdsaInAToken(SignerConformance):
    @pytest.fixture(autouse=True)
    def _made(self, token):
        token.take(ec.generate_private_key(ec.SECP256R1()), "release")
        self.reference = token.reference("release")

    def signer(self):
        return Keyring().signer(self.reference, passphrase=pin)


class TestEd25519InAToken(SignerConformance):
    @pytest.fixture(autouse=True)
    def _made(self, token):
        token.take(ed25519.Ed25519PrivateKey.generate(), "release")
        self.reference = token.reference("release")

    def signer(self):
        return Keyring().signer(self.reference, passphrase=pin)


def test_a_signature_holds_for_its_key_and_for_no_other(token, p256):
    signer = Keyring().signer(token.reference("release"), passphrase=pin)
    assert signer.public == p256.public
    envelope = dsse.sign(b"x", "t", [signer])
    assert dsse.verify(envelope, [p256.public]) == (p256.keyid,)
    assert dsse.verify(envelope, [PrivateKey.generate("ecdsa-p256").public]) == ()


def test_a_key_is_found_by_label_by_id_and_by_what_p11tool_prints(token, p256):
    token.take(ed25519.Ed25519PrivateKey.generate(), "other", "0A")
    printed = token.reference("release").replace("token=", "model=SoftHSM%20v2;manufacturer=SoftHSM%20project;token=")
    for reference in (printed.replace("?", ";id=%01;type=private?"), printed.replace("object=release", "id=%01")):
        assert Keyring().verifier(reference) == p256.public
    assert Keyring().verifier(printed.replace("object=release", "id=%0a")).algorithm == "ed25519"


def test_a_public_key_is_read_without_a_pin(token, p256):
    assert Keyring().verifier(token.reference("release")) == p256.public
    signer = Keyring().signer(token.reference("release"))
    with pytest.raises(AuthenticationError, match="needs a PIN"):
        signer.sign(b"x")


def test_the_pin_comes_from_a_file_where_one_is_named(token, p256, tmp_path):
    (tmp_path / "pin").write_text(f"{PIN}\n")
    for source in (f"{tmp_path}/pin", f"file:{tmp_path}/pin", f"file://{tmp_path}/pin"):
        signer = Keyring().signer(token.reference("release", f"pin-source={source}"), passphrase=None)
        assert signer.public == p256.public
    signer = Keyring().signer(
        token.reference("release", f"pin-source={tmp_path}/pin"), passphrase=lambda: pytest.fail("asked")
    )
    p256.public.verify(b"x", signer.sign(b"x"))


@pytest.mark.parametrize("wrong", ["654321", "1", "1" * 300])
def test_a_wrong_pin_is_told(token, p256, wrong):
    signer = Keyring().signer(token.reference("release"), passphrase=lambda: wrong)
    with pytest.raises(AuthenticationError, match="the PIN is wrong"):
        signer.sign(b"x")


def test_what_is_not_there_says_what_is(token, p256):
    with pytest.raises(ReferenceNotFoundError, match=r"no token fits token=absent \(there are: models"):
        Keyring().signer(token.reference("release", token="absent"), passphrase=pin)
    with pytest.raises(ReferenceNotFoundError, match=r"no public key fits object=relaese \(there are: release"):
        Keyring().signer(token.reference("relaese"), passphrase=pin)
    with pytest.raises(ReferenceNotFoundError, match="without a PIN"):
        Keyring().verifier(token.reference("relaese"))


def test_what_fits_two_is_no_name(token, p256):
    token.take(ed25519.Ed25519PrivateKey.generate(), "release", "02")
    with pytest.raises(UsageError, match="2 keys fit object=release"):
        Keyring().signer(token.reference("release"), passphrase=pin)
    token.add("models")
    with pytest.raises(UsageError, match="2 tokens fit token=models"):
        Keyring().signer(token.reference("release"), passphrase=pin)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (lambda: rsa.generate_private_key(65537, 2048), "RSA"),
        (lambda: ec.generate_private_key(ec.SECP384R1()), "another curve"),
    ],
)
def test_a_key_of_another_algorithm_is_refused(token, key, kind):
    token.take(key(), "release")
    with pytest.raises(UsageError, match=kind):
        Keyring().signer(token.reference("release"), passphrase=pin)


def test_a_key_that_is_hidden_is_found_with_the_pin(token):
    token.make("hidden", public="{Attribute.PRIVATE: True}")
    signer = Keyring().signer(token.reference("hidden"), passphrase=pin)
    signer.public.verify(b"x", signer.sign(b"x"))
    with pytest.raises(ReferenceNotFoundError, match="without a PIN"):
        Keyring().verifier(token.reference("hidden"))


def test_a_key_that_wants_the_pin_each_time_gets_it(token):
    token.make("mine", private="{Attribute.ALWAYS_AUTHENTICATE: True}")
    signer = Keyring().signer(token.reference("mine"), passphrase=pin)
    for data in (b"x", b"y"):
        signer.public.verify(data, signer.sign(data))


def test_a_key_that_may_not_sign_does_not(token):
    token.make("closed", private="{Attribute.SIGN: False}")
    with pytest.raises(UsageError, match="'closed' sign"):
        Keyring().signer(token.reference("closed"), passphrase=pin).sign(b"x")


def test_a_token_that_is_gone_is_told(token, p256):
    signer = Keyring().signer(token.reference("release"), passphrase=pin)
    shutil.rmtree(token.folder / "tokens")
    (token.folder / "tokens").mkdir()
    with pytest.raises(ReferenceNotFoundError, match="there are: none"):
        signer.sign(b"x")


def test_a_module_that_waits_for_ever_is_stopped(token, p256, monkeypatch, tmp_path):
    os.mkfifo(tmp_path / "pipe")  # nobody will ever write into it
    monkeypatch.setenv("SOFTHSM2_CONF", str(tmp_path / "pipe"))
    monkeypatch.setattr(_program, "SECONDS", 3)
    with pytest.raises(UnavailableError, match="took more than 3 s"):
        Keyring().signer(token.reference("release"), passphrase=pin)


def test_a_module_without_its_configuration_is_told(token, monkeypatch, tmp_path):
    monkeypatch.setenv("SOFTHSM2_CONF", str(tmp_path / "absent"))
    with pytest.raises(UnavailableError, match="refused"):
        Keyring().signer(token.reference("release"), passphrase=pin)


def test_a_file_that_is_no_module_is_told(tmp_path):
    (tmp_path / "module.so").write_text("no library")
    with pytest.raises(UnavailableError, match=r"module\.so"):
        Keyring().signer(f"pkcs11:object=a?module-path={tmp_path}/module.so", passphrase=pin)


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_a_module_that_crashes_takes_nobody_with_it(tmp_path):
    source = (
        '#include <stdio.h>\n#include <stdlib.h>\nint C_GetFunctionList(void) { puts("{}"); fflush(0); abort(); }\n'
    )
    (tmp_path / "module.c").write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "module.so", "module.c"], cwd=tmp_path, check=True)
    with pytest.raises(UnavailableError, match="ended its process with -6"):
        Keyring().signer(f"pkcs11:object=a?module-path={tmp_path}/module.so", passphrase=pin)


def test_a_module_of_python_in_the_working_directory_is_not_run(token, p256, tmp_path, monkeypatch):
    (tmp_path / "pkcs11.py").write_text("raise SystemExit('run')")
    monkeypatch.chdir(tmp_path)
    assert Keyring().verifier(token.reference("release")) == p256.public


def test_an_artifact_is_signed_and_verified_by_commands(token, p256, store, tmp_path):
    from click.testing import CliRunner

    from vitrify.cli import sign, verify

    (tmp_path / "pin").write_text(PIN)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights.bin").write_bytes(b"weights")
    reference = token.reference("release", f"pin-source={tmp_path}/pin")
    done = CliRunner().invoke(sign.command, [f"{tmp_path}/model", "--key", reference])
    assert done.exit_code == 0, done.output
    for key, code in ((token.reference("release"), 0), (str(tmp_path / "other.pub"), 17)):
        (tmp_path / "other.pub").write_bytes(PrivateKey.generate("ecdsa-p256").public.pem)
        done = CliRunner().invoke(verify.command, [f"{tmp_path}/model", "--key", key])
        assert done.exit_code == code, done.output
