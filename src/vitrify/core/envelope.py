"""Envelope: a payload and the signatures over it, as DSSE writes them.

Source: DSSE v1.0.2, ``envelope.md`` and ``protocol.md`` (https://github.com/secure-systems-lab/dsse). Signing and
verifying stand in :mod:`vitrify.trust.dsse`; here is what a store needs, which asks for no cryptography.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from vitrify.core.attestation import ATTESTATION_TYPE, Attestation
from vitrify.core.errors import MalformedError
from vitrify.core.strict import strict_json
from vitrify.core.wire import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

ENVELOPE_TYPE = "application/vnd.dsse.envelope.v1+json"
MAX_SIGNATURES = 64
MAX_SIGNATURE_CHARACTERS = 8192
"""Of base64: enough for every signature scheme that is in use, post-quantum ones included."""
MAX_NAME_CHARACTERS = 1024
"""Of a payload type and of a key id."""

_ENVELOPE = frozenset({"payload", "payloadType", "signatures"})
_STATEMENT = frozenset({"_type", "subject", "predicateType", "predicate"})


class EnvelopeSignature(Value, frozen=True, kw_only=True):
    """One signature.

    Attributes:
        sig: The signature's bytes in base64.
        keyid: Whose it claims to be: a hint, which is not signed.
    """

    sig: str
    keyid: str = ""

    def __post_init__(self) -> None:
        """Bound it, and refuse what is no base64."""
        if len(self.sig) > MAX_SIGNATURE_CHARACTERS or len(self.keyid) > MAX_NAME_CHARACTERS:
            msg = f"a signature of {len(self.sig)} characters by a key id of {len(self.keyid)}"
            raise MalformedError(msg)
        unbase64(self.sig, what="signature")

    @property
    def content(self) -> bytes:
        """The signature's bytes."""
        return unbase64(self.sig, what="signature")


class Envelope(Value, frozen=True, kw_only=True):
    """A DSSE envelope with at least one signature, of which none was verified yet.

    Attributes:
        payload: The payload in base64.
        payload_type: What the payload is, a media type or a URI; it is signed with the payload.
        signatures: In the order of the file.
    """

    payload: str
    payload_type: str
    signatures: tuple[EnvelopeSignature, ...]

    def __post_init__(self) -> None:
        """Bound it, and refuse what is no base64."""
        if not 1 <= len(self.signatures) <= MAX_SIGNATURES:
            msg = f"an envelope with {len(self.signatures)} signatures (expected 1 to {MAX_SIGNATURES})"
            raise MalformedError(msg)
        if not 1 <= len(self.payload_type) <= MAX_NAME_CHARACTERS:
            msg = f"an envelope with a payload type of {len(self.payload_type)} characters"
            raise MalformedError(msg)
        unbase64(self.payload, what="payload")

    @classmethod
    def of(cls, payload: bytes, payload_type: str, signatures: Iterable[tuple[str, bytes]]) -> Envelope:
        """Return an envelope of a payload and of key ids with their signatures."""
        signed = (EnvelopeSignature(keyid=keyid, sig=_base64(signature)) for keyid, signature in signatures)
        return cls(payload=_base64(payload), payload_type=payload_type, signatures=tuple(signed))

    @classmethod
    def read(cls, data: bytes, *, where: str) -> Envelope:
        """Parse an envelope in JSON that has one meaning.

        Raises:
            MalformedError: It is no envelope, has a name twice, or is out of bounds.
        """
        return cls.from_builtins(strict_json(data, where=where), where=where)

    @property
    def content(self) -> bytes:
        """The payload's bytes. Nobody vouches for them before a signature was verified."""
        return unbase64(self.payload, what="payload")


def read_statement(data: bytes, *, where: str) -> tuple[Attestation, Envelope | None]:
    """Return the statement in bytes that are an in-toto statement, or a DSSE envelope around one, and the envelope.

    Raises:
        MalformedError: They are neither, or could be read as both.
    """
    raw = strict_json(data, where=where)
    names = raw.keys() if isinstance(raw, dict) else frozenset[str]()
    if not names & _ENVELOPE:
        return Attestation.from_builtins(raw, where=where), None
    if names & _STATEMENT:
        msg = f"{where}: a statement and an envelope in one object"
        raise MalformedError(msg)
    envelope = Envelope.from_builtins(raw, where=where)
    if envelope.payload_type != ATTESTATION_TYPE:
        msg = f"{where}: an envelope around {envelope.payload_type!r} (expected {ATTESTATION_TYPE})"
        raise MalformedError(msg)
    payload = f"{where}: payload"
    return Attestation.from_builtins(strict_json(envelope.content, where=payload), where=payload), envelope


def unbase64(text: str, *, what: str) -> bytes:
    """Decode base64 of either alphabet, which DSSE leaves open, in the one spelling that bytes have in each.

    Raises:
        MalformedError: It is no base64, mixes the alphabets, or is spelled otherwise than an encoder spells it.
    """
    url = "-" in text or "_" in text
    try:
        data = base64.b64decode(text, altchars=b"-_" if url else None, validate=True)
    except (binascii.Error, ValueError) as error:
        msg = f"the {what} is no base64 ({error})"
        raise MalformedError(msg) from error
    if (base64.urlsafe_b64encode(data) if url else base64.b64encode(data)).decode() != text:
        msg = f"the {what} is base64 that no encoder writes"
        raise MalformedError(msg)
    return data


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
