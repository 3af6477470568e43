"""Aliases: free names within a model, each leading to one version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import bindparam, delete, insert, select, update

from vitrify.core.errors import ConflictError
from vitrify.registry.database.schema import aliases, versions
from vitrify.registry.events import canonical
from vitrify.registry.handlers import find
from vitrify.registry.limits import check_alias
from vitrify.registry.values import Done, Version

if TYPE_CHECKING:
    from vitrify.registry import requests as r
    from vitrify.registry.work import Work


_CHOSEN = (aliases.c.model_id == bindparam("of")) & (aliases.c.alias == bindparam("wanted"))
_PREVIOUS = select(aliases.c.version_id).where(_CHOSEN)
_MOVE = update(aliases).where(_CHOSEN).values(version_id=bindparam("id_"))
_REMOVE = delete(aliases).where(_CHOSEN)
_NAMES = select(aliases.c.alias).where(aliases.c.version_id == bindparam("id_")).order_by(aliases.c.alias)
_SHOW = (
    update(versions)
    .where(versions.c.id == bindparam("id_"))
    .values(aliases=bindparam("names"), updated=bindparam("now"))
)


def set_(work: Work, request: r.SetAlias) -> Version:
    """Give a version a name of its own."""
    alias = check_alias(request.alias)
    found = find.version(work, request.model, request.version)
    before = found.value
    if before.status == "yanked":
        msg = f"{before.model}:{before.version} was yanked: {before.reason}"
        raise ConflictError(msg, remedy="restore it first, or choose another version")
    chosen = {"of": found.model_id, "wanted": alias}
    previous = work.connection.execute(_PREVIOUS, chosen).scalar()
    if previous == found.id:
        return before
    if previous is None:
        row = {"model_id": found.model_id, "alias": alias, "version_id": found.id}
        work.connection.execute(insert(aliases), row)
    else:
        work.connection.execute(_MOVE, {**chosen, "id_": found.id})
        _refresh(work, previous)
    names = _refresh(work, found.id)
    work.record("alias.set", before.model, before.version, alias=alias)
    return before.replace(aliases=tuple(names), updated=work.when)


def remove(work: Work, request: r.RemoveAlias) -> Done:
    """Take an alias away."""
    chosen = {"of": find.model(work, request.model).id, "wanted": request.alias}
    previous = work.connection.execute(_PREVIOUS, chosen).scalar()
    if previous is not None:
        work.connection.execute(_REMOVE, chosen)
        _refresh(work, previous)
        work.record("alias.removed", request.model, alias=request.alias)
    return Done()


def _refresh(work: Work, version_id: int) -> list[str]:
    """Repeat a version's aliases in its own row, where a search and an answer take them from; return them."""
    names = list(work.connection.execute(_NAMES, {"id_": version_id}).scalars())
    work.connection.execute(_SHOW, {"id_": version_id, "names": canonical(names), "now": work.now})
    return names
