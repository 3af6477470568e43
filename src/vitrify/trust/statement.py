"""Statement: what somebody says about one digest, in in-toto's words.

Source: https://github.com/in-toto/attestation, ``spec/v1/statement.md``.
"""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any

from vitrify.core.attestation import STATEMENT_TYPE, Attestation, Subject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.digest import Digest


def statement(digest: Digest, predicate_type: str, predicate: Mapping[str, Any]) -> Attestation:
    """Return an in-toto statement about a digest."""
    return Attestation(
        type_=STATEMENT_TYPE,
        subject=(Subject(name="artifact", digest={digest.algorithm: digest.hex}),),
        predicate_type=predicate_type,
        predicate=dict(predicate),
    )


def producer() -> str:
    """Return what made a statement: this program and its version."""
    return f"vitrify {metadata.version('vitrify')}"
