"""A signer that is a program: the bridge to key services and modules whose own tools are there already.

``exec:./sign-with-our-kms`` names an executable file, by a path with a slash. It is called in two ways:

- ``PROGRAM public`` writes the public key in PEM;
- ``PROGRAM sign`` reads the data from its standard input and writes the signature's bytes: 64 bytes of Ed25519, or an
  ECDSA signature in DER over the data's SHA-256 (not r and s one after the other, as PKCS #11 gives them).

A PIN or a token is the program's own business. Nothing else ever runs a program because of a reference: a reference is
what its user wrote on a command line or into a configuration of this machine, never what came with a model.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from vitrify.core.errors import MalformedError, ReferenceNotFoundError, UnavailableError, UsageError
from vitrify.trust._private_file import MAX_KEY_BYTES
from vitrify.trust._program import run
from vitrify.trust.keys import PublicKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.trust.keys import Algorithm

_MAX_SIGNATURE_BYTES = 250  # more than any has, and one byte says how long it is
_ED25519_BYTES = _RAW_P256_BYTES = 64


class ExecSource:
    """See :class:`vitrify.trust.keyring.SignerSource`."""

    def open(self, rest: str, passphrase: Callable[[], str] | None) -> ExecSigner:
        """Ask a program for its public key.

        Raises:
            UsageError: It is no path with a slash, or the key is of another algorithm.
            ReferenceNotFoundError: There is no such executable file.
            UnavailableError: It failed, or took too long.
            MalformedError: What it wrote is no public key.
        """
        del passphrase
        if "/" not in rest:
            msg = f"exec:{rest} names a program without saying where it is"
            raise UsageError(msg, remedy=f"give its path, with a slash: exec:./{rest}")
        program = Path(rest).expanduser().absolute()
        if not program.is_file() or not os.access(program, os.X_OK):
            msg = f"{program} is no program"
            raise ReferenceNotFoundError(msg, remedy="check the path, and that it is executable (chmod +x)")
        return ExecSigner(program, PublicKey.load(_run(program, "public", b"", MAX_KEY_BYTES)))


class ExecSigner:
    """A key that a program keeps; see :class:`vitrify.trust.keys.Signer`."""

    def __init__(self, program: Path, public: PublicKey) -> None:
        """Keep where it is and what it said."""
        self.program = program
        self.public = public
        self.keyid = public.keyid
        self.algorithm: Algorithm = public.algorithm

    def sign(self, data: bytes) -> bytes:
        """Return the signature over data; whoever uses it verifies it.

        Raises:
            UnavailableError: The program failed, or took too long.
            MalformedError: What it wrote has not the form of a signature.
        """
        signature = _run(self.program, "sign", data, _MAX_SIGNATURE_BYTES)
        _check_form(self.program, self.algorithm, signature)
        return signature


def _run(program: Path, verb: str, data: bytes, limit: int) -> bytes:
    # The user named this very program, and nothing is put into its arguments.
    ended = run([str(program), verb], data, limit=limit, what=f"{program} {verb}")
    if ended.status != 0:
        msg = f"{program} {verb} ended with {ended.status}: {ended.complaint or 'and said nothing'}"
        raise UnavailableError(msg, remedy="run it by itself, and see what is missing")
    return ended.output


def _check_form(program: Path, algorithm: Algorithm, signature: bytes) -> None:
    """Refuse what is no signature of the algorithm whatever was signed, so that the author sees what to change."""
    if algorithm == "ed25519" and len(signature) != _ED25519_BYTES:
        msg = f"{program} sign wrote {len(signature)} bytes (expected the {_ED25519_BYTES} of an Ed25519 signature)"
        raise MalformedError(msg, remedy="let it write the signature's bytes: no text, no newline, no encoding")
    if algorithm == "ecdsa-p256" and not (signature[:1] == b"\x30" and signature[1:2] == bytes([len(signature) - 2])):
        form = "r and s one after the other, it seems" if len(signature) == _RAW_P256_BYTES else "not in DER"
        msg = f"{program} sign wrote {len(signature)} bytes, {form} (expected an ECDSA signature in DER)"
        raise MalformedError(msg, remedy="ask its tool for DER; pkcs11-tool: --signature-format openssl")
