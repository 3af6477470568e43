"""Needed content: which blobs something in the registry still leads to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Text, cast, func, select, union_all
from sqlalchemy.dialects.postgresql import JSONB

from vitrify.registry.database.mlflow_schema import files
from vitrify.registry.database.schema import blobs, models, versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection, Select, Subquery

_MOST = 1000


def _pinned(dialect: str) -> Select[Any]:
    """Return the digests that the versions pin which nobody gave up."""
    if dialect == "sqlite":
        listed: Any = func.json_each(versions.c.content).table_valued("value", name="listed")
    else:
        listed = func.jsonb_array_elements_text(cast(versions.c.content, JSONB)).table_valued("value", name="listed")
    return (
        select(cast(listed.c.value, Text).label("digest"))
        .select_from(versions.join(models))
        .join(listed, onclause=func.length(versions.c.content) > 0)
        .where(versions.c.status != "deleted", models.c.deleted.is_(None))
    )


def _tracked(dialect: str) -> Select[Any]:
    """Return the digests that MLflow's artifact paths lead to now."""
    del dialect
    return select(files.c.digest.label("digest"))


NEEDED: list[Callable[[str], Select[Any]]] = [_pinned, _tracked]
"""By the name of a dialect, a query with one column ``digest``. A table of another room that leads to content adds
its own; content that no query names is garbage one grace after it was last touched."""


def needed(connection: Connection) -> Subquery:
    """Return a query for all digests that are needed; they may repeat."""
    return union_all(*(query(connection.dialect.name) for query in NEEDED)).subquery("needed")


def dangling(connection: Connection) -> Iterator[str]:
    """Yield digests that are needed and have no row that says that they are there, up to 1,000."""
    wanted = select(needed(connection).c.digest)
    there = select(blobs.c.digest).where(blobs.c.state == "live")
    yield from connection.execute(wanted.except_(there).limit(_MOST)).scalars()
