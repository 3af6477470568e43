"""Load: a reference becomes a session that predicts, or the live model itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.artifacts.artifact import open_artifact
from vitrify.artifacts.seal import attest
from vitrify.core import who
from vitrify.core.attestation import TRUST

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.protocols import Session
    from vitrify.stores.oci_layout import OciLayout
    from vitrify.trust.encryption.recipients import Identity


def load(
    reference: str,
    *,
    runtime: str | None = None,
    allow: Collection[str] = (),
    store: OciLayout | None = None,
    identity: str | Path | Identity | None = None,
) -> Session:
    """Open an artifact and return a session: ``session.predict(frame)``.

    Args:
        reference: As for :func:`vitrify.open`.
        runtime: Catalog name; by default the artifact's own.
        allow: Exact dotted names of code outside the built-in allow-list that may run. The decision is
            recorded beside the artifact.
        store: Where to look; by default the user's store.
        identity: As for :func:`vitrify.open`.

    Raises:
        ReferenceNotFoundError: There is no such artifact.
        CorruptError: A byte is not what its digest promises.
        DeniedError: The policy of this machine does not allow it (:mod:`vitrify.artifacts.permit`).
        UntrustedCodeError: It needs code that ``allow`` does not name.
        DeniedError: It is encrypted, and no identity that was given is a recipient.
    """
    artifact = open_artifact(reference, store=store, identity=identity)
    session = artifact.session(runtime=runtime, allow=allow)
    if artifact.document.code.names:
        record_trust(artifact)
    return session


def record_trust(artifact: Artifact) -> None:
    """Attest that this user has allowed the code that the artifact needs; once is enough."""
    decision = {"names": list(artifact.document.code.names), "who": who.user()}
    for known in artifact.attestations:
        if known.predicate_type == TRUST and decision.items() <= known.predicate.items():
            return
    attest(artifact.store, artifact.digest, TRUST, {**decision, "when": who.now()})
