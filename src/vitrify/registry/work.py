"""One request being carried out: who asks, in which transaction, at what time; and what it leaves in the log."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import bindparam, insert, select, update

from vitrify.registry.database import schema
from vitrify.registry.database.prepared import Prepared, together
from vitrify.registry.events import canonical, hash_of, moment

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection

    from vitrify.registry.actor import Actor
    from vitrify.trust.policy import Policy

_TOLD = select(schema.webhooks.c.id).where(schema.webhooks.c.deleted.is_(None)).exists()
_LOCKED_HEAD = Prepared(
    select(schema.head.c.seq, schema.head.c.hash, schema.head.c.time, _TOLD)
    .where(schema.head.c.id == 1)
    .with_for_update(of=schema.head)  # SQLite has no such thing and leaves it out
)
_SET_HEAD = Prepared(
    update(schema.head)
    .where(schema.head.c.id == 1)
    .values(seq=bindparam("seq_"), hash=bindparam("hash_"), time=bindparam("time_"))
)
_WEBHOOKS = select(schema.webhooks.c.id, schema.webhooks.c.kinds, schema.webhooks.c.models).where(
    schema.webhooks.c.deleted.is_(None), schema.webhooks.c.created < bindparam("now")
)
_COLUMNS = tuple(schema.events.c.keys())
_ADD_EVENT = Prepared(insert(schema.events).values({name: bindparam(name) for name in _COLUMNS}))


@dataclass
class Work:
    """A request's surroundings.

    Attributes:
        connection: In its transaction.
        actor: Who asks.
        now: Microseconds since 1970. In a writing transaction always later than the log's last event: the clock may go
            backwards, the log does not.
        policy: What is asked before a promotion; None allows everything.
        prepared: What was read from the content before the transaction began.
    """

    connection: Connection
    actor: Actor
    now: int
    policy: Policy | None = None
    prepared: Any = None
    seq: int = 0
    _hash: str = ""
    _told: bool = False
    _events: list[dict[str, Any]] = field(default_factory=list)
    _steps: list[tuple[Prepared, dict[str, Any]]] = field(default_factory=list)

    @classmethod
    def writing(cls, connection: Connection, actor: Actor, policy: Policy | None, prepared: Any) -> Work:
        """Lock the log's head, and continue from it."""
        with together(connection):  # with the BEGIN before it
            head = _LOCKED_HEAD.run(connection)
        seq, last, before, told = head.fetchone()
        now = max(time.time_ns() // 1000, before + 1)
        return cls(connection, actor, now, policy, prepared, seq, last, told)

    @classmethod
    def reading(cls, connection: Connection, actor: Actor, policy: Policy | None) -> Work:
        """Return what a request needs that changes nothing."""
        return cls(connection, actor, time.time_ns() // 1000, policy)

    @property
    def when(self) -> datetime:
        """Now, as a time."""
        return moment(self.now)

    def record(self, kind: str, model: str | None = None, version: str | None = None, /, **facts: Any) -> int:
        """Add an event to the log; return its number."""
        self.seq += 1
        said = canonical(facts)
        columns = (self.seq, self.now, self.actor.who, kind, model, version, said)
        values = (*columns, self._hash, own := hash_of(self._hash, *columns))
        self._events.append(dict(zip(_COLUMNS, values, strict=True)))
        self._hash = own
        return self.seq

    def later(self, statement: Prepared, **values: Any) -> None:
        """Run a statement when the request is done: one that nothing reads after, and that answers nothing."""
        self._steps.append((statement, values))

    def finish(self) -> None:
        """Write what was left for later, the events and the head, and note what webhooks are to be told."""
        if self._events:
            self._steps += [(_ADD_EVENT, event) for event in self._events]
            self.later(_SET_HEAD, seq_=self.seq, hash_=self._hash, time_=self.now)
        if self._steps:
            with together(self.connection):
                for statement, values in self._steps:
                    statement.run(self.connection, **values)
        if self._told and self._events:
            self._tell()

    def _tell(self) -> None:
        """Note which webhooks are to be told of which events."""
        if waiting := [
            {"webhook_id": id_, "event": event["seq"], "state": "waiting", "next": self.now}
            for id_, kinds, models in self.connection.execute(_WEBHOOKS, {"now": self.now}).all()
            for event in self._events
            if _fits(event["kind"], kinds) and _fits(event["model"] or "", models)
        ]:
            self.connection.execute(insert(schema.deliveries), waiting)


def _fits(name: str, patterns: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in msgspec.json.decode(patterns))
