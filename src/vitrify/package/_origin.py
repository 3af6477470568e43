"""Where an imported artifact came from: an attestation beside it, which an export reads again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.artifacts.seal import attest
from vitrify.core.who import now

if TYPE_CHECKING:
    from vitrify.artifacts.artifact import Artifact

IMPORTED = "urn:vitrify:attestation:import:v1"
"""Predicate: ``layout`` it came in, ``when``, and what that layout says besides the files: the card's ``license`` and
``tags``, MLflow's ``signature`` and ``run_id``, the ``requirements``; and where the ``example`` came from."""


def record(artifact: Artifact, layout: str, said: dict[str, Any]) -> None:
    """Attest what a layout says about an artifact; what it leaves out has no key."""
    known = {key: value for key, value in said.items() if value not in (None, "", [], {})}
    attest(artifact.store, artifact.digest, IMPORTED, {"layout": layout, "when": now(), **known})


def origin(artifact: Artifact) -> dict[str, Any]:
    """Return the latest such predicate; an empty one where the artifact was made here."""
    found = [one.predicate for one in artifact.attestations if one.predicate_type == IMPORTED]
    return found[-1] if found else {}
