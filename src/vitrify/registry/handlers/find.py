"""Finding a model or a version by what people call it; nobody finds what he may not touch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, select

from vitrify.core.errors import DeniedError, ReferenceNotFoundError
from vitrify.registry.database.schema import aliases, models, versions
from vitrify.registry.rows import VERSION, to_version
from vitrify.registry.values import STAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row, Select

    from vitrify.registry.values import Version
    from vitrify.registry.work import Work

_NUMBER = re.compile(r"[1-9]\d{0,8}", re.ASCII)

_live = (models.c.name == bindparam("model")) & models.c.deleted.is_(None)
_MODEL = select(models).where(_live)
_COLUMNS = select(versions.c.id, versions.c.model_id, *VERSION)
_VERSIONS = _COLUMNS.select_from(versions.join(models)).where(_live)
_BY_NAME = _VERSIONS.where(versions.c.version == bindparam("key"))
_BY_NUMBER = _VERSIONS.where(versions.c.number == bindparam("key"))
_BY_STAGE = (
    _VERSIONS.where(versions.c.stage == bindparam("key"), versions.c.status != "deleted")
    .order_by(versions.c.number.desc())
    .limit(1)
)
_BY_ALIAS = _COLUMNS.select_from(
    models.join(aliases, aliases.c.model_id == models.c.id).join(versions, versions.c.id == aliases.c.version_id)
).where(_live, aliases.c.alias == bindparam("key"))
_LATEST = _VERSIONS.where(versions.c.status.in_(("active", "deprecated"))).order_by(versions.c.number.desc()).limit(1)
_BY_ID = _COLUMNS.select_from(versions.join(models)).where(versions.c.id == bindparam("id"))


class Found:
    """A version's row: its keys, and its value when it is asked for."""

    __slots__ = ("id", "model_id", "row")

    def __init__(self, row: Sequence[Any]) -> None:
        """Take a row of keys and the columns of ``VERSION``."""
        self.id: int = row[0]
        self.model_id: int = row[1]
        self.row: tuple[Any, ...] = tuple(row[2:])

    @property
    def value(self) -> Version:
        """The version."""
        return to_version(self.row)


def model(work: Work, name: str) -> Row[Any]:
    """Return a model's row.

    Raises:
        DeniedError: The actor may not touch it.
        ReferenceNotFoundError: There is none.
    """
    require(work, name)
    if (row := work.connection.execute(_MODEL, {"model": name}).first()) is None:
        msg = f"no model is called {name!r}"
        raise ReferenceNotFoundError(msg, remedy="list what there is: vitrify models")
    return row


def version(work: Work, name: str, which: str, *, deleted: bool = False) -> Found:
    """Return a version.

    Args:
        work: Where to look.
        name: The model.
        which: A version, a counter, ``latest``, ``@alias`` or ``@stage``.
        deleted: Whether one that was deleted counts.

    Raises:
        DeniedError: The actor may not touch the model.
        ReferenceNotFoundError: There is none.
    """
    require(work, name)
    query, key = _query(which)
    row = work.connection.execute(query, {"model": name, "key": key}).first()
    if row is None or (row.status == "deleted" and not deleted):
        model(work, name)
        msg = f"{name} has no version {which!r}" if row is None else f"{name}:{which} was deleted: {row.reason}"
        raise ReferenceNotFoundError(msg, remedy=f"list its versions: vitrify search name = {name}")
    return Found(row)


def by_id(work: Work, id_: int) -> Found:
    """Return a version by its key.

    Raises:
        DeniedError: The actor may not touch the model.
    """
    found = Found(work.connection.execute(_BY_ID, {"id": id_}).one())
    require(work, found.row[0])
    return found


def require(work: Work, name: str) -> None:
    """Refuse a model that the actor may not touch, whether there is one or not.

    Raises:
        DeniedError: The actor may not touch it.
    """
    if not work.actor.sees(name):
        msg = f"{work.actor.who} may not touch {name!r}, only {', '.join(work.actor.models)}"
        raise DeniedError(msg, remedy="ask an admin of the registry for a token for that model")


def _query(which: str) -> tuple[Select[Any], str | int]:
    if which == "latest":
        return _LATEST, which
    if which.startswith("@"):
        return (_BY_STAGE if which[1:] in STAGES else _BY_ALIAS), which[1:]
    if _NUMBER.fullmatch(which):
        return _BY_NUMBER, int(which)
    return _BY_NAME, which
