"""A file as a stream of sealed chunks: AES-256-GCM in the STREAM construction.

Chunk ``i`` is encrypted with the nonce ``i`` (11 bytes, big-endian) and one byte that is 1 for the last chunk and 0
for every other, under a key that belongs to this artifact and this path alone. So a chunk that was changed, moved,
left out, repeated, or taken from another file or another artifact does not open, and neither does a file that was
cut off or made longer. An empty file is one empty chunk.

Source: Hoang, Reyhanitabar, Rogaway and Vizar, "Online Authenticated-Encryption and its Nonce-Reuse
Misuse-Resistance" (2015), section 7; the same nonce as age (https://age-encryption.org/v1, "Payload").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.errors import ForgedError

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 1024 * 1024
"""Bytes of plaintext in a chunk."""

MIN_CHUNK, MAX_CHUNK = 1024, 64 * 1024 * 1024
"""What a stranger's artifact may say that its chunks are."""

KEY_BYTES = 32
_TAG = 16
_COUNTER = 11


def sealed_size(size: int, chunk: int) -> int:
    """Return the bytes that a file of ``size`` bytes takes when it is sealed."""
    return size + _TAG * _count(size, chunk)


def file_key(data_key: bytes, path: str) -> bytes:
    """Return the key of one file: HKDF-Expand (RFC 5869) of the artifact's key over the file's path."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    return HKDFExpand(SHA256(), KEY_BYTES, b"vitrify encryption v1 file\0" + path.encode()).derive(data_key)


def seal(plain: memoryview, key: bytes, chunk: int) -> Iterator[bytes]:
    """Yield the sealed chunks of a file.

    Args:
        plain: The whole file, as bytes.
        key: What :func:`file_key` gives, used for nothing else.
        chunk: Bytes of plaintext in a chunk.
    """
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    cipher, count = AESGCM(key), _count(plain.nbytes, chunk)
    for number in range(count):
        yield cipher.encrypt(_nonce(number, count), plain[number * chunk : (number + 1) * chunk], None)


def unseal(sealed: memoryview, into: memoryview, key: bytes, chunk: int, *, where: str) -> None:
    """Open a whole file into memory that has exactly its size.

    Raises:
        ForgedError: A chunk does not open, or there are more or fewer bytes than belong to it; what was written
            into the memory so far must not be used.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    size = into.nbytes
    if sealed.nbytes != sealed_size(size, chunk):
        msg = (
            f"{where}: {sealed.nbytes} encrypted bytes, expected {sealed_size(size, chunk)} for {size} bytes of content"
        )
        raise ForgedError(msg, remedy="get the artifact again from whoever encrypted it")
    cipher, count = AESGCM(key), _count(size, chunk)
    for number in range(count):
        start = number * (chunk + _TAG)
        part = sealed[start : start + chunk + _TAG]
        try:
            cipher.decrypt_into(_nonce(number, count), part, None, into[number * chunk : (number + 1) * chunk])
        except InvalidTag as error:
            msg = f"{where}: chunk {number + 1} of {count} is not what was encrypted for this place in this file"
            raise ForgedError(msg, remedy="get the artifact again from whoever encrypted it") from error


def _count(size: int, chunk: int) -> int:
    return max(1, -(-size // chunk))


def _nonce(number: int, count: int) -> bytes:
    return number.to_bytes(_COUNTER, "big") + bytes([number == count - 1])
