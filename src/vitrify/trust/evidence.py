"""Evidence: a statement, and whose signature on it was found to hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vitrify import stores
from vitrify.core.attestation import STATEMENT_TYPE
from vitrify.core.envelope import read_statement
from vitrify.core.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.core.attestation import Attestation
    from vitrify.core.digest import Digest
    from vitrify.stores.oci_layout import OciLayout
    from vitrify.trust.keys import PublicKey

_STATEMENT_TYPES = (STATEMENT_TYPE, "https://in-toto.io/Statement/v0.1")
"""Version 0.1 has the same four fields, and tools of today still write it."""


@dataclass(frozen=True)
class Evidence:
    """One attestation about a digest.

    Attributes:
        attestation: What is said.
        signers: Key ids whose signature over it was verified, sorted; none where nobody signed.
    """

    attestation: Attestation
    signers: tuple[str, ...] = ()


def evidence_of(data: bytes, keys: Iterable[PublicKey]) -> Evidence:
    """Return what is said in an in-toto statement or an envelope around one, and which of the keys signed it.

    Whose subject it is about is for the caller to check (:meth:`vitrify.core.attestation.Attestation.is_about`).

    Raises:
        MalformedError: It is neither, could be read as both, or could be read in two ways.
        ForgedError: A signature names one of the keys and does not hold for it.
    """
    attestation, envelope = read_statement(data, where="attestation")
    if envelope is None:
        return Evidence(attestation)
    if attestation.type_ not in _STATEMENT_TYPES:
        msg = f"a signed statement of type {attestation.type_!r} (expected {STATEMENT_TYPE})"
        raise MalformedError(msg)
    from vitrify.trust import dsse

    return Evidence(attestation, dsse.verify(envelope, keys))


def gather(store: OciLayout, digest: Digest, keys: Iterable[PublicKey]) -> tuple[Evidence, ...]:
    """Return what the store has about a digest, oldest first, with the signatures verified.

    A statement that lies beside the digest and is about another one proves nothing here and is left out: its
    signature may hold, and somebody may have put it there for that.

    Raises:
        CorruptError: A statement or its manifest is damaged.
        MalformedError: A statement could be read in two ways.
        ForgedError: A signature names one of the keys and does not hold for it.
    """
    known = tuple(keys)
    found = (evidence_of(data, known) for data in stores.attestations(store, digest))
    return tuple(evidence for evidence in found if evidence.attestation.is_about(digest))
