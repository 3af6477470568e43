"""Signing: a key vouches for an artifact, or for a statement about it.

A signature on an artifact is a signed in-toto statement whose subject is the artifact's digest: that of its manifest,
which names every file, the configuration and the annotations by digest. The OpenSSF model signature
(:mod:`vitrify.trust.model_signing`) is another document and not this one, because its format fixes its only subject to
a hash over the files' digests, which nothing but a verifier of that format knows, and leaves configuration and
annotations unsigned.

Only a statement of the type ``SIGNATURE`` counts as a signature on the artifact. A key that signed a scan has said what
the scan found, which may be that nobody should use it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from vitrify import stores
from vitrify.core.attestation import ATTESTATION_TYPE
from vitrify.core.errors import ForgedError, MalformedError, UsageError
from vitrify.core.report import Finding, Report
from vitrify.trust import dsse
from vitrify.trust.evidence import evidence_of
from vitrify.trust.statement import producer, statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.digest import Digest
    from vitrify.stores.oci_layout import OciLayout
    from vitrify.trust.evidence import Evidence
    from vitrify.trust.keys import PublicKey, Signer

SIGNATURE = "urn:vitrify:attestation:signature:v1"
"""Predicate: ``producer``, ``signedAt`` (RFC 3339, by the signer's clock) and ``claims``, free text by name."""

_MAX_CLAIMS = 100
_MAX_CLAIM_CHARACTERS = 4096


def sign(
    store: OciLayout,
    digest: Digest,
    signer: Signer,
    *,
    claims: Mapping[str, str] | None = None,
    now: datetime | None = None,
) -> Digest:
    """Vouch for an artifact; the signature is kept beside it.

    Args:
        store: Where the artifact lies.
        digest: The artifact's, or an index's.
        signer: Who vouches.
        claims: What else the signer says with it, as text by name: at most 100 of at most 4,096 characters.
        now: When, with a time zone; by default what the clock says.

    Returns:
        The digest of the attestation's own manifest.

    Raises:
        ReferenceNotFoundError: The store does not have it.
        UsageError: Too many claims, too long ones, or a time without a zone.
        ForgedError: The signer gave a signature that its own public key does not verify.
        StoreError: The store could not do it.
    """
    said = dict(claims or {})
    if len(said) > _MAX_CLAIMS or any(len(name) + len(text) > _MAX_CLAIM_CHARACTERS for name, text in said.items()):
        msg = f"{len(said)} claims (expected at most {_MAX_CLAIMS}, each of at most {_MAX_CLAIM_CHARACTERS} characters)"
        raise UsageError(msg)
    moment = now or datetime.now(UTC)
    if moment.tzinfo is None:
        msg = f"a time without a zone: {moment.isoformat()}"
        raise UsageError(msg, remedy="datetime.now(UTC)")
    stamp = moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    predicate = {"producer": producer(), "signedAt": stamp, "claims": said}
    return attest(store, digest, SIGNATURE, predicate, signer)


def attest(
    store: OciLayout, digest: Digest, predicate_type: str, predicate: Mapping[str, Any], signer: Signer | None = None
) -> Digest:
    """Keep a statement beside what it is about, signed where there is a signer.

    Args:
        store: Where the subject lies.
        digest: The subject's.
        predicate_type: A URI or a URN.
        predicate: What is said, as JSON; it is written as it is.
        signer: Who says it.

    Returns:
        The digest of the attestation's own manifest.

    Raises:
        ReferenceNotFoundError: The store does not have the subject.
        UsageError: The predicate type is no URI.
        MalformedError: The predicate is no JSON.
        ForgedError: The signer gave a signature that its own public key does not verify.
        StoreError: The store could not do it.
    """
    if ":" not in predicate_type or predicate_type != "".join(predicate_type.split()):
        msg = f"not a predicate type: {predicate_type[:200]!r} (expected a URI)"
        raise UsageError(msg, remedy="for example: https://slsa.dev/provenance/v1, urn:acme:review:v1")
    data = _json(digest, predicate_type, predicate)
    if signer is not None:
        data = dsse.sign(data, ATTESTATION_TYPE, [signer]).to_json()
    return stores.attach(store, digest, data)


def verify(store: OciLayout, digest: Digest, keys: Iterable[PublicKey]) -> Report:
    """Say whether one of these keys vouches for an artifact.

    Returns:
        ``clean`` where one signed it, and no signature that names one of them is forged. ``details`` has the
        ``signers``, sorted, and how many ``statements`` the store has.

    Raises:
        ReferenceNotFoundError: The store does not have it.
        CorruptError: A statement or its manifest is damaged.
        UsageError: There are no keys.
    """
    known = tuple(keys)
    if not known:
        raise UsageError("no key to verify with", remedy="name a public key: --key KEY")
    store.blob(digest)
    signers: set[str] = set()
    findings: list[Finding] = []
    documents = stores.attestations(store, digest)
    for number, data in enumerate(documents, 1):
        found = _look(data, known, place=f"attestation {number} of {len(documents)}")
        if isinstance(found, Finding):
            findings.append(found)
        elif found.attestation.predicate_type == SIGNATURE and found.attestation.is_about(digest):
            signers.update(found.signers)
    if not signers:
        ids = ", ".join(sorted(key.keyid for key in known))
        message = f"none of the keys that were given signed {digest} (given: {ids})"
        findings.append(Finding(place="signatures", message=message, remedy="vitrify sign", rule="unsigned"))
    details = {"artifact": str(digest), "signers": sorted(signers), "statements": len(documents)}
    return Report.of("signature", findings, details)


def _look(data: bytes, keys: tuple[PublicKey, ...], place: str) -> Evidence | Finding:
    try:
        return evidence_of(data, keys)
    except ForgedError as error:
        return Finding(place=place, message=error.message, remedy="find out who put it there", rule="forged-signature")
    except MalformedError as error:
        return Finding(place=place, message=error.message, rule="malformed-attestation")


def _json(digest: Digest, predicate_type: str, predicate: Mapping[str, Any]) -> bytes:
    try:
        return statement(digest, predicate_type, predicate).to_json()
    except (TypeError, ValueError, RecursionError) as error:
        msg = f"the predicate is no JSON ({error})"
        raise MalformedError(msg) from error
