"""Attestations beside an artifact, as OCI referrers.

Source: OCI image specification 1.1, ``manifest.md`` ("Guidelines for Artifact Usage", ``subject``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.attestation import ATTESTATION_TYPE
from vitrify.core.digest import Digest
from vitrify.core.envelope import ENVELOPE_TYPE, read_statement
from vitrify.core.errors import UsageError
from vitrify.core.manifest import EMPTY_TYPE, INDEX_TYPE, MANIFEST_TYPE, MODEL_TYPE, SUBJECT, Descriptor, Manifest
from vitrify.core.wire import MAX_DOCUMENT_BYTES
from vitrify.stores._graph import references
from vitrify.stores._index import unnamed
from vitrify.stores.files import read_document, read_manifest

if TYPE_CHECKING:
    from vitrify.core.protocols import Store
    from vitrify.stores.oci_layout import OciLayout

PREDICATE_TYPE = "in-toto.io/predicate-type"
"""Annotation with a statement's predicate type, as other tools write it."""

_EMPTY = b"{}"
_LAYERS = (ATTESTATION_TYPE, ENVELOPE_TYPE)


def attach(store: Store, subject: Digest | Descriptor, statement: bytes) -> Digest:
    """Keep an in-toto statement, or a DSSE envelope around one, beside the manifest that it is about.

    Attaching it twice changes nothing. Signatures are kept as they are: whoever reads them verifies them.

    Returns:
        The digest of the attestation's own manifest.

    Raises:
        ReferenceNotFoundError: The store does not have the subject.
        MalformedError: The bytes are no in-toto statement and no envelope around one.
        UsageError: The statement is about something else.
        StoreError: The store could not do it.
    """
    about = subject.content if isinstance(subject, Descriptor) else subject
    attestation, envelope = read_statement(statement, where="attestation")
    kind = ENVELOPE_TYPE if envelope else ATTESTATION_TYPE
    if not attestation.is_about(about):
        msg = f"the statement is not about {about} (it is about: {[named.digest for named in attestation.subject]})"
        raise UsageError(msg)
    document = read_document(store, about)
    is_index = bool(references(document, where=f"manifest {about}").manifests)
    target = Descriptor(media_type=INDEX_TYPE if is_index else MANIFEST_TYPE, digest=str(about), size=len(document))

    def build(files: tuple[Descriptor, ...]) -> tuple[Manifest, bytes]:
        layer = files[0].replace(media_type=kind, annotations={PREDICATE_TYPE: attestation.predicate_type})
        empty = Descriptor(media_type=EMPTY_TYPE, digest=str(Digest.of(_EMPTY)), size=len(_EMPTY))
        manifest = Manifest(
            schema_version=2,
            media_type=MANIFEST_TYPE,
            artifact_type=ATTESTATION_TYPE,
            config=empty,
            layers=(layer,),
            subject=target,
        )
        return manifest, _EMPTY

    with store.stage() as stage:
        with stage.open("statement.json", "doc") as stream:
            stream.write(statement)
        return stage.commit(build, None)


def referrers(store: OciLayout, subject: Digest) -> tuple[Descriptor, ...]:
    """Return the manifests of what was attached to a digest, oldest first.

    Raises:
        CorruptError: The manifest of an entry that may be one of them is damaged.
    """
    entries = (entry for entry in store.index.read().manifests if _may_be_about(entry, subject))
    return tuple(unnamed(entry) for entry in entries if subject_of(store, entry.content) == subject)


def attestations(store: OciLayout, subject: Digest) -> tuple[bytes, ...]:
    """Return the in-toto statements and the envelopes around such that were attached to a digest, oldest first.

    Each has the bytes that its digest promises; no signature was verified.

    Raises:
        CorruptError: A statement or its manifest is damaged.
    """
    manifests = (read_manifest(store, entry.content) for entry in referrers(store, subject))
    layers = [layer for manifest in manifests for layer in manifest.layers if layer.media_type in _LAYERS]
    return tuple(read_document(store, layer.content, limit=MAX_DOCUMENT_BYTES) for layer in layers)


def _may_be_about(entry: Descriptor, subject: Digest) -> bool:
    """Say from the index alone whether a manifest is worth opening; what other tools listed is."""
    return entry.artifact_type != MODEL_TYPE and entry.annotations.get(SUBJECT, str(subject)) == str(subject)


def subject_of(store: Store, digest: Digest) -> Digest | None:
    """Return what a manifest is about, if it is about another."""
    return references(read_document(store, digest), where=f"manifest {digest}").subject
