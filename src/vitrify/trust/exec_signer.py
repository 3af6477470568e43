"""A signer that is a program: the bridge to key services and modules whose own tools are there already.

``exec:./sign-with-our-kms`` names an executable file, by a path with a slash. It is called in two ways:

- ``PROGRAM public`` writes the public key in PEM;
- ``PROGRAM sign`` reads the data from its standard input and writes the signature's bytes: 64 bytes of Ed25519, or an
  ECDSA signature in DER over the data's SHA-256.

A PIN or a token is the program's own business. Nothing else ever runs a program because of a reference: a reference is
what its user wrote on a command line or into a configuration of this machine, never what came with a model.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from vitrify.core.errors import MalformedError, ReferenceNotFoundError, UnavailableError, UsageError
from vitrify.trust._private_file import MAX_KEY_BYTES
from vitrify.trust.keys import PublicKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.trust.keys import Algorithm

SECONDS = 120
"""A program that takes longer is stopped; a person may have to touch a module meanwhile."""

_MAX_SIGNATURE_BYTES = 1024
_MAX_COMPLAINT = 500


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
            MalformedError: It wrote more than a signature.
        """
        return _run(self.program, "sign", data, _MAX_SIGNATURE_BYTES)


def _run(program: Path, verb: str, data: bytes, limit: int) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 (the user named this very program, and nothing is put into its arguments)
            [program, verb], input=data, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        msg = f"{program} {verb} took more than {SECONDS} s"
        raise UnavailableError(msg, remedy="run it by itself, and see what it waits for") from error
    except OSError as error:
        msg = f"could not run {program}: {error.strerror or error}"
        raise UnavailableError(
            msg, remedy="check that it is a program of this machine (a script begins with #!)"
        ) from error
    if done.returncode != 0:
        complaint = done.stderr.decode(errors="replace").strip()[-_MAX_COMPLAINT:] or "and said nothing"
        msg = f"{program} {verb} ended with {done.returncode}: {complaint}"
        raise UnavailableError(msg, remedy="run it by itself, and see what is missing")
    if len(done.stdout) > limit:
        msg = f"{program} {verb} wrote {len(done.stdout)} bytes (expected at most {limit})"
        raise MalformedError(msg)
    return done.stdout
