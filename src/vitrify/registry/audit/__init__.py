"""Audit: does the log hold together, and do the tables say what the log says.

Every event's hash is computed again, and the state of the registry is made again from the events alone and compared
with the tables, row by row. So whoever changes a past row without the log is found by the comparison, and whoever
changes the log without its hashes by the chain. Whoever may write to the database can make both anew from some point
on; then the head is another, and :mod:`vitrify.registry.audit.checkpoint` tells, for whoever kept a signed one.

Not decided by the log, and so not compared: the content's rows (what a version needs must be there), the deliveries
of webhooks, and the tables of the MLflow API.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import select

from vitrify.core.report import Finding, Report
from vitrify.registry.audit.compare import compare
from vitrify.registry.audit.state import State, Step
from vitrify.registry.database.schema import events, head
from vitrify.registry.events import START, hash_of, moment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from vitrify.registry.database import Database

__all__ = ["audit", "verify"]

MAX_FINDINGS = 1000
"""Where a table was replaced as a whole, nobody reads further."""
_BATCH = 2000


@dataclass
class Findings:
    """What was found so far, up to ``MAX_FINDINGS``."""

    found: list[Finding] = field(default_factory=list)
    left_out: int = 0

    def add(self, place: str, message: str, rule: str) -> None:
        """Note a difference."""
        if len(self.found) == MAX_FINDINGS:
            self.left_out += 1
        else:
            self.found.append(Finding(place=place, message=message, rule=rule, remedy=_REMEDY))


_REMEDY = "compare with a backup; somebody or something changed the database behind the registry's back"


def verify(database: Database, heads: Mapping[int, str] | None = None) -> Report:
    """Check the whole log and every table against it, in one snapshot of the database.

    Args:
        database: The registry's rows.
        heads: Hashes that the log must have, by event number, from checkpoints that somebody kept.

    Raises:
        UnavailableError: The database does not answer.
    """
    with database.snapshot() as connection:
        return audit(connection, heads)


def audit(connection: Connection, heads: Mapping[int, str] | None = None) -> Report:
    """Check what a connection sees; see :func:`verify`."""
    findings, state = Findings(), State()
    last = _follow(connection, state, findings, dict(heads or {}))
    compare(connection, state, findings)
    details: dict[str, Any] = {
        "events": last[0],
        "head": last[1],
        "time": moment(last[2]).isoformat(),
        "models": len(state.models),
        "versions": len(state.versions),
        "attestations": len(state.attestations),
    }
    if findings.left_out:
        details["leftOut"] = findings.left_out
    return Report.of("audit", findings.found, details)


def _follow(connection: Connection, state: State, findings: Findings, heads: dict[int, str]) -> tuple[int, str, int]:
    """Walk along the chain; return number, hash and time of its last event."""
    seq, last, time = 0, START, 0
    streamed = connection.execution_options(yield_per=_BATCH)
    for row in streamed.execute(select(*events.c).order_by(events.c.seq)):
        *said, previous, own = row
        place = f"events seq {row.seq}"
        if row.seq != seq + 1:
            findings.add(place, f"events {seq + 1} to {row.seq - 1} are missing", "gap")
        elif previous != last:
            findings.add(place, f"it follows {previous[:16]}, the event before is {last[:16]}", "chain")
        if (computed := hash_of(previous, *said)) != own:
            findings.add(place, f"its hash is {own[:16]}, its content has {computed[:16]}", "hash")
        if row.time < time:
            findings.add(place, f"it happened at {moment(row.time)}, before the event before it", "time")
        if heads.pop(row.seq, own) != own:
            findings.add(place, "it is not the event that the checkpoint says", "checkpoint")
        _apply(state, row, place, findings)
        seq, last, time = row.seq, own, row.time
    for missing in sorted(heads):
        findings.add(
            "head", f"the log ends with event {seq}; the checkpoint says that there is {missing}", "checkpoint"
        )
    there = connection.execute(select(head.c.seq, head.c.hash, head.c.time).where(head.c.id == 1)).first()
    if there is None or tuple(there) != (seq, last, time):
        found = f"event {there.seq} ({there.hash[:16]})" if there else "nothing"
        findings.add("head", f"it says {found}, the log ends with event {seq} ({last[:16]})", "head")
    return seq, last, time


def _apply(state: State, row: Any, place: str, findings: Findings) -> None:
    try:
        facts = msgspec.json.decode(row.facts)
        state.apply(Step(row.seq, row.time, row.actor, row.kind, row.model, row.version, facts))
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        findings.add(place, f"{row.kind} does not fit what came before it ({type(error).__name__}: {error})", "event")
