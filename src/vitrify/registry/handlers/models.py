"""Names: made, described, renamed, given up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import func, insert, select, update

from vitrify.core.errors import ConflictError
from vitrify.registry.database.schema import models, versions
from vitrify.registry.events import canonical
from vitrify.registry.globs import ESCAPE, as_like
from vitrify.registry.handlers import find
from vitrify.registry.handlers.approvals import drop
from vitrify.registry.handlers.lineage import renamed
from vitrify.registry.limits import check_model
from vitrify.registry.rows import MODEL, to_model
from vitrify.registry.values import Done, Model, Models

if TYPE_CHECKING:
    from vitrify.registry import requests as r
    from vitrify.registry.work import Work

MAX_LIMIT = 1000
_DESCRIBED = ("description", "owner", "licence")


def create(work: Work, request: r.CreateModel) -> Model:
    """Make a name."""
    check_model(request.name)
    find.require(work, request.name)
    taken = select(models.c.id).where(models.c.name == request.name, models.c.deleted.is_(None))
    if work.connection.execute(taken).first():
        msg = f"there is a model called {request.name!r}"
        raise ConflictError(msg, remedy=f"register a version of it, or change it: vitrify edit {request.name}")
    make(work, request)
    return _value(work, request.name)


def make(work: Work, request: r.CreateModel) -> int:
    """Insert the row of a name that is known to be free; return its key.

    Where the name was given up before, its versions are counted on: none of their names is ever given again.
    """
    counted = select(func.max(models.c.counter)).where(models.c.name == request.name)
    counter = work.connection.execute(counted).scalar() or 0
    facts = {"description": request.description, "owner": request.owner or work.actor.who, "licence": request.licence}
    row = {
        "name": request.name,
        **facts,
        "tags": canonical(request.tags),
        "counter": counter,
        "created": work.now,
        "updated": work.now,
    }
    done = work.connection.execute(insert(models), row)
    work.record("model.created", request.name, tags=request.tags, **facts)
    return int(done.inserted_primary_key[0])  # type: ignore[index] # a table with a key gives one


def get(work: Work, request: r.GetModel) -> Model:
    """Return one model."""
    find.model(work, request.model)
    return _value(work, request.model)


def list_(work: Work, request: r.ListModels) -> Models:
    """Return models in the order of their names."""
    limit = min(max(request.limit, 1), MAX_LIMIT)
    query = (
        select(*MODEL)
        .where(
            models.c.deleted.is_(None),
            models.c.name > request.after,
            models.c.name.like(as_like(request.name), escape=ESCAPE),
        )
        .order_by(models.c.name)
    )
    found: list[Model] = []
    for row in work.connection.execute(query):
        if len(found) == limit:
            return Models(models=tuple(found), next=found[-1].name)
        if work.actor.sees(row[0]):
            found.append(to_model(row))
    return Models(models=tuple(found))


def change(work: Work, request: r.UpdateModel) -> Model:
    """Change what is said about a model."""
    row = find.model(work, request.model)
    changes: dict[str, Any] = {
        name: given for name in _DESCRIBED if (given := getattr(request, name)) not in {None, getattr(row, name)}
    }
    before = msgspec.json.decode(row.tags)
    if (tags := merged(before, request.tags)) != before:
        changes["tags"] = tags
    if changes:
        columns = {**changes, "tags": canonical(tags), "updated": work.now}
        work.connection.execute(update(models).where(models.c.id == row.id), columns)
        work.record("model.updated", request.model, **changes)
    return _value(work, request.model)


def rename(work: Work, request: r.RenameModel) -> Model:
    """Give a model another name."""
    row = find.model(work, request.model)
    check_model(request.name)
    # A name that was given up still stands in the log and the lineage, with versions of its own.
    taken = select(models.c.id).where(models.c.name == request.name)
    find.require(work, request.name)
    if work.connection.execute(taken).first():
        msg = f"{request.model!r} cannot become {request.name!r}: that name is, or was, another's"
        raise ConflictError(msg, remedy="choose another name")
    columns = {"name": request.name, "updated": work.now}
    work.connection.execute(update(models).where(models.c.id == row.id), columns)
    renamed(work, request.model, request.name)
    work.record("model.renamed", request.model, to=request.name)
    return _value(work, request.name)


def delete(work: Work, request: r.DeleteModel) -> Done:
    """Give a model up; the rows stay, for the log."""
    row = find.model(work, request.model)
    serving = select(func.count()).where(versions.c.model_id == row.id, versions.c.stage == "production")
    if work.connection.execute(serving).scalar():
        msg = f"{request.model} has a version in production"
        raise ConflictError(msg, remedy=f"archive it first: vitrify promote {request.model}@production archived")
    drop(work, versions.c.model_id == row.id)
    columns = {"deleted": work.now, "updated": work.now}
    work.connection.execute(update(models).where(models.c.id == row.id), columns)
    work.record("model.deleted", request.model)
    return Done()


def merged(before: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    """Return tags with some changed; what is None is taken away."""
    return {key: value for key, value in {**before, **changes}.items() if value is not None}


def _value(work: Work, name: str) -> Model:
    query = select(*MODEL).where(models.c.name == name, models.c.deleted.is_(None))
    return to_model(work.connection.execute(query).one())
