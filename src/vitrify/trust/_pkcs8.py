"""A private key at rest: PKCS #8, encrypted so that a passphrase is dear to guess.

The library that we use derives the encryption key with 2,048 rounds of PBKDF2, which a graphics card tries by the
hundred thousand a second. Here it is scrypt with the parameters that OWASP names (N = 2^14, r = 8, p = 5: 16 MiB and
about 0.2 s a guess), which the same library and OpenSSL read.

Sources: RFC 5958 (EncryptedPrivateKeyInfo), RFC 8018 (PBES2), RFC 7914, section 7 (scrypt in PBES2), RFC 7468 (PEM).
"""

from __future__ import annotations

import base64
import os
import textwrap

_N, _R, _P = 2**14, 8, 5
_SEQUENCE, _INTEGER, _OCTETS = 0x30, 0x02, 0x04
_PBES2 = bytes.fromhex("06092a864886f70d01050d")
_SCRYPT = bytes.fromhex("06092b06010401da47040b")
_AES_256_CBC = bytes.fromhex("060960864801650304012a")
_SHORT = 0x80
"""Lengths below are one octet; longer ones say first how many octets they take (X.690, 8.1.3)."""


def encrypt(private_key_info: bytes, passphrase: bytes) -> bytes:
    """Return the PEM of a PKCS #8 key in DER, encrypted with AES-256-CBC under a key derived by scrypt."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CBC
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
    from cryptography.hazmat.primitives.padding import PKCS7

    salt, initial = os.urandom(16), os.urandom(16)
    key = Scrypt(salt=salt, length=32, n=_N, r=_R, p=_P).derive(passphrase)
    padder, encryptor = PKCS7(128).padder(), Cipher(AES(key), CBC(initial)).encryptor()
    padded = padder.update(private_key_info) + padder.finalize()
    sealed = encryptor.update(padded) + encryptor.finalize()
    derivation = _tlv(_SEQUENCE, _tlv(_OCTETS, salt), *map(_integer, (_N, _R, _P)))
    scheme = _tlv(
        _SEQUENCE, _tlv(_SEQUENCE, _SCRYPT, derivation), _tlv(_SEQUENCE, _AES_256_CBC, _tlv(_OCTETS, initial))
    )
    der = _tlv(_SEQUENCE, _tlv(_SEQUENCE, _PBES2, scheme), _tlv(_OCTETS, sealed))
    return pem(der, "ENCRYPTED PRIVATE KEY")


def pem(der: bytes, label: str) -> bytes:
    """Return the text form of DER, 64 characters a line."""
    lines = textwrap.wrap(base64.b64encode(der).decode(), 64)
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""]).encode()


def _integer(number: int) -> bytes:
    return _tlv(_INTEGER, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _tlv(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    if size < _SHORT:
        return bytes([tag, size]) + content
    octets = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, _SHORT | len(octets)]) + octets + content
