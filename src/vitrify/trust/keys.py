"""Keys: who can sign, and how a signature is checked.

Two algorithms and no others: Ed25519 (RFC 8032), and ECDSA over P-256 with SHA-256 (FIPS 186-5), which the OpenSSF
model-signing tool, cosign and hardware modules know. A key's id is ``sha256:`` and the digest of its
SubjectPublicKeyInfo in DER, so that everybody computes the same one.

>>> key = PrivateKey.generate("ed25519")
>>> key.public.verify(b"data", key.sign(b"data"))        # returns nothing, or raises ForgedError
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from vitrify.core.errors import AuthenticationError, ForgedError, MalformedError, UsageError
from vitrify.trust._pkcs8 import encrypt, pem
from vitrify.trust._private_file import create, read_key

if TYPE_CHECKING:
    from typing import Self

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

Algorithm = Literal["ed25519", "ecdsa-p256"]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)

_PEM = re.compile(rb"\s*-----BEGIN ([A-Z ]+)-----\s[A-Za-z0-9+/=\s]+-----END \1-----\s*")
_ENCRYPTED = b"ENCRYPTED PRIVATE KEY"
_MAX_PASSPHRASE = 1024
_FIELD = 2**255 - 19
_EIGHTH = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
"""The y-coordinate of the points of order 8 on the curve of Ed25519; the other sign is ``_FIELD - _EIGHTH``."""
_LOW_ORDER = frozenset({0, 1, _FIELD - 1, _EIGHTH, _FIELD - _EIGHTH})


class Signer(Protocol):
    """Who can sign: a key in a file, in a hardware module or at a key service.

    It is four names so that anything which keeps the private key to itself fits. ``algorithm`` and ``keyid`` are
    those of ``public``; :class:`vitrify.testing.signers.SignerConformance` says what each promises.
    """

    @property
    def public(self) -> PublicKey:
        """The key that its signatures are verified with."""

    @property
    def keyid(self) -> str:
        """The public key's id."""

    @property
    def algorithm(self) -> Algorithm:
        """The public key's algorithm."""

    def sign(self, data: bytes) -> bytes:
        """Return the signature over data: 64 bytes of Ed25519, or an ECDSA signature in DER over its SHA-256."""


@dataclass(frozen=True)
class PublicKey:
    """A key that signatures are verified with; two are equal when they are the same key.

    Attributes:
        der: Its SubjectPublicKeyInfo in DER, as this library writes it.
    """

    der: bytes

    @classmethod
    def load(cls, source: Path | str | bytes) -> Self:
        """Read a public key in PEM, from a path or from the bytes themselves.

        Raises:
            StoreError: The file cannot be read.
            MalformedError: It is no single public key in PEM, or a key for which signatures hold that nobody made.
            UsageError: It is a private key, or of another algorithm.
        """
        where = "public key" if isinstance(source, bytes) else str(source)
        data = source if isinstance(source, bytes) else read_key(Path(source))
        return cls._of_pem(data, where)

    @classmethod
    def _of_pem(cls, data: bytes, where: str) -> Self:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        label = _label(data, where)
        if label.endswith(b"PRIVATE KEY"):
            msg = f"{where} is a private key (expected a public one, which can be given away)"
            raise UsageError(msg, remedy="name its .pub file, or make one: vitrify keys show")
        if label != b"PUBLIC KEY":
            msg = f"{where}: {label.decode()} in PEM (expected PUBLIC KEY)"
            raise MalformedError(msg)
        try:
            key = load_pem_public_key(data)
        except (ValueError, UnsupportedAlgorithm) as error:
            msg = f"{where}: not a public key ({error})"
            raise MalformedError(msg) from error
        return cls.of(key, where=where)

    @classmethod
    def of(cls, key: object, *, where: str = "public key") -> Self:
        """Take a public key of the ``cryptography`` library; it raises what :meth:`load` raises."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        taken = _checked(key, where)
        return cls(taken.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))

    @cached_property
    def _key(self) -> Ed25519PublicKey | EllipticCurvePublicKey:
        from cryptography.hazmat.primitives.serialization import load_der_public_key

        return _checked(load_der_public_key(self.der), "public key")

    @property
    def algorithm(self) -> Algorithm:
        """``ed25519`` or ``ecdsa-p256``."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        return "ed25519" if isinstance(self._key, Ed25519PublicKey) else "ecdsa-p256"

    @property
    def keyid(self) -> str:
        """``sha256:`` and the hex digest of ``der``."""
        return f"sha256:{hashlib.sha256(self.der).hexdigest()}"

    @property
    def pem(self) -> bytes:
        """Its text form, which every tool reads."""
        return pem(self.der, "PUBLIC KEY")

    def verify(self, data: bytes, signature: bytes) -> None:
        """Return if this key's owner signed these bytes.

        Raises:
            ForgedError: The signature does not hold.
        """
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.hashes import SHA256

        key = self._key
        try:
            if isinstance(key, Ed25519PublicKey):
                key.verify(signature, data)
            else:
                key.verify(signature, data, ECDSA(SHA256()))
        except InvalidSignature as error:
            msg = f"the signature is not by {self.keyid} over these bytes"
            raise ForgedError(msg) from error

    def __str__(self) -> str:
        return self.keyid


class PrivateKey:
    """A signer whose key is in this process's memory."""

    def __init__(self, key: Ed25519PrivateKey | EllipticCurvePrivateKey) -> None:
        """Take a private key of the ``cryptography`` library."""
        self._key = key
        self.public = PublicKey.of(key.public_key(), where="private key")
        self.keyid = self.public.keyid
        self.algorithm = self.public.algorithm

    @classmethod
    def generate(cls, algorithm: Algorithm = "ed25519") -> Self:
        """Make a new key from the operating system's randomness.

        Raises:
            UsageError: There is no such algorithm here.
        """
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519

        if algorithm not in ALGORITHMS:
            msg = f"no key algorithm is called {algorithm!r} (there are: {', '.join(ALGORITHMS)})"
            raise UsageError(msg)
        if algorithm == "ed25519":
            return cls(ed25519.Ed25519PrivateKey.generate())
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @classmethod
    def load(cls, path: Path | str, passphrase: str | bytes | None = None) -> Self:
        """Read a private key in PEM: PKCS #8, encrypted or not.

        Raises:
            StoreError: The file cannot be read.
            MalformedError: It is no single private key in PEM.
            AuthenticationError: The passphrase is wrong, or there is none and the key is encrypted.
            UsageError: A passphrase for a key that has none; a public key; another algorithm.
        """
        data = read_key(Path(path))
        label = _label(data, str(path))
        if label == b"PUBLIC KEY":
            msg = f"{path} is a public key, which cannot sign"
            raise UsageError(msg, remedy="name the file of the private key")
        if label not in {b"PRIVATE KEY", b"EC PRIVATE KEY", _ENCRYPTED}:
            msg = f"{path}: {label.decode()} in PEM (expected PRIVATE KEY, encrypted or not)"
            raise MalformedError(msg)
        secret = None if passphrase is None else _passphrase(passphrase)
        if secret is not None and label != _ENCRYPTED:
            msg = f"{path} is not encrypted, and a passphrase was given for it"
            raise UsageError(msg, remedy="if that is as it should be, give none")
        return cls(_private(data, secret, str(path)))

    def save(self, path: Path | str, passphrase: str | bytes | None = None, *, unencrypted: bool = False) -> None:
        """Write it as PKCS #8 in PEM into a new file that only this user may read, encrypted with a passphrase.

        Args:
            path: Nothing may be there yet.
            passphrase: 1 to 1,024 bytes of UTF-8.
            unencrypted: Whoever reads the file may sign.

        Raises:
            UsageError: There is no passphrase, or one although ``unencrypted`` is asked for.
            ConflictError: Something is there.
            StoreError: It cannot be written.
        """
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        if unencrypted == (passphrase is not None):
            msg = "a private key is saved with a passphrase, or, where that is asked for, without one"
            raise UsageError(msg, remedy="give a passphrase, or say unencrypted=True (--unencrypted)")
        der = self._key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        if passphrase is None:
            create(Path(path), pem(der, "PRIVATE KEY"), mode=0o600)
        else:
            create(Path(path), encrypt(der, _passphrase(passphrase)), mode=0o600)

    def sign(self, data: bytes) -> bytes:
        """Return the signature over data."""
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.hashes import SHA256

        if isinstance(self._key, Ed25519PrivateKey):
            return self._key.sign(data)
        return self._key.sign(data, ECDSA(SHA256()))

    def __repr__(self) -> str:
        return f"<private key {self.keyid}>"


def is_encrypted(path: Path | str) -> bool:
    """Say whether a private key needs a passphrase; it raises what :meth:`PrivateKey.load` raises."""
    return _label(read_key(Path(path)), str(path)) == _ENCRYPTED


def _label(data: bytes, where: str) -> bytes:
    """Return what the only block of a PEM text says that it is."""
    if not (found := _PEM.fullmatch(data)):
        msg = f"{where}: not one key in PEM, and nothing beside it"
        raise MalformedError(msg, remedy="make a key with: vitrify keys generate (or openssl pkcs8 -topk8)")
    return found[1]


def _passphrase(given: str | bytes) -> bytes:
    secret = given.encode() if isinstance(given, str) else given
    if not 1 <= len(secret) <= _MAX_PASSPHRASE:
        msg = f"a passphrase of {len(secret)} bytes (expected 1 to {_MAX_PASSPHRASE})"
        raise UsageError(msg, remedy="choose another passphrase")
    return secret


def _private(data: bytes, secret: bytes | None, where: str) -> Ed25519PrivateKey | EllipticCurvePrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(data, secret)
    except TypeError as error:
        msg = f"{where} is encrypted, and there is no passphrase"
        raise AuthenticationError(msg, remedy="give it: --passphrase-file FILE, or set VITRIFY_PASSPHRASE") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        if secret is not None:
            msg = f"{where}: the passphrase is wrong, or the file is damaged"
            raise AuthenticationError(msg, remedy="try again with the passphrase that the key was made with") from error
        msg = f"{where}: not a private key ({error})"
        raise MalformedError(msg) from error
    _checked(key.public_key(), where)
    assert isinstance(key, Ed25519PrivateKey | EllipticCurvePrivateKey)
    return key


def _checked(key: object, where: str) -> Ed25519PublicKey | EllipticCurvePublicKey:
    """Return a key of one of the two algorithms under which a signature means something."""
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if isinstance(key, Ed25519PublicKey):
        y = int.from_bytes(key.public_bytes_raw(), "little") & (2**255 - 1)  # the last bit is the sign of x
        if y >= _FIELD or y in _LOW_ORDER:
            msg = f"{where}: a point of low order, or one spelled oddly: for such a key anybody can make signatures"
            raise MalformedError(msg)
        return key
    if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return key
    kind = key.curve.name if isinstance(key, EllipticCurvePublicKey) else type(key).__name__.removesuffix("PublicKey")
    msg = f"{where}: a key of {kind} (expected {' or '.join(ALGORITHMS)})"
    raise UsageError(msg, remedy="make one that is taken here: vitrify keys generate")
