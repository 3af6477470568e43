"""The log: every change as an event, each chained to the one before by SHA-256.

An event's facts are all that changed, so that the registry's state can be made again from the log and compared with
what the tables say (:mod:`vitrify.registry.audit`). The kinds:

- ``model.created|updated|renamed|deleted``
- ``version.created|updated|varied|staged|status|deleted``
- ``alias.set|removed``
- ``promotion.requested|decided|closed``
- ``attestation.attached``, ``deployment.started|ended``
- ``token.created|revoked``, ``webhook.created|deleted``
- ``log.signed``: a checkpoint of the log's head was signed
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from vitrify.registry.values import Event

START = "0" * 64
"""What the first event calls its predecessor."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ENCODER = msgspec.json.Encoder(order="sorted")


def moment(microseconds: int) -> datetime:
    """Return a time from its column."""
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)  # exact: 53 bits hold them until the year 2255


def microseconds(time: datetime) -> int:
    """Return a time's column; one without a zone is taken as UTC."""
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - EPOCH) // _MICROSECOND


def canonical(value: Any) -> str:
    """Return JSON with its keys sorted and no spaces."""
    return _ENCODER.encode(value).decode()


def hash_of(previous: str, *said: str | int | None) -> str:
    """Return an event's hash, in hex: over what came before it, and over its columns in their order."""
    return hashlib.sha256(f"{previous}\n{canonical(said)}".encode()).hexdigest()


def fingerprint(text: str) -> str:
    """Return what the log says instead of a text that is long or secret: enough to compare it."""
    return hashlib.sha256(text.encode()).hexdigest()


def to_event(row: Any) -> Event:
    """Return an event from its columns, in the order of the table."""
    seq, time, actor, kind, model, version, facts, previous, own = row
    return Event(
        seq=seq,
        time=moment(time),
        actor=actor,
        kind=kind,
        model=model,
        version=version,
        facts=msgspec.json.decode(facts),
        previous=previous,
        hash=own,
    )
