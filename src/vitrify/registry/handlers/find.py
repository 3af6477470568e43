"""Finding a model or a version by what people call it; nobody finds what he may not touch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import bindparam, or_, select

from vitrify.core.errors import DeniedError, ReferenceNotFoundError
from vitrify.registry.database.prepared import Prepared
from vitrify.registry.database.schema import aliases, models, versions
from vitrify.registry.rows import VERSION, to_version
from vitrify.registry.values import STAGES, Version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row

    from vitrify.registry.work import Work

_NUMBER = re.compile(r"[1-9]\d{0,8}", re.ASCII)

_live = (models.c.name == bindparam("model")) & models.c.deleted.is_(None)
_MODEL = select(models).where(_live)
_COLUMNS = select(versions.c.id, versions.c.model_id, *VERSION)
_VERSIONS = _COLUMNS.select_from(versions.join(models)).where(_live)
_BY_NAME = Prepared(_VERSIONS.where(versions.c.version == bindparam("key")))
_BY_NUMBER = Prepared(_VERSIONS.where(versions.c.number == bindparam("key")))
_BY_STAGE = Prepared(
    _VERSIONS.where(versions.c.stage == bindparam("key"), versions.c.status != "deleted")
    .order_by(versions.c.number.desc())
    .limit(1)
)
_BY_ALIAS = Prepared(
    _COLUMNS.select_from(
        models.join(aliases, aliases.c.model_id == models.c.id).join(versions, versions.c.id == aliases.c.version_id)
    ).where(_live, aliases.c.alias == bindparam("key"))
)
_LATEST = Prepared(
    _VERSIONS.where(or_(versions.c.status == "active", versions.c.status == "deprecated"))
    .order_by(versions.c.number.desc())
    .limit(1)
)
_BY_ID = _COLUMNS.select_from(versions.join(models)).where(versions.c.id == bindparam("id"))


class Found(NamedTuple):
    """A version, with the keys of its row and of its model's."""

    id: int
    model_id: int
    value: Version


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
    row = query.run(work.connection, model=name, key=key).fetchone()
    found = None if row is None else _found(row)
    if found is not None and (deleted or found.value.status != "deleted"):
        return found
    model(work, name)
    lost = f"{name}:{which} was deleted: {found.value.reason}" if found else f"{name} has no version {which!r}"
    raise ReferenceNotFoundError(lost, remedy=f"list its versions: vitrify search name = {name}")


def by_id(work: Work, id_: int) -> Found:
    """Return a version by its key.

    Raises:
        DeniedError: The actor may not touch the model.
    """
    found = _found(work.connection.execute(_BY_ID, {"id": id_}).one())
    require(work, found.value.model)
    return found


def require(work: Work, name: str) -> None:
    """Refuse a model that the actor may not touch, whether there is one or not.

    Raises:
        DeniedError: The actor may not touch it.
    """
    if not work.actor.sees(name):
        msg = f"{work.actor.who} may not touch {name!r}, only {', '.join(work.actor.models)}"
        raise DeniedError(msg, remedy="ask an admin of the registry for a token for that model")


def _found(row: Sequence[Any]) -> Found:
    return Found(row[0], row[1], to_version(row[2:]))


def _query(which: str) -> tuple[Prepared, str | int]:
    if which == "latest":
        return _LATEST, which
    if which.startswith("@"):
        return (_BY_STAGE if which[1:] in STAGES else _BY_ALIAS), which[1:]
    if _NUMBER.fullmatch(which):
        return _BY_NUMBER, int(which)
    return _BY_NAME, which
