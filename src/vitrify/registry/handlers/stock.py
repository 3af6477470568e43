"""Content: what the registry has, what arrives, and what is kept from the garbage collector.

A blob's row is ``arriving`` from before its first byte until its last is durable, then ``live``; the collector makes
it ``dying`` before it deletes it. So no crash leaves a row that promises what is not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, case, select, update
from sqlalchemy.dialects import postgresql, sqlite

from vitrify.core.digest import Digest
from vitrify.core.errors import UnavailableError
from vitrify.registry.database.prepared import Prepared, together
from vitrify.registry.database.schema import blobs as rows
from vitrify.registry.values import Missing

if TYPE_CHECKING:
    from types import ModuleType

    from sqlalchemy import Connection

    from vitrify.registry import requests as r
    from vitrify.registry.blobs import Blobs
    from vitrify.registry.work import Work

NEW = {module.dialect.name: module.insert(rows).on_conflict_do_nothing() for module in (postgresql, sqlite)}
"""Of two who send the same at once in PostgreSQL, both find no row."""


def _upsert(module: ModuleType, state: Any) -> Any:
    statement = module.insert(rows)
    changes = {"touched": statement.excluded.touched, "state": state}
    return statement.on_conflict_do_update(index_elements=["digest"], set_=changes).returning(rows.c.state)


_EXPECT = {
    module.dialect.name: _upsert(module, case((rows.c.state == "dying", "arriving"), else_=rows.c.state))
    for module in (postgresql, sqlite)
}
_ARRIVED = {module.dialect.name: _upsert(module, "live") for module in (postgresql, sqlite)}


_STATE = Prepared(select(rows.c.state).where(rows.c.digest == bindparam("wanted")))


def missing(work: Work, request: r.FindMissing) -> Missing:
    """Return which digests there is no content of."""
    asked = tuple(dict.fromkeys(str(Digest.parse(digest)) for digest in request.digests))
    live = rows.c.digest.in_(asked) & (rows.c.state == "live")
    there = set(work.connection.execute(select(rows.c.digest).where(live)).scalars())
    work.connection.execute(update(rows).where(live), {"touched": work.now})  # nobody collects what is not sent again
    return Missing(digests=tuple(digest for digest in asked if digest not in there))


def is_there(connection: Connection, digest: Digest) -> bool:
    """Say whether there is content, and it is not being collected."""
    with together(connection):  # with the BEGIN before it
        state = _STATE.run(connection, wanted=str(digest))
    return bool(state.fetchone() == ("live",))


def arriving(connection: Connection, digest: Digest, size: int, now: int) -> bool:
    """Note that content is about to arrive; return whether it is there already.

    What is dying is taken back, and has to be sent again: the collector holds its row while it deletes.
    """
    row = {"digest": str(digest), "size": size, "state": "arriving", "touched": now}
    state: str = connection.execute(_EXPECT[connection.dialect.name], row).scalar_one()
    return state == "live"


def arrived(connection: Connection, blobs: Blobs, digest: Digest, size: int, now: int) -> None:
    """Note that content is there, durably.

    Raises:
        UnavailableError: It is not: whoever sent it took longer than the collector's grace.
    """
    row = {"digest": str(digest), "size": size, "state": "live", "touched": now}
    connection.execute(_ARRIVED[connection.dialect.name], row)
    if blobs.size(digest) is None:  # asked while the row is held, so that it stays true
        msg = f"{digest} was collected as garbage while it arrived"
        raise UnavailableError(msg, remedy="send it again")
