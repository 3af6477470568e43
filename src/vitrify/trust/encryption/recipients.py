"""Recipients and identities: who an artifact's key is wrapped for, and who can unwrap it.

Two kinds are built in. ``x25519`` is HPKE (RFC 9180, base mode: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM).
``passphrase`` is scrypt (RFC 7914) and AES-256-GCM. A key management service is a third: an object with ``wrap`` and
one with ``unwrap`` that call it; the artifact's key is 32 bytes, so that any service takes it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from vitrify.core.errors import DeniedError, ForgedError, MalformedError, UsageError
from vitrify.core.wire import Value
from vitrify.trust.encryption.stream import KEY_BYTES

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

_CONTEXT = b"vitrify encryption v1 wrap "
"""Before the kind: a key that was wrapped for something else never opens here."""

_WORK = 17
"""scrypt's N is 2 to the power of this: 128 MiB and about half a second."""

_MAX_WORK = 20
"""What a stranger's artifact may ask for: 1 GiB."""

_BLOCK, _SALT, _NONCE = 8, 16, 12
_MIN_PASSPHRASE = 10
_TAMPERED = "get the artifact again from whoever encrypted it"


class Stanza(Value, frozen=True, kw_only=True):
    """An artifact's key, wrapped for one recipient.

    Attributes:
        kind: ``x25519``, ``passphrase``, or the name that a service's recipient gives itself.
        key: Whose: a key id; empty for a passphrase.
        wrapped: Base64.
        salt: Of a passphrase, base64.
        work: Of a passphrase: scrypt's N is 2 to the power of this.
    """

    kind: str
    key: str = ""
    wrapped: str
    salt: str = ""
    work: int = 0

    def __str__(self) -> str:
        """Return who it is for."""
        return f"{self.kind}:{self.key}" if self.key else self.kind


class Recipient(Protocol):
    """Somebody that an artifact's key can be wrapped for; it knows no secret."""

    def wrap(self, key: bytes) -> Stanza:
        """Return the key (32 bytes) so that only the recipient can read it."""


class Identity(Protocol):
    """Somebody who can unwrap what was wrapped for them."""

    def unwrap(self, stanza: Stanza) -> bytes | None:
        """Return the key, or None where the stanza is for somebody else.

        Raises:
            ForgedError: It is for this one, and was changed.
        """


@dataclass(frozen=True)
class X25519Recipient:
    """The holder of a private X25519 key."""

    public: X25519PublicKey

    def wrap(self, key: bytes) -> Stanza:
        """See :class:`Recipient`."""
        wrapped = _suite().encrypt(key, self.public, info=_CONTEXT + b"x25519")
        return Stanza(kind="x25519", key=key_id(self.public), wrapped=_text(wrapped))


@dataclass(frozen=True)
class X25519Identity:
    """A private X25519 key."""

    private: X25519PrivateKey = field(repr=False)

    def unwrap(self, stanza: Stanza) -> bytes | None:
        """See :class:`Identity`."""
        from cryptography.exceptions import InvalidTag

        public = self.private.public_key()
        if (stanza.kind, stanza.key) != ("x25519", key_id(public)):
            return None
        try:
            key: bytes = _suite().decrypt(_bytes(stanza.wrapped), self.private, info=_CONTEXT + b"x25519")
        except (InvalidTag, ValueError) as error:
            msg = f"the key that was wrapped for {stanza} was changed: it does not open with that key"
            raise ForgedError(msg, remedy=_TAMPERED) from error
        return key


@dataclass(frozen=True)
class Passphrase:
    """Whoever knows a passphrase: recipient and identity in one.

    Attributes:
        text: At least ten characters.
        work: scrypt's N is 2 to the power of this (RFC 7914); for wrapping only.
    """

    text: str = field(repr=False)
    work: int = _WORK

    def __post_init__(self) -> None:
        """Refuse what is guessed in a moment.

        Raises:
            UsageError: It is shorter than ten characters, or the work is out of bounds.
        """
        if len(self.text) < _MIN_PASSPHRASE or not 1 <= self.work <= _MAX_WORK:
            msg = f"a passphrase of {len(self.text)} characters (expected {_MIN_PASSPHRASE} or more)"
            raise UsageError(msg, remedy="take five or more words at random, or a key: vitrify protect keygen")

    def wrap(self, key: bytes) -> Stanza:
        """See :class:`Recipient`."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        salt, nonce = os.urandom(_SALT), os.urandom(_NONCE)
        wrapped = nonce + AESGCM(self._key(salt, self.work)).encrypt(nonce, key, _CONTEXT + b"passphrase")
        return Stanza(kind="passphrase", wrapped=_text(wrapped), salt=_text(salt), work=self.work)

    def unwrap(self, stanza: Stanza) -> bytes | None:
        """Return the key, or None: a wrong passphrase and a changed stanza look the same.

        Raises:
            MalformedError: It asks for more work than any honest artifact does.
        """
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if stanza.kind != "passphrase":
            return None
        if not 1 <= stanza.work <= _MAX_WORK:
            msg = f"a passphrase that asks for scrypt with N = 2^{stanza.work} (at most 2^{_MAX_WORK} is done)"
            raise MalformedError(msg, remedy=_TAMPERED)
        wrapped = _bytes(stanza.wrapped)
        cipher = AESGCM(self._key(_bytes(stanza.salt), stanza.work))
        try:
            return cipher.decrypt(wrapped[:_NONCE], wrapped[_NONCE:], _CONTEXT + b"passphrase")
        except (InvalidTag, ValueError):
            return None

    def _key(self, salt: bytes, work: int) -> bytes:
        text = unicodedata.normalize("NFKC", self.text).encode()
        memory = 2 * 128 * _BLOCK * 2**work  # twice what it needs, as OpenSSL counts
        return hashlib.scrypt(text, salt=salt, n=2**work, r=_BLOCK, p=1, maxmem=memory, dklen=KEY_BYTES)


def open_key(stanzas: tuple[Stanza, ...], identities: tuple[Identity, ...]) -> bytes:
    """Return an artifact's key by the first identity that has one of the stanzas.

    Raises:
        DeniedError: None of them has.
        ForgedError: A stanza for one of them was changed.
    """
    for identity in identities:
        for stanza in stanzas:
            key = identity.unwrap(stanza)
            if key is not None:
                if len(key) != KEY_BYTES:
                    msg = f"the key that was wrapped for {stanza} has {len(key)} bytes (expected {KEY_BYTES})"
                    raise ForgedError(msg, remedy=_TAMPERED)
                return key
    listed = ", ".join(map(str, stanzas))
    msg = f"the artifact is encrypted for {listed}, and no identity that was given is one of them"
    if not identities:
        msg = f"the artifact is encrypted for {listed}, and no identity was given"
    raise DeniedError(msg, remedy="name the file of your key: VITRIFY_IDENTITY=FILE, or identity=FILE")


def key_id(public: X25519PublicKey) -> str:
    """Return the name of a key: 16 hex digits of the SHA-256 of its 32 bytes."""
    return hashlib.sha256(public.public_bytes_raw()).hexdigest()[:16]


def _suite() -> Any:
    from cryptography.hazmat.primitives import hpke

    return hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        msg = f"a wrapped key that is no base64: {error}"
        raise MalformedError(msg, remedy=_TAMPERED) from error
