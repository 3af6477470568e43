"""Checkpoint: the head of the log, signed, for whoever does not trust the database to keep its own past.

Kept somewhere else (a mail, another company's disk, a transparency log), it says later whether everything up to then
is still exactly what it was: the head's hash covers every event before it.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from vitrify.core.envelope import Envelope
from vitrify.core.errors import ForgedError, MalformedError, ReferenceNotFoundError
from vitrify.core.wire import Value
from vitrify.registry import requests as r
from vitrify.registry.local import LocalBackend
from vitrify.registry.work import Work
from vitrify.trust import dsse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.registry.registry import Registry
    from vitrify.trust.keys import PublicKey, Signer

CHECKPOINT_TYPE = "application/vnd.vitrify.registry.checkpoint+json"


class Checkpoint(Value, frozen=True, kw_only=True):
    """Where a log ended.

    Attributes:
        registry: The hash of its first event, which no other registry has.
        seq: The number of its last event.
        hash: The hash of its last event.
        time: When that happened.
    """

    registry: str
    seq: int
    hash: str
    time: datetime

    @property
    def heads(self) -> dict[int, str]:
        """The hashes that the log must have, by event number: what :func:`vitrify.registry.audit.verify` takes."""
        return {1: self.registry, self.seq: self.hash}


def take(registry: Registry) -> Checkpoint:
    """Return the head of a registry's log.

    Raises:
        ReferenceNotFoundError: The log is empty.
    """
    head = registry.head()
    first = registry.do(r.ListEvents(limit=1)).events
    if not first or first[0].seq != 1:
        msg = "the log is empty, or its first event is not yours to see: there is no head to sign"
        raise ReferenceNotFoundError(msg, remedy="register a model first, or ask as somebody who may see all of them")
    return Checkpoint(registry=first[0].hash, seq=head.seq, hash=head.hash, time=head.time)


def sign(registry: Registry, signers: Iterable[Signer]) -> Envelope:
    """Return a checkpoint in a DSSE envelope; a registry on this machine's own database notes it in its log.

    Raises:
        ReferenceNotFoundError: The log is empty.
        UsageError: There is no signer.
    """
    checkpoint = take(registry)
    envelope = dsse.sign(checkpoint.to_json(), CHECKPOINT_TYPE, signers)
    backend = registry.backend
    if isinstance(backend, LocalBackend):
        keyids = [signature.keyid for signature in envelope.signatures]
        with backend.database.write() as connection:
            work = Work.writing(connection, backend.actor, backend.policy, None)
            work.record("log.signed", seq=checkpoint.seq, hash=checkpoint.hash, keys=keyids)
            work.finish()
    return envelope


def read(data: bytes, keys: Iterable[PublicKey]) -> tuple[Checkpoint, tuple[str, ...]]:
    """Return what an envelope says, and which of the keys signed it.

    Raises:
        MalformedError: It is no envelope of a checkpoint.
        ForgedError: None of the keys signed it, or a signature does not hold.
    """
    envelope = Envelope.read(data, where="checkpoint")
    if envelope.payload_type != CHECKPOINT_TYPE:
        msg = f"an envelope of {envelope.payload_type!r}, not of a checkpoint ({CHECKPOINT_TYPE})"
        raise MalformedError(msg, remedy="name the file that vitrify audit sign wrote")
    signed = dsse.verify(envelope, keys)
    if not signed:
        msg = "nobody signed this checkpoint whose key counts"
        raise ForgedError(msg, remedy="name the public key of who did: --key")
    return Checkpoint.from_json(envelope.content, where="checkpoint"), signed
