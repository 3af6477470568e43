"""A program as a signer: what it writes is checked, and how it fails is told."""

from __future__ import annotations

import shutil
import sys

import pytest

from vitrify.core.errors import (
    ForgedError,
    MalformedError,
    ReferenceNotFoundError,
    UnavailableError,
    UsageError,
)
from vitrify.testing.signers import SignerConformance
from vitrify.trust import dsse, exec_signer
from vitrify.trust.keyring import Keyring
from vitrify.trust.keys import PrivateKey

OPENSSL = """#!/bin/sh
case "$1" in
public) exec openssl pkey -in {key} -pubout ;;
sign) exec openssl dgst -sha256 -sign {key} ;;
*) echo "what is $1?" >&2; exit 2 ;;
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
        (python("print('x' * 70_000)"), MalformedError, "expected at most 65536"),
        (python("print('hello')"), MalformedError, "not one key in PEM"),
        (python(""), MalformedError, "not one key in PEM"),
        ("no program at all", UnavailableError, "could not run"),
    ],
)
def test_how_a_program_fails_is_told(program, text, error, message):
    with pytest.raises(error, match=message):
        Keyring().signer(program(text))


def test_a_program_that_waits_for_ever_is_stopped(program, monkeypatch):
    monkeypatch.setattr(exec_signer, "SECONDS", 0.5)
    with pytest.raises(UnavailableError, match="took more than"):
        Keyring().signer(program(python("import time; time.sleep(60)")))


def test_a_program_that_signs_something_else_signs_nothing(program):
    public = PrivateKey.generate().public.pem.decode()
    say = f"sys.stdout.write({public!r})" + " if sys.argv[1] == 'public' else sys.stdout.write({!r})"
    with pytest.raises(ForgedError):
        dsse.sign(b"x", "t", [Keyring().signer(program(python(say.format("x" * 64))))])
    with pytest.raises(MalformedError, match="expected at most 1024"):
        dsse.sign(b"x", "t", [Keyring().signer(program(python(say.format("x" * 2000))))])
