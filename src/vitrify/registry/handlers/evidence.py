"""Statements about digests, kept in the order in which they came."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import insert, select

from vitrify.core.attestation import Attestation
from vitrify.core.digest import Digest
from vitrify.core.errors import MalformedError, UsageError
from vitrify.core.nesting import shallow
from vitrify.registry.database.schema import attestations
from vitrify.registry.events import moment
from vitrify.registry.values import Attested, AttestedList

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.registry import requests as r
    from vitrify.registry.work import Work
    from vitrify.trust.evidence import Evidence

_ROW = (
    attestations.c.digest,
    attestations.c.subject,
    attestations.c.predicate_type,
    attestations.c.created,
    attestations.c.by,
    attestations.c.content,
)


def attach(work: Work, request: r.Attach) -> Attested:
    """Keep a statement."""
    subject = Digest.parse(request.subject)
    statement = statement_of(request.content)
    if subject.hex not in {named.digest.get(subject.algorithm) for named in statement.subject}:
        msg = f"the statement is not about {subject}"
        raise UsageError(msg, remedy="attach it to what it is about")
    digest = str(Digest.of(request.content.encode()))
    same = (attestations.c.subject == request.subject) & (attestations.c.digest == digest)
    if (known := work.connection.execute(select(*_ROW).where(same)).first()) is not None:
        return _value(known)
    row = {
        "digest": digest,
        "subject": request.subject,
        "predicate_type": statement.predicate_type,
        "created": work.now,
        "by": work.actor.who,
        "content": request.content,
    }
    work.connection.execute(insert(attestations), row)
    facts = {"subject": request.subject, "digest": digest, "predicate_type": statement.predicate_type}
    work.record("attestation.attached", **facts)
    return _value(work.connection.execute(select(*_ROW).where(same)).one())


def list_(work: Work, request: r.ListAttestations) -> AttestedList:
    """Return the statements about a digest."""
    Digest.parse(request.subject)
    return AttestedList(attestations=tuple(about(work, request.subject)))


def about(work: Work, subject: str) -> Iterator[Attested]:
    """Yield the statements about a digest, oldest first."""
    query = select(*_ROW).where(attestations.c.subject == subject).order_by(attestations.c.id)
    yield from map(_value, work.connection.execute(query))


def predicates(work: Work, subject: str, predicate_type: str) -> Iterator[dict[str, Any]]:
    """Yield the predicates of one type about a digest, oldest first."""
    query = (
        select(attestations.c.content)
        .where(attestations.c.subject == subject, attestations.c.predicate_type == predicate_type)
        .order_by(attestations.c.id)
    )
    for content in work.connection.execute(query).scalars():
        yield statement_of(content).predicate


def statement_of(content: str) -> Attestation:
    """Return the in-toto statement in JSON, or in a DSSE envelope.

    Raises:
        MalformedError: It is neither.
    """
    data = content.encode()
    try:
        raw = msgspec.json.decode(shallow(data))
        if isinstance(raw, dict) and "payload" in raw:
            data = base64.b64decode(raw["payload"], validate=True)
    except (msgspec.DecodeError, RecursionError, binascii.Error, TypeError) as error:
        msg = f"attestation: neither an in-toto statement nor a DSSE envelope ({error})"
        raise MalformedError(msg) from error
    return Attestation.from_json(data, where="attestation")


def _value(row: Any) -> Attested:
    digest, subject, predicate_type, created, by, content = row
    return Attested(
        digest=digest, subject=subject, predicate_type=predicate_type, created=moment(created), by=by, content=content
    )


def verified(work: Work, subject: str) -> tuple[Evidence, ...]:
    """Return the statements about a digest, with the keys of the policy whose signatures hold."""
    from vitrify.trust.evidence import evidence_of

    keys = work.policy.public_keys if work.policy else ()
    return tuple(evidence_of(attested.content.encode(), keys) for attested in about(work, subject))
