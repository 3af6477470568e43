"""Attestation: a statement about one digest, kept beside it.

The wire form is an in-toto Statement v1 (https://github.com/in-toto/attestation, ``spec/v1/statement.md``).
Signatures (DSSE) wrap these bytes and do not change them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.wire import Value

if TYPE_CHECKING:
    from vitrify.core.digest import Digest

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
ATTESTATION_TYPE = "application/vnd.in-toto+json"
OURS = "urn:vitrify:attestation:"
"""How the types of our own statements begin."""
PARITY = "urn:vitrify:attestation:parity:v1"
PROVENANCE = "urn:vitrify:attestation:provenance:v1"
"""Provenance as Vitrify wrote it before it wrote SLSA's; still read."""
SCAN = "urn:vitrify:attestation:scan:v1"
SLSA = "https://slsa.dev/provenance/v1"
TRIAL = "urn:vitrify:attestation:trial:v1"
TRUST = "urn:vitrify:attestation:trust:v1"


class Subject(Value, frozen=True, kw_only=True):
    """What a statement is about."""

    name: str
    digest: dict[str, str]


class Attestation(Value, frozen=True, kw_only=True):
    """An in-toto statement. ``predicate`` holds who, when and what, as its type defines."""

    type_: str = msgspec.field(name="_type", default="")
    subject: tuple[Subject, ...]
    predicate_type: str
    predicate: dict[str, Any]

    def is_about(self, digest: Digest) -> bool:
        """Say whether this digest is one of its subjects."""
        return any(named.digest.get(digest.algorithm) == digest.hex for named in self.subject)
