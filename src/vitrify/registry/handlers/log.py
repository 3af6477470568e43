"""Asking the log: what happened, what was in production when, and where its end is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import select

from vitrify.core.errors import ReferenceNotFoundError, UsageError
from vitrify.registry.database.schema import events, head, productions, versions
from vitrify.registry.events import microseconds, moment, to_event
from vitrify.registry.handlers import find
from vitrify.registry.values import Decision, Event, Events, Head, InProduction

if TYPE_CHECKING:
    from vitrify.registry import requests as r
    from vitrify.registry.work import Work

MAX_LIMIT = 1000
_SKEW = 300_000_000
"""Microseconds by which the clock of who asks may be ahead."""


def list_(work: Work, request: r.ListEvents) -> Events:
    """Return the log in its order."""
    query = select(events).where(events.c.seq > request.after).order_by(events.c.seq)
    if request.model:
        query = query.where(events.c.model == request.model)
    if request.kind:
        query = query.where(events.c.kind == request.kind)
    limit = min(max(request.limit, 1), MAX_LIMIT)
    if work.actor.sees_all:
        query = query.limit(limit + 1)  # PostgreSQL's driver would bring all the rest, too
    found: list[Event] = []
    for row in work.connection.execute(query):
        if len(found) == limit:
            return Events(events=tuple(found), next=found[-1].seq)
        if work.actor.sees_all or (row.model and work.actor.sees(row.model)):
            found.append(to_event(row))
    return Events(events=tuple(found))


def get_head(work: Work, request: r.GetHead) -> Head:
    """Return the end of the log."""
    del request
    row = work.connection.execute(select(head)).one()
    return Head(seq=row.seq, hash=row.hash, time=moment(row.time))


def production_at(work: Work, request: r.ProductionAt) -> InProduction:
    """Return what was in production at a time."""
    model = find.model(work, request.model)
    at = work.now if request.at is None else microseconds(request.at)
    if at > work.now + _SKEW:
        msg = f"{request.at} lies ahead: what will be in production then nobody knows"
        raise UsageError(msg, remedy="ask for a time that has passed, or for none: that is now")
    query = (
        select(productions.c.since, productions.c.until, versions.c.version, versions.c.digest, *events.c)
        .join(versions, versions.c.id == productions.c.version_id)
        .join(events, events.c.seq == productions.c.event)
        .where(
            productions.c.model_id == model.id,
            productions.c.since <= at,
            productions.c.until.is_(None) | (productions.c.until > at),
        )
    )
    row = work.connection.execute(query).first()
    if row is None:
        asked = (moment(at) if request.at is None else request.at).isoformat(timespec="seconds")
        msg = f"{request.model} had nothing in production at {asked}"
        raise ReferenceNotFoundError(msg, remedy=f"see its history: vitrify audit log --model {request.model}")
    event = to_event(row[4:])
    return InProduction(
        model=request.model,
        version=row[2],
        digest=row[3],
        since=moment(row[0]),
        until=None if row[1] is None else moment(row[1]),
        by=event.actor,
        approvals=msgspec.convert(event.facts.get("approvals", ()), tuple[Decision, ...]),
        evidence=tuple(event.facts.get("evidence", ())),
        event=event.seq,
    )
