"""Keys in files: made, and read from what the user names.

A private key is a PEM file as every tool writes it (``openssl genpkey -algorithm X25519``); so is a public key, which
may also be written as one word, ``x25519:`` and its 32 bytes in base64url. A file whose only line begins with
``passphrase:`` is a passphrase. ``VITRIFY_IDENTITY`` names the file that is asked where nothing else is given.
"""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from vitrify.core.errors import MalformedError, UsageError
from vitrify.trust._private_file import create, read_key
from vitrify.trust.encryption.recipients import Passphrase, X25519Identity, X25519Recipient

if TYPE_CHECKING:
    from vitrify.trust.encryption.recipients import Identity, Recipient

VARIABLE = "VITRIFY_IDENTITY"
_PREFIX, _PASSPHRASE = "x25519:", "passphrase:"
_PEM = re.compile(rb"-----BEGIN ([A-Z ]{1,40})-----.{1,20000}?-----END \1-----", re.DOTALL)
_MAKE = "make one: vitrify protect keygen FILE"


def generate(path: Path) -> X25519Identity:
    """Write a new private key to a file that only its owner may read.

    Raises:
        ConflictError: The file is there already; it was not touched.
    """
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    private = X25519PrivateKey.generate()
    pem = private.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    create(path, pem, mode=0o600)
    return X25519Identity(private)


def public_text(recipient: X25519Recipient) -> str:
    """Return a public key as one word."""
    return _PREFIX + base64.urlsafe_b64encode(recipient.public.public_bytes_raw()).decode().rstrip("=")


def recipient(text: str) -> Recipient:
    """Return who a word or a file of a public key stands for.

    Raises:
        UsageError: It is neither.
        StoreError: There is no such file, or it may not be read.
        MalformedError: The file is no X25519 public key.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if text.startswith(_PREFIX):
        coded = text.removeprefix(_PREFIX)
        try:
            raw = base64.b64decode(coded + "=" * (-len(coded) % 4), altchars=b"-_", validate=True)
            return X25519Recipient(X25519PublicKey.from_public_bytes(raw))
        except ValueError as error:
            msg = f"{text!r} is no public key (expected x25519: and 32 bytes in base64url)"
            raise UsageError(msg, remedy=_MAKE) from error
    try:
        key = load_pem_public_key(_content(Path(text)))
    except ValueError as error:
        msg = f"{text} is no public key in PEM ({_reason(error)})"
        raise MalformedError(msg, remedy="name the public half, which may be given to anybody; " + _MAKE) from error
    if not isinstance(key, X25519PublicKey):
        msg = f"{text} is a public key of another kind (expected X25519)"
        raise MalformedError(msg, remedy=_MAKE)
    return X25519Recipient(key)


def identities(source: str | Path | Identity | None = None) -> tuple[Identity, ...]:
    """Return who is asking: an object as it is, what a file holds, or what ``VITRIFY_IDENTITY`` names; else nobody.

    Raises:
        StoreError: There is no such file, or it may not be read.
        MalformedError: It holds no private X25519 key and no passphrase.
    """
    if source is None:
        source = os.environ.get(VARIABLE)
        if not source:
            return ()
    if not isinstance(source, str | Path):
        return (source,)
    path = Path(source)
    content = _content(path)
    if content.startswith(_PASSPHRASE.encode()):
        try:
            return (Passphrase(content.decode().removeprefix(_PASSPHRASE).strip()),)
        except (UnicodeDecodeError, UsageError) as error:
            msg = f"{path}: no passphrase of ten characters or more in UTF-8"
            raise MalformedError(msg) from error
    found = tuple(_private(match.group(), path) for match in _PEM.finditer(content))
    if not found:
        msg = f"{path} holds no private key in PEM, and no line that begins with {_PASSPHRASE!r}"
        raise MalformedError(msg, remedy=_MAKE)
    return found


def _private(pem: bytes, path: Path) -> X25519Identity:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:  # TypeError: the key is itself encrypted
        msg = f"{path} cannot be read as a private key in PEM ({_reason(error)})"
        raise MalformedError(
            msg, remedy="take the password off: openssl pkey -in FILE -out PLAIN; or " + _MAKE
        ) from error
    if not isinstance(key, X25519PrivateKey):
        msg = f"{path} is a private key of another kind (expected X25519)"
        raise MalformedError(msg, remedy=_MAKE)
    return X25519Identity(key)


def _content(path: Path) -> bytes:
    if "\0" in str(path):
        msg = f"no path of a key file: {str(path)!r}"
        raise UsageError(msg, remedy=_MAKE)
    return read_key(path.expanduser())


def _reason(error: Exception) -> str:
    return str(error).partition("\n")[0][:120]
