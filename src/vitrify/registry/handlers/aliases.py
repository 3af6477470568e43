"""Aliases: free names within a model, each leading to one version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import bindparam, delete, insert, select, update

from vitrify.core.errors import ConflictError
from vitrify.registry.database.prepared import Prepared
from vitrify.registry.database.schema import aliases, versions
from vitrify.registry.events import canonical
from vitrify.registry.handlers import find
from vitrify.registry.limits import check_alias
from vitrify.registry.values import Done, Version

if TYPE_CHECKING:
    from vitrify.registry import requests as r
    from vitrify.registry.work import Work


_CHOSEN = (aliases.c.model_id == bindparam("of")) & (aliases.c.alias == bindparam("wanted"))
_PREVIOUS = Prepared(
    select(versions.c.id, versions.c.aliases).join(aliases, aliases.c.version_id == versions.c.id).where(_CHOSEN)
)
_ADD = Prepared(
    insert(aliases).values(model_id=bindparam("of"), alias=bindparam("wanted"), version_id=bindparam("id_"))
)
_MOVE = Prepared(update(aliases).where(_CHOSEN).values(version_id=bindparam("id_")))
_REMOVE = Prepared(delete(aliases).where(_CHOSEN))
_SHOW = Prepared(
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
    previous = _PREVIOUS.run(work.connection, **chosen).fetchone()
    if previous is None:
        work.later(_ADD, **chosen, id_=found.id)
    elif previous[0] == found.id:
        return before
    else:
        work.later(_MOVE, **chosen, id_=found.id)
        _take(work, previous, alias)
    names = tuple(sorted({*before.aliases, alias}))
    _show(work, found.id, names)
    work.record("alias.set", before.model, before.version, alias=alias)
    return before.replace(aliases=names, updated=work.when)


def remove(work: Work, request: r.RemoveAlias) -> Done:
    """Take an alias away."""
    chosen = {"of": find.model(work, request.model).id, "wanted": request.alias}
    previous = _PREVIOUS.run(work.connection, **chosen).fetchone()
    if previous is not None:
        work.later(_REMOVE, **chosen)
        _take(work, previous, request.alias)
        work.record("alias.removed", request.model, alias=request.alias)
    return Done()


def _take(work: Work, holder: tuple[int, str], alias: str) -> None:
    """Take an alias out of what its holder's own row says."""
    version_id, names = holder
    _show(work, version_id, tuple(name for name in msgspec.json.decode(names) if name != alias))


def _show(work: Work, version_id: int, names: tuple[str, ...]) -> None:
    """Repeat a version's aliases, sorted, in its own row, where a search and an answer take them from."""
    work.later(_SHOW, id_=version_id, names=canonical(names), now=work.now)
