"""Webhooks: who is told of which events; :mod:`vitrify.registry.webhooks` sends."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import insert, select, update

from vitrify.core.errors import ReferenceNotFoundError, UsageError
from vitrify.registry.database.schema import deliveries as sent
from vitrify.registry.database.schema import webhooks
from vitrify.registry.events import canonical, fingerprint, moment
from vitrify.registry.values import Deliveries, Delivery, Done, Webhook, Webhooks
from vitrify.registry.webhooks import target_of

if TYPE_CHECKING:
    from sqlalchemy import Row

    from vitrify.registry import requests as r
    from vitrify.registry.work import Work

_MAX_WEBHOOKS = 100
_MAX_LIMIT = 1000


def create(work: Work, request: r.CreateWebhook) -> Webhook:
    """Send events somewhere."""
    target_of(request.url)
    if not request.kinds or not request.models:
        msg = "a webhook is told of at least one kind of event, of at least one model"
        raise UsageError(msg, remedy="leave them out for all")
    if len(_all(work)) >= _MAX_WEBHOOKS:
        msg = f"a registry has at most {_MAX_WEBHOOKS} webhooks"
        raise UsageError(msg, remedy="delete one: vitrify registry webhook delete")
    secret = secrets.token_urlsafe(32)
    said = {"url": request.url, "kinds": canonical(request.kinds), "models": canonical(request.models)}
    done = work.connection.execute(insert(webhooks), {**said, "secret": secret, "created": work.now})
    id_ = int(done.inserted_primary_key[0])  # type: ignore[index] # a table with a key gives one
    facts = {"id": id_, "url": request.url, "kinds": request.kinds, "models": request.models}
    work.record("webhook.created", secret=fingerprint(secret), **facts)
    return _value(_row(work, id_)).replace(secret=secret)


def list_(work: Work, request: r.ListWebhooks) -> Webhooks:
    """Return every webhook, without its secret."""
    del request
    return Webhooks(webhooks=tuple(map(_value, _all(work))))


def delete(work: Work, request: r.DeleteWebhook) -> Done:
    """Send nothing there any more; what is waiting is given up."""
    _row(work, request.id)
    work.connection.execute(update(webhooks).where(webhooks.c.id == request.id), {"deleted": work.now})
    waiting = (sent.c.webhook_id == request.id) & (sent.c.state == "waiting")
    work.connection.execute(update(sent).where(waiting), {"state": "failed", "error": "the webhook was deleted"})
    work.record("webhook.deleted", id=request.id)
    return Done()


def deliveries(work: Work, request: r.ListDeliveries) -> Deliveries:
    """Return what was sent to a webhook, newest first."""
    _row(work, request.id)
    limit = min(max(request.limit, 1), _MAX_LIMIT)
    query = select(sent).where(sent.c.webhook_id == request.id).order_by(sent.c.id.desc()).limit(limit)
    return Deliveries(
        deliveries=tuple(
            Delivery(
                id=row.id,
                webhook=row.webhook_id,
                event=row.event,
                attempts=row.attempts,
                state=row.state,
                status=row.status,
                error=row.error,
                next=None if row.next is None or row.state != "waiting" else moment(row.next),
            )
            for row in work.connection.execute(query)
        )
    )


def _all(work: Work) -> list[Row[Any]]:
    query = select(webhooks).where(webhooks.c.deleted.is_(None)).order_by(webhooks.c.id)
    return list(work.connection.execute(query))


def _row(work: Work, id_: int) -> Row[Any]:
    query = select(webhooks).where(webhooks.c.id == id_, webhooks.c.deleted.is_(None))
    if (row := work.connection.execute(query).first()) is None:
        msg = f"no webhook has the number {id_}"
        raise ReferenceNotFoundError(msg, remedy="list them: vitrify registry webhook list")
    return row


def _value(row: Row[Any]) -> Webhook:
    return Webhook(
        id=row.id,
        url=row.url,
        kinds=tuple(msgspec.json.decode(row.kinds)),
        models=tuple(msgspec.json.decode(row.models)),
        active=row.deleted is None,
        created=moment(row.created),
    )
