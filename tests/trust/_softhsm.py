"""A hardware module in software: SoftHSM, with a token of its own for each test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PIN = "123456"
_PLACES = (
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib64/pkcs11/libsofthsm2.so",
    "/usr/local/lib/softhsm/libsofthsm2.so",
)
MODULE = next((place for place in _PLACES if Path(place).is_file()), "")
MISSING = not (MODULE and shutil.which("softhsm2-util"))

_PAIR = """
import sys, pkcs11
from pkcs11 import Attribute, KeyType
from pkcs11.util.ec import encode_named_curve_parameters

token = pkcs11.lib(sys.argv[1]).get_token(token_label=sys.argv[2])
with token.open(rw=True, user_pin=sys.argv[3]) as session:
    curve = {Attribute.EC_PARAMS: encode_named_curve_parameters("secp256r1")}
    session.create_domain_parameters(KeyType.EC, curve, local=True).generate_keypair(
        store=True, label=sys.argv[4], id=sys.argv[4].encode(),
        public_template=eval(sys.argv[5]), private_template=eval(sys.argv[6]),
    )
"""


class Token:
    """A token named ``models``.

    Attributes:
        folder: Where SoftHSM has its configuration and its tokens.
    """

    def __init__(self, folder):
        self.folder = folder
        (folder / "tokens").mkdir()
        (folder / "softhsm2.conf").write_text(f"directories.tokendir = {folder}/tokens\nlog.level = ERROR\n")
        self.add("models")

    def add(self, label):
        """Make a token."""
        self._util("--init-token", "--free", "--label", label, "--pin", PIN, "--so-pin", "87654321")

    def take(self, key, label, number="01", token="models"):
        """Put a private key of the ``cryptography`` library into the token, and its public half."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        path = self.folder / f"{label}.pem"
        path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        names = ("--token", token, "--label", label, "--id", number, "--pin", PIN)
        self._util("--import", str(path), *names)
        path.unlink()

    def make(self, label, public="{}", private="{}"):
        """Let the token make an ECDSA P-256 key whose halves have these attributes, and the label as their id."""
        self._run([sys.executable, "-c", _PAIR, MODULE, "models", PIN, label, public, private])

    def reference(self, label, *more, token="models"):
        """Return what leads to a key."""
        return "&".join((f"pkcs11:token={token};object={label}?module-path={MODULE}", *more))

    def _util(self, *arguments):
        self._run(["softhsm2-util", *arguments])

    def _run(self, command):
        environment = {**os.environ, "SOFTHSM2_CONF": str(self.folder / "softhsm2.conf")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def token(tmp_path, monkeypatch):
    """Make an empty token, to which the environment leads."""
    if MISSING:
        pytest.skip("needs softhsm2")
    (tmp_path / "hsm").mkdir()
    made = Token(tmp_path / "hsm")
    monkeypatch.setenv("SOFTHSM2_CONF", str(made.folder / "softhsm2.conf"))
    return made
