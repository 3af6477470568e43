"""DSSE: signing bytes together with what they are.

What is signed is not the JSON but the pre-authentication encoding of payload type and payload, so that no parser
stands between a key and the bytes.

Source: DSSE v1.0.2, ``protocol.md`` (https://github.com/secure-systems-lab/dsse).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.envelope import ENVELOPE_TYPE, Envelope, EnvelopeSignature
from vitrify.core.errors import ForgedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.trust.keys import PublicKey, Signer

__all__ = ["ENVELOPE_TYPE", "Envelope", "encode", "sign", "verify"]


def encode(payload: bytes, payload_type: str) -> bytes:
    """Return the pre-authentication encoding (``PAE``), which is what a key signs."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign(payload: bytes, payload_type: str, signers: Iterable[Signer]) -> Envelope:
    """Return an envelope with one signature a signer, each verified before it is returned.

    Raises:
        UsageError: There is no signer, or one twice.
        ForgedError: A signer gave a signature that its own public key does not verify.
    """
    everybody = tuple(signers)
    if not everybody or len({signer.keyid for signer in everybody}) != len(everybody):
        msg = f"an envelope by {len(everybody)} signers (expected at least one, and none twice)"
        raise UsageError(msg)
    encoded = encode(payload, payload_type)
    signatures = []
    for signer in everybody:
        signature = signer.sign(encoded)
        signer.public.verify(encoded, signature)
        signatures.append((signer.public.keyid, signature))
    return Envelope.of(payload, payload_type, signatures)


def verify(envelope: Envelope, keys: Iterable[PublicKey]) -> tuple[str, ...]:
    """Return the ids of those keys that truly signed, sorted, each once.

    A key id in an envelope is a hint that nobody signed: a signature that names none of ``keys`` is tried with each
    of them, and one that holds for none is by a stranger and ignored.

    Raises:
        ForgedError: A signature names one of ``keys`` and does not hold for it.
    """
    known = {key.keyid: key for key in keys}
    encoded = encode(envelope.content, envelope.payload_type)
    found = (_signer(signature, encoded, known) for signature in envelope.signatures)
    return tuple(sorted({keyid for keyid in found if keyid is not None}))


def _signer(signature: EnvelopeSignature, encoded: bytes, known: Mapping[str, PublicKey]) -> str | None:
    if named := known.get(signature.keyid):
        named.verify(encoded, signature.content)
        return named.keyid
    return next((keyid for keyid, key in known.items() if _holds(key, encoded, signature.content)), None)


def _holds(key: PublicKey, encoded: bytes, signature: bytes) -> bool:
    try:
        key.verify(encoded, signature)
    except ForgedError:
        return False
    return True
