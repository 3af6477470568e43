"""A program as a signer: what it writes is checked, and how it fails is told."""

from __future__ import annotations

import shutil
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from trust._softhsm import MODULE, PIN

from vitrify.core.errors import (
    ForgedError,
    MalformedError,
    ReferenceNotFoundError,
    UnavailableError,
    UsageError,
)
from vitrify.testing.signers import SignerConformance
from vitrify.trust import _program, dsse
from vitrify.trust.keyring import Keyring
from vitrify.trust.keys import PrivateKey

OPENSSL = """#!/bin/sh
case "$1" in
public) exec openssl pkey -in {key} -pubout ;;
sign) exec openssl dgst -sha256 -sign {key} ;;
*) echo "what is $1?" >&2; exit 2 ;;
esac
"""

PKCS11_TOOL = """#!/bin/sh
tool="pkcs11-tool --module {module} --token-label models --id 01"
case "$1" in
public) $tool --read-object --type pubkey | openssl pkey -pubin -inform DER ;;
sign) openssl dgst -sha256 -binary | $tool --login --pin {pin} --sign --mechanism ECDSA --signature-format {form} ;;
esac
"""


@pytest.fixture
def program(tmp_path):
    """Return a function that writes a program and gives a reference to it."""

    def write(text, mode=0o755):
        path = tmp_path / "signer"
        path.write_text(text)
        path.chmod(mode)
        return f"exec:{path}"

    return write


def python(body):
    return f"#!{sys.executable}\nimport sys\n{body}\n"


@pytest.mark.external
@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
class TestOpensslAsAProgram(SignerConformance):
    @pytest.fixture(autouse=True)
    def _made(self, tmp_path, program):
        self.key = PrivateKey.generate("ecdsa-p256")
        self.key.save(tmp_path / "key.pem", unencrypted=True)
        self.reference = program(OPENSSL.format(key=tmp_path / "key.pem"))

    def signer(self):
        return Keyring().signer(self.reference)

    def test_its_public_key_verifies_without_it(self):
        assert Keyring().verifier(self.reference) == self.key.public
        envelope = dsse.sign(b"x", "t", [self.signer()])
        assert dsse.verify(envelope, [self.key.public]) == (self.key.keyid,)


def pkcs11_tool(program, token, form):
    if not shutil.which("pkcs11-tool") or not shutil.which("openssl"):
        pytest.skip("needs pkcs11-tool and openssl")
    token.take(ec.generate_private_key(ec.SECP256R1()), "release")
    return program(PKCS11_TOOL.format(module=MODULE, pin=PIN, form=form))


@pytest.mark.external
class TestPkcs11ToolAsAProgram(SignerConformance):
    @pytest.fixture(autouse=True)
    def _made(self, program, token):
        self.reference = pkcs11_tool(program, token, "openssl")

    def signer(self):
        return Keyring().signer(self.reference)


@pytest.mark.external
def test_a_signature_as_pkcs11_has_it_is_told_from_der(program, token):
    signer = Keyring().signer(pkcs11_tool(program, token, "rs"))
    with pytest.raises(MalformedError, match=r"64 bytes, r and s one after the other, it seems \(expected .* in DER"):
        signer.sign(b"x")


def test_a_program_is_named_by_a_path(program, tmp_path):
    for reference in ("exec:openssl", "exec:signer"):
        with pytest.raises(UsageError, match="without saying where"):
            Keyring().signer(reference)
    with pytest.raises(ReferenceNotFoundError, match="no program"):
        Keyring().signer(f"exec:{tmp_path}/absent")
    with pytest.raises(ReferenceNotFoundError, match="no program"):
        Keyring().signer(program(python("pass"), mode=0o644))
    with pytest.raises(ReferenceNotFoundError, match="no program"):
        Keyring().signer(f"exec:{tmp_path}/")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (python("sys.exit('the card is not in')"), UnavailableError, "ended with 1: the card is not in"),
        (python("sys.exit(3)"), UnavailableError, "ended with 3: and said nothing"),
        (python("print('x' * 70_000)"), MalformedError, "more than 65536 bytes"),
        (python("print('hello')"), MalformedError, "not one key in PEM"),
        (python(""), MalformedError, "not one key in PEM"),
        ("no program at all", UnavailableError, "could not run"),
    ],
)
def test_how_a_program_fails_is_told(program, text, error, message):
    with pytest.raises(error, match=message):
        Keyring().signer(program(text))


def test_a_program_that_waits_for_ever_is_stopped(program, monkeypatch):
    monkeypatch.setattr(_program, "SECONDS", 0.5)
    with pytest.raises(UnavailableError, match="took more than"):
        Keyring().signer(program(python("import time; time.sleep(60)")))


@pytest.mark.parametrize(
    ("algorithm", "signature", "error", "message"),
    [
        ("ed25519", "x" * 64, ForgedError, "is not by"),
        ("ed25519", "x" * 65, MalformedError, "65 bytes .expected the 64"),
        ("ed25519", "", MalformedError, "0 bytes .expected the 64"),
        ("ecdsa-p256", "0\x06\x02\x01\x01\x02\x01\x01", ForgedError, "is not by"),
        ("ecdsa-p256", "0\x06\x02\x01\x01\x02\x01\x01\n", MalformedError, "9 bytes, not in DER"),
        ("ecdsa-p256", "x" * 64, MalformedError, "r and s one after the other"),
        ("ecdsa-p256", "", MalformedError, "0 bytes, not in DER"),
        ("ecdsa-p256", "x" * 2000, MalformedError, "more than 250 bytes"),
    ],
)
def test_a_program_that_signs_something_else_signs_nothing(program, algorithm, signature, error, message):
    public = PrivateKey.generate(algorithm).public.pem.decode()
    signer = Keyring().signer(
        program(python(f"sys.stdout.write({public!r} if sys.argv[1] == 'public' else {signature!r})"))
    )
    with pytest.raises(error, match=message):
        dsse.sign(b"x", "t", [signer])


def test_a_program_that_dies_while_it_signs_is_told(program):
    public = PrivateKey.generate().public.pem.decode()
    text = python(
        f"import os\nsys.stdout.write({public!r} if sys.argv[1] == 'public' else 'half')\n"
        "if sys.argv[1] == 'sign':\n    sys.stdout.flush()\n    os.kill(os.getpid(), 9)"
    )
    with pytest.raises(UnavailableError, match="sign ended with -9"):
        Keyring().signer(program(text)).sign(b"x")
