"""Garbage: content that nothing leads to any more, deleted without ever taking what somebody needs or brings.

A blob goes in two steps, so that a kill at any point leaves either of them to be done again:

1. ``dying``: one writing transaction, in which nobody registers a version, marks what no version, no file of a run and
   no upload in flight needs and what nobody has touched for a grace. Whoever sends the content again takes it back.
2. Gone: while the rows of a few dying blobs are locked, their content is deleted, and then their rows. Whoever sends
   the content meanwhile waits for that lock, and starts anew.

What lies in the store without a row (a crash between the two, or another hand) gets one, and a grace of its own.
"""

from __future__ import annotations

import time
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, func, select, update

from vitrify.core.digest import Digest
from vitrify.core.errors import ReferenceNotFoundError, UsageError
from vitrify.core.wire import Value
from vitrify.registry.blobs.uploads import open_uploads
from vitrify.registry.database.schema import blobs as rows
from vitrify.registry.database.schema import head, uploads
from vitrify.registry.handlers.stock import NEW
from vitrify.registry.needed import needed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Select

    from vitrify.registry.blobs import Blobs
    from vitrify.registry.blobs.uploads import Uploads
    from vitrify.registry.database import Database

GRACE = timedelta(days=1)
"""How long content stays that nothing leads to: longer than any upload takes between its first byte and its version."""
ABANDONED = timedelta(days=7)
"""An upload to which nothing was added for so long is given up."""
_AT_ONCE = 64
_LISTED = 1000


class Collected(Value, frozen=True, kw_only=True):
    """What went, or would go.

    Attributes:
        blobs: How many.
        bytes: Their sizes together.
        adopted: Blobs without a row, which got one; they go a grace later.
        uploads: Uploads that were given up.
    """

    blobs: int = 0
    bytes: int = 0
    adopted: int = 0
    uploads: int = 0


def collect(database: Database, blobs: Blobs, grace: timedelta = GRACE, *, dry_run: bool = False) -> Collected:
    """Delete content that nothing leads to; others may read, upload and register meanwhile.

    Args:
        database: The registry's rows.
        blobs: Its content.
        grace: What was touched since stays.
        dry_run: Say what would go; change nothing.

    Raises:
        UsageError: The grace is negative.
        ConflictError: A backup is running, or another collector; what was marked goes the next time.
        StoreError: Content could not be deleted.
        UnavailableError: The database or the object storage does not answer.
    """
    if grace < timedelta(0):
        msg = f"a grace of {grace}"
        raise UsageError(msg, remedy="for example one day")
    before = time.time_ns() // 1000 - grace // timedelta(microseconds=1)
    if dry_run:
        with database.read() as connection:
            doomed = _doomed(connection, before, ("live", "arriving", "dying")).subquery()
            query = select(func.count(), func.sum(rows.c.size)).where(rows.c.digest.in_(select(doomed.c.digest)))
            count, size = connection.execute(query).one()
        return Collected(blobs=count, bytes=int(size or 0), adopted=sum(map(len, _without_row(database, blobs))))
    given_up = give_up(database, open_uploads(blobs))
    adopted = _adopt(database, blobs)
    with database.write() as connection:
        connection.execute(select(head.c.seq).with_for_update()).one()  # nobody registers a version now
        doomed = _doomed(connection, before, ("live", "arriving")).subquery()
        # The time is asked of the row itself as well: PostgreSQL looks again at one that was touched meanwhile.
        chosen = rows.c.digest.in_(select(doomed.c.digest)) & (rows.c.touched <= before) & (rows.c.state != "dying")
        connection.execute(update(rows).where(chosen), {"state": "dying"})
    count, size = _sweep(database, blobs)
    return Collected(blobs=count, bytes=size, adopted=adopted, uploads=given_up)


def _doomed(connection: Connection, before: int, states: tuple[str, ...]) -> Select[Any]:
    """Return the query for what nothing leads to; its digests are distinct."""
    old = select(rows.c.digest).where((rows.c.state == "dying") | (rows.c.touched <= before), rows.c.state.in_(states))
    return old.except_(select(needed(connection).c.digest), select(uploads.c.digest))  # type: ignore[return-value] # also a query


def _sweep(database: Database, blobs: Blobs) -> tuple[int, int]:
    """Delete what is dying, a few at a time."""
    query = (
        select(rows.c.digest, rows.c.size)
        .where(rows.c.state == "dying")
        .order_by(rows.c.digest)
        .limit(_AT_ONCE)
        .with_for_update()
    )
    count = size = 0
    while True:
        with database.sweeping() as connection:
            found = connection.execute(query).all()
            for row in found:
                blobs.delete(Digest.parse(row.digest))
            gone = rows.c.digest.in_([row.digest for row in found]) & (rows.c.state == "dying")
            connection.execute(delete(rows).where(gone))
        if not found:
            return count, size
        count, size = count + len(found), size + sum(row.size for row in found)


def _without_row(database: Database, blobs: Blobs) -> Iterator[list[Digest]]:
    """Yield content that no row knows, some at a time."""
    everything = blobs.digests()
    while some := list(islice(everything, _LISTED)):
        with database.read() as connection:
            query = select(rows.c.digest).where(rows.c.digest.in_(list(map(str, some))))
            known = set(connection.execute(query).scalars())
        yield [digest for digest in some if str(digest) not in known]


def _adopt(database: Database, blobs: Blobs) -> int:
    count = 0
    for some in _without_row(database, blobs):
        sizes = {digest: size for digest in some if (size := blobs.size(digest)) is not None}
        if sizes:
            now = time.time_ns() // 1000
            values = [
                {"digest": str(digest), "size": size, "state": "arriving", "touched": now}
                for digest, size in sizes.items()
            ]
            with database.write() as connection:
                connection.execute(NEW[connection.dialect.name], values)
        count += len(sizes)
    return count


def give_up(database: Database, arriving: Uploads) -> int:
    """Give up uploads to which nothing is added any more, and forget what is gone without its row; return how many."""
    count = arriving.expire(ABANDONED.total_seconds())
    with database.read() as connection:
        old = uploads.c.created < time.time_ns() // 1000 - ABANDONED // timedelta(microseconds=1)
        known = connection.execute(select(uploads.c.id).where(old)).scalars().all()
    for id_ in known:
        try:
            arriving.offset(id_)
        except ReferenceNotFoundError:
            with database.write() as connection:
                connection.execute(delete(uploads).where(uploads.c.id == id_))
    return count
