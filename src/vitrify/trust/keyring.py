"""Keyring: the user's keys by name, and what a reference to a key leads to.

A reference is a path (it has a slash, or ends in ``.pem``, ``.pub`` or ``.key``), the name of a key in the keyring, or
``scheme:rest`` for a key that lies elsewhere: a row of kind ``signer`` in the catalog, from a third party, whose
plugin is a :class:`SignerSource`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from vitrify.core.catalog import catalog
from vitrify.core.errors import ConflictError, ReferenceNotFoundError, UnavailableError, UsageError, VitrifyError
from vitrify.stores import default_root
from vitrify.trust._private_file import create
from vitrify.trust.keys import PrivateKey, PublicKey, is_encrypted

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.trust.keys import Algorithm, Signer

    Passphrase = Callable[[], str]

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_SCHEME = re.compile(r"([a-z][a-z0-9+-]{1,31}):(.{1,2048})")
_ENDINGS = (".pem", ".pub", ".key")


class SignerSource(Protocol):
    """Where keys lie that do not leave their place: a hardware module, a key service."""

    def open(self, rest: str, passphrase: Passphrase | None) -> Signer:
        """Return the signer of a key.

        Args:
            rest: The reference behind its scheme and colon: whatever this source calls its keys.
            passphrase: Asks the user for a PIN or a passphrase, where one is needed and can be asked for.
        """


class Keyring:
    """A directory of keys: ``NAME.pem`` is a private key and ``NAME.pub`` its public one.

    Attributes:
        root: The directory.
    """

    def __init__(self, root: Path | None = None) -> None:
        """Take a directory; without one, ``keys`` beside the user's store."""
        self.root = root or default_root().parent / "keys"

    def generate(
        self, name: str, algorithm: Algorithm = "ed25519", *, passphrase: str | None, unencrypted: bool = False
    ) -> PublicKey:
        """Make a key pair; both files are new, and the private one is for this user only.

        Raises:
            UsageError: The name is none for a key, or there is neither a passphrase nor the wish for none.
            ConflictError: There is a key of this name.
            StoreError: It cannot be written.
        """
        private, public = self.private(name), self.public(name)
        if public.exists():
            msg = f"{public} is there already, and is not replaced"
            raise ConflictError(msg, remedy="choose another name")
        key = PrivateKey.generate(algorithm)
        key.save(private, passphrase, unencrypted=unencrypted)
        try:
            create(public, key.public.pem, mode=0o644)
        except VitrifyError:
            private.unlink(missing_ok=True)  # half a pair would only be in the way
            raise
        return key.public

    def names(self) -> tuple[str, ...]:
        """Return the names of the keys, sorted."""
        try:
            found = {path.stem for path in self.root.iterdir() if path.suffix in {".pem", ".pub"}}
        except FileNotFoundError:
            return ()
        return tuple(sorted(name for name in found if _NAME.fullmatch(name)))

    def private(self, name: str) -> Path:
        """Return where a private key lies, or would lie."""
        return self.root / f"{_name(name)}.pem"

    def public(self, name: str) -> Path:
        """Return where a public key lies, or would lie."""
        return self.root / f"{_name(name)}.pub"

    def verifier(self, reference: str) -> PublicKey:
        """Return the public key that a reference leads to.

        Raises:
            ReferenceNotFoundError: There is no such file or key.
            UsageError: It is a private key, or of another algorithm.
            MalformedError: The file is no public key.
        """
        if found := _SCHEME.fullmatch(reference):
            return _open(found[1], found[2], None).public
        return PublicKey.load(self._file(reference, self.public))

    def signer(self, reference: str, *, passphrase: Passphrase | None = None) -> Signer:
        """Return the signer that a reference leads to.

        Args:
            reference: A path, a name in the keyring, or ``scheme:rest``.
            passphrase: Asked only where the key needs one.

        Raises:
            ReferenceNotFoundError: There is no such file or key.
            AuthenticationError: The passphrase is wrong, or there is none and one is needed.
            UsageError: It is a public key, of another algorithm, or of a scheme that no plugin has.
            MalformedError: The file is no private key.
            UnavailableError: A plugin could not open its key.
        """
        if found := _SCHEME.fullmatch(reference):
            return _open(found[1], found[2], passphrase)
        path = self._file(reference, self.private)
        asked = passphrase() if passphrase and is_encrypted(path) else None
        return PrivateKey.load(path, asked)

    def _file(self, reference: str, place: Callable[[str], Path]) -> Path:
        is_path = "/" in reference or reference.endswith(_ENDINGS)
        path = Path(reference).expanduser() if is_path else place(reference)
        if not path.is_file():
            known = ", ".join(self.names()) or "none"
            msg = f"no key at {path}" if is_path else f"no key is called {reference!r} (there are: {known})"
            raise ReferenceNotFoundError(msg, remedy="make one: vitrify keys generate NAME; a path has a slash")
        return path


def _open(scheme: str, rest: str, passphrase: Passphrase | None) -> Signer:
    source: SignerSource = catalog().load("signer", scheme)
    try:
        signer = source.open(rest, passphrase)
        consistent = signer.keyid == signer.public.keyid and signer.algorithm == signer.public.algorithm
    except VitrifyError:
        raise
    except Exception as error:
        msg = f"signer {scheme!r} could not open its key: {type(error).__name__}: {error}"
        raise UnavailableError(msg, remedy="check that its module or service is there, and the key's name") from error
    if not consistent:
        msg = f"signer {scheme!r} says that it is {signer.keyid}, and its public key is {signer.public.keyid}"
        raise UsageError(msg, remedy="tell the author of the plugin")
    return signer


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        msg = f"not a name for a key: {text[:80]!r} (expected up to 64 letters, digits and . _ - between them)"
        raise UsageError(msg, remedy="for example: release, team-2026")
    return text
