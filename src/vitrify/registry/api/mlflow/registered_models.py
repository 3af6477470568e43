"""MLflow's registered models: the registry's models, by the same requests, under the same rules, in the same log."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import select

from vitrify.core.errors import UsageError
from vitrify.registry import requests as r
from vitrify.registry.api.mlflow._filters import compare, holds, order, parse
from vitrify.registry.api.mlflow._pages import window
from vitrify.registry.api.mlflow._registered import aliases_of, check_tag, latest, model_said, version_said
from vitrify.registry.api.mlflow._stages import number_of, stage_of
from vitrify.registry.api.mlflow._wire import Message, Pair, Row, pairs
from vitrify.registry.database.schema import models
from vitrify.registry.rows import MODEL, to_model
from vitrify.registry.values import STAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy import Connection

    from vitrify.registry.api.mlflow._filters import Clause
    from vitrify.registry.api.routing import Call
    from vitrify.registry.local import LocalBackend

PROMPT = "mlflow.prompt.is_prompt"
"""The tag by which MLflow keeps prompts among its models; its clients leave them out of every search."""
_SORTABLE = {
    "name": models.c.name,
    "creation_timestamp": models.c.created,
    "last_updated_timestamp": models.c.updated,
    "timestamp": models.c.updated,
}
_ID, _TAGS = 0, 1


class Create(Message, frozen=True, kw_only=True):
    """``CreateRegisteredModel``."""

    name: str
    tags: tuple[Pair, ...] = ()
    description: str = ""


class ByName(Message, frozen=True, kw_only=True):
    """``GetRegisteredModel``, ``DeleteRegisteredModel``."""

    name: str


class Rename(Message, frozen=True, kw_only=True):
    """``RenameRegisteredModel``."""

    name: str
    new_name: str


class Update(Message, frozen=True, kw_only=True):
    """``UpdateRegisteredModel``."""

    name: str
    description: str = ""


class Tag(Message, frozen=True, kw_only=True):
    """``SetRegisteredModelTag``, ``DeleteRegisteredModelTag``."""

    name: str
    key: str
    value: str = ""


class Alias(Message, frozen=True, kw_only=True):
    """``SetRegisteredModelAlias``, ``DeleteRegisteredModelAlias``, ``GetModelVersionByAlias``."""

    name: str
    alias: str
    version: str = ""


class Latest(Message, frozen=True, kw_only=True):
    """``GetLatestVersions``."""

    name: str
    stages: tuple[str, ...] = ()


class Search(Message, frozen=True, kw_only=True):
    """``SearchRegisteredModels``, and ``SearchModelVersions``."""

    filter: str = ""
    max_results: int | None = None
    order_by: tuple[str, ...] = ()
    page_token: str = ""


def create(call: Call, asked: Create) -> dict[str, Any]:
    """Make a name."""
    tags = pairs(asked.tags)
    call.backend.do(r.CreateModel(name=asked.name, description=asked.description, tags=tags))
    return _one(call.backend, asked.name)


def get(call: Call, asked: ByName) -> dict[str, Any]:
    """Return a model with the newest version of each stage."""
    return _one(call.backend, asked.name)


def rename(call: Call, asked: Rename) -> dict[str, Any]:
    """Give a model another name."""
    call.backend.do(r.RenameModel(model=asked.name, name=asked.new_name))
    return _one(call.backend, asked.new_name)


def update(call: Call, asked: Update) -> dict[str, Any]:
    """Change a description."""
    call.backend.do(r.UpdateModel(model=asked.name, description=asked.description))
    return _one(call.backend, asked.name)


def delete(call: Call, asked: ByName) -> dict[str, Any]:
    """Give a model up; refused while a version is in production."""
    call.backend.do(r.DeleteModel(model=asked.name))
    return {}


def set_tag(call: Call, asked: Tag) -> dict[str, Any]:
    """Set a tag."""
    call.backend.do(r.UpdateModel(model=asked.name, tags={check_tag(asked.key): asked.value}))
    return {}


def delete_tag(call: Call, asked: Tag) -> dict[str, Any]:
    """Take a tag away."""
    call.backend.do(r.UpdateModel(model=asked.name, tags={check_tag(asked.key): None}))
    return {}


def set_alias(call: Call, asked: Alias) -> dict[str, Any]:
    """Give a version a name of its own."""
    call.backend.do(r.SetAlias(model=asked.name, alias=asked.alias, version=number_of(asked.version)))
    return {}


def delete_alias(call: Call, asked: Alias) -> dict[str, Any]:
    """Take an alias away."""
    call.backend.do(r.RemoveAlias(model=asked.name, alias=asked.alias))
    return {}


def get_by_alias(call: Call, asked: Alias) -> dict[str, Any]:
    """Return the version of an alias."""
    version: Any = call.backend.do(r.GetVersion(model=asked.name, version=f"@{asked.alias}"))
    return {"model_version": version_said(version)}


def get_latest(call: Call, asked: Latest) -> dict[str, Any]:
    """Return the newest version of each stage, or of some."""
    wanted = {stage_of(stage) for stage in asked.stages} or set(STAGES)
    call.backend.do(r.GetModel(model=asked.name))
    with call.backend.database.read() as connection:
        id_ = _key(connection, asked.name)
        found = latest(connection, [id_]).get(id_, [])
    return {"model_versions": [version_said(version) for version in found if version.stage in wanted]}


def search(call: Call, asked: Search) -> dict[str, Any]:
    """Return the models that a filter fits."""
    query = select(models.c.id, models.c.tags, *MODEL).where(models.c.deleted.is_(None))
    tags: list[Clause] = []
    for clause in parse(asked.filter):
        if clause.kind == "tag":
            tags.append(clause)
        elif clause.kind == "attribute" and clause.key == "name":
            query = query.where(compare(models.c.name, clause))
        else:
            msg = f"models cannot be searched by {clause.key[:100]!r}"
            raise UsageError(msg, remedy="use name, or tags.<key>")
    for kind, key, ascends in order(asked.order_by, _SORTABLE):
        if kind != "attribute":
            msg = f"models cannot be sorted by {key[:100]!r}"
            raise UsageError(msg, remedy=f"use {', '.join(_SORTABLE)}")
        query = query.order_by(_SORTABLE[key].asc() if ascends else _SORTABLE[key].desc())
    page = window(asked.max_results, asked.page_token)
    with call.backend.database.read() as connection:
        rows = connection.execute(query.order_by(models.c.name))
        found = list(islice(_fitting(call, rows, tags), page.offset, page.offset + page.limit + 1))
        answers = _said(connection, found[: page.limit])
    following = {"next_page_token": token} if (token := page.token(len(found))) else {}
    return {"registered_models": answers, **following}


def _fitting(call: Call, rows: Iterable[Any], tags: list[Clause]) -> Iterator[Any]:
    """Yield the rows that the actor may see and that have the tags, which are JSON: no two databases read it alike."""
    for row in rows:
        if call.backend.actor.sees(row[2]):
            known: dict[str, str] = msgspec.json.decode(row[_TAGS]) if tags and row[_TAGS] != "{}" else {}
            if all(_has(known, clause) for clause in tags):
                yield row


def _has(tags: dict[str, str], clause: Clause) -> bool:
    if clause.key == PROMPT and clause.operator == "!=":
        return bool(tags.get(PROMPT) != clause.value)  # MLflow's own exception: a model without the tag is no prompt
    return holds(tags.get(clause.key), clause)


def _one(backend: LocalBackend, name: str) -> dict[str, Any]:
    backend.do(r.GetModel(model=name))
    query = select(models.c.id, models.c.tags, *MODEL).where(models.c.name == name, models.c.deleted.is_(None))
    with backend.database.read() as connection:
        return {"registered_model": _said(connection, list(connection.execute(query).all()))[0]}


def _said(connection: Connection, rows: list[Any]) -> list[dict[str, Any]]:
    ids = [row[_ID] for row in rows]
    newest, known = latest(connection, ids), aliases_of(connection, ids)
    return [model_said(to_model(row[2:]), newest.get(row[_ID], []), known.get(row[_ID], [])) for row in rows]


def _key(connection: Connection, name: str) -> int:
    query = select(models.c.id).where(models.c.name == name, models.c.deleted.is_(None))
    found: int = connection.execute(query).scalar_one()
    return found


ROWS = (
    Row("POST", "/registered-models/create", "writer", create, Create, taken=True),
    Row("GET", "/registered-models/get", "reader", get, ByName),
    Row("POST", "/registered-models/rename", "admin", rename, Rename, taken=True),
    Row("PATCH", "/registered-models/update", "writer", update, Update),
    Row("DELETE", "/registered-models/delete", "admin", delete, ByName),
    Row("GET", "/registered-models/search", "reader", search, Search),
    Row("POST", "/registered-models/set-tag", "writer", set_tag, Tag),
    Row("DELETE", "/registered-models/delete-tag", "writer", delete_tag, Tag),
    Row("POST", "/registered-models/alias", "writer", set_alias, Alias),
    Row("DELETE", "/registered-models/alias", "writer", delete_alias, Alias),
    Row("GET", "/registered-models/alias", "reader", get_by_alias, Alias),
    Row("POST", "/registered-models/get-latest-versions", "reader", get_latest, Latest),
    Row("GET", "/registered-models/get-latest-versions", "reader", get_latest, Latest),
)
