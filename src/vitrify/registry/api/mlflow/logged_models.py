"""Logged models: what a run saved before anybody registered it. They are working copies; a version is a sealed one."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select, update

from vitrify.core.errors import ReferenceNotFoundError, UsageError
from vitrify.registry.api.mlflow import _notes, experiments
from vitrify.registry.api.mlflow._filters import Kind, compare, order, parse
from vitrify.registry.api.mlflow._pages import window
from vitrify.registry.api.mlflow._paths import SCHEME
from vitrify.registry.api.mlflow._wire import Message, Pair, Row, pairs, said
from vitrify.registry.api.mlflow.runs import params
from vitrify.registry.database import mlflow_schema as schema
from vitrify.registry.database.mlflow_schema import logged_models as models

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from vitrify.registry.api.routing import Call

STATUSES = {1: "LOGGED_MODEL_PENDING", 2: "LOGGED_MODEL_READY", 3: "LOGGED_MODEL_UPLOAD_FAILED"}
_SHORT = {f"{name}": f"LOGGED_MODEL_{name}" for name in ("PENDING", "READY", "UPLOAD_FAILED")}
_MAX_NAME = 500
_MOST_EXPERIMENTS = 1000
_TEXT = {
    "name": models.c.name,
    "model_name": models.c.name,
    "model_id": models.c.id,
    "model_type": models.c.type,
    "source_run_id": models.c.run_id,
}
_TIMES = {
    "creation_timestamp": models.c.created,
    "creation_time": models.c.created,
    "last_updated_timestamp": models.c.updated,
    "last_updated_time": models.c.updated,
}
_COLUMNS: dict[str, Any] = {**_TEXT, **_TIMES, "status": models.c.status}


class Create(Message, frozen=True, kw_only=True):
    """``CreateLoggedModel``."""

    experiment_id: str = str(experiments.DEFAULT)
    name: str = ""
    model_type: str = ""
    source_run_id: str = ""
    params: tuple[Pair, ...] = ()
    tags: tuple[Pair, ...] = ()


class ById(Message, frozen=True, kw_only=True):
    """``GetLoggedModel``, ``DeleteLoggedModel``."""

    model_id: str
    allow_deleted: bool = False


class Finish(Message, frozen=True, kw_only=True):
    """``FinalizeLoggedModel``."""

    model_id: str
    status: str | int


class Tags(Message, frozen=True, kw_only=True):
    """``SetLoggedModelTags``."""

    model_id: str
    tags: tuple[Pair, ...] = ()


class TagKey(Message, frozen=True, kw_only=True):
    """``DeleteLoggedModelTag``."""

    model_id: str
    tag_key: str


class Params(Message, frozen=True, kw_only=True):
    """``LogLoggedModelParamsRequest``."""

    model_id: str
    params: tuple[Pair, ...] = ()


class OrderBy(Message, frozen=True, kw_only=True):
    """What to sort by."""

    field_name: str
    ascending: bool = True


class Search(Message, frozen=True, kw_only=True):
    """``SearchLoggedModels``."""

    experiment_ids: tuple[str, ...] = ()
    filter: str = ""
    datasets: tuple[Any, ...] = ()
    max_results: int | None = None
    order_by: tuple[OrderBy, ...] = ()
    page_token: str = ""


def create(call: Call, asked: Create) -> dict[str, Any]:
    """Make a logged model, whose files come next."""
    experiment = experiments.find(call.backend, asked.experiment_id, active=True)
    id_ = f"m-{secrets.token_hex(16)}"
    name = asked.name or id_
    if len(name) > _MAX_NAME or any(character in name for character in "/:.%\"'"):
        msg = f"not a logged model's name: {name[:200]!r}"
        raise UsageError(msg, remedy=f"use up to {_MAX_NAME} characters, and no / : . % or quotes")
    now = _notes.now()
    row = {
        "id": id_,
        "experiment_id": experiment.id,
        "name": name,
        "type": asked.model_type,
        "run_id": asked.source_run_id,
        "by": call.backend.actor.who,
        "status": STATUSES[1],
        "created": now,
        "updated": now,
    }
    with call.backend.database.write() as connection:
        connection.execute(insert(models), row)
        _notes.put_params(connection, id_, params(asked.params))
        _notes.put(connection, id_, "tag", pairs(asked.tags))
        return {"model": _answers(connection, [find(connection, id_)])[0]}


def get(call: Call, asked: ById) -> dict[str, Any]:
    """Return a logged model."""
    with call.backend.database.read() as connection:
        return {"model": _answers(connection, [find(connection, asked.model_id, deleted=asked.allow_deleted)])[0]}


def finish(call: Call, asked: Finish) -> dict[str, Any]:
    """Say that all files have come, or that they will not."""
    status = STATUSES.get(asked.status, "") if isinstance(asked.status, int) else asked.status
    status = _SHORT.get(status, status)
    if status not in STATUSES.values():
        msg = f"status is {str(asked.status)[:60]!r}; expected {', '.join(STATUSES.values())}"
        raise UsageError(msg)
    with call.backend.database.write() as connection:
        find(connection, asked.model_id)
        _touch(connection, asked.model_id, status=status)
        return {"model": _answers(connection, [find(connection, asked.model_id)])[0]}


def delete(call: Call, asked: ById) -> dict[str, Any]:
    """Put a logged model away; versions that were made from it stay what they are."""
    with call.backend.database.write() as connection:
        find(connection, asked.model_id)
        _touch(connection, asked.model_id, deleted=_notes.now())
    return {}


def set_tags(call: Call, asked: Tags) -> dict[str, Any]:
    """Set tags."""
    with call.backend.database.write() as connection:
        find(connection, asked.model_id)
        _notes.put(connection, asked.model_id, "tag", pairs(asked.tags))
        _touch(connection, asked.model_id)
        return {"model": _answers(connection, [find(connection, asked.model_id)])[0]}


def delete_tag(call: Call, asked: TagKey) -> dict[str, Any]:
    """Take a tag away."""
    with call.backend.database.write() as connection:
        find(connection, asked.model_id)
        if not _notes.take(connection, asked.model_id, "tag", asked.tag_key):
            msg = f"{asked.model_id} has no tag {asked.tag_key[:100]!r}"
            raise ReferenceNotFoundError(msg)
        _touch(connection, asked.model_id)
    return {}


def log_params(call: Call, asked: Params) -> dict[str, Any]:
    """Write parameters, which never change."""
    with call.backend.database.write() as connection:
        find(connection, asked.model_id)
        _notes.put_params(connection, asked.model_id, params(asked.params))
        _touch(connection, asked.model_id)
    return {}


def search(call: Call, asked: Search) -> dict[str, Any]:
    """Return the logged models that a filter fits, the newest first unless it is said otherwise."""
    if len(asked.experiment_ids) > _MOST_EXPERIMENTS:
        msg = f"more than {_MOST_EXPERIMENTS} experiments"
        raise UsageError(msg)
    if asked.datasets:
        msg = "logged models are not searched by data set here"
        raise UsageError(msg, remedy="leave datasets out; a metric is found by its name")
    ids = [int(text) for text in asked.experiment_ids if text.isascii() and text.isdigit() and len(text) < 18]  # noqa: PLR2004 (digits of a 64-bit number)
    query = _query().where(models.c.deleted.is_(None), models.c.experiment_id.in_(ids))
    for clause in parse(asked.filter):
        if clause.kind != "attribute":
            query = query.where(_notes.where(models.c.id, clause))
        elif clause.key == "status":
            query = query.where(compare(models.c.status, _long(clause)))
        elif clause.key in _COLUMNS:
            query = query.where(compare(_COLUMNS[clause.key], clause, numeric=clause.key in _TIMES))
        else:
            msg = f"logged models cannot be searched by {clause.key[:100]!r}"
            raise UsageError(msg, remedy=f"use {', '.join(_COLUMNS)}, or tags, params, metrics")
    terms = [f"{term.field_name} {'ASC' if term.ascending else 'DESC'}" for term in asked.order_by]
    for kind, key, ascends in order(terms, _COLUMNS):
        column = _sort_key(kind, key)
        query = query.order_by(column.is_(None), column.asc() if ascends else column.desc())
    page = window(asked.max_results, asked.page_token)
    query = query.order_by(models.c.created.desc(), models.c.id).limit(page.limit + 1).offset(page.offset)
    with call.backend.database.read() as connection:
        rows = list(connection.execute(query).all())
        found = _answers(connection, rows[: page.limit])
    return {"models": found, **({"next_page_token": token} if (token := page.token(len(rows))) else {})}


def find(connection: Connection, id_: str, *, deleted: bool = False) -> Any:
    """Return a logged model.

    Raises:
        ReferenceNotFoundError: There is none.
    """
    row = connection.execute(_query().where(models.c.id == id_)).first()
    if row is None or (row.deleted is not None and not deleted):
        msg = f"no logged model has the id {id_[:60]!r}"
        raise ReferenceNotFoundError(msg)
    return row


def folder(row: Any) -> str:
    """Return the folder of a logged model's files."""
    return f"{row.root or row.experiment_id}/models/{row.id}/artifacts"


def _query() -> Any:
    there = models.join(schema.experiments, schema.experiments.c.id == models.c.experiment_id)
    return select(models, schema.experiments.c.root).select_from(there)


def _sort_key(kind: Kind, key: str) -> Any:
    return _COLUMNS[key] if kind == "attribute" else _notes.sort_key(models.c.id, kind, key)


def _long(clause: Any) -> Any:
    """Return a clause about the status, which people write shorter than the wire does."""
    if isinstance(clause.value, tuple):
        return replace(clause, value=tuple(_SHORT.get(one, one) for one in clause.value))
    return replace(clause, value=_SHORT.get(clause.value, clause.value))


def _touch(connection: Connection, id_: str, **columns: Any) -> None:
    connection.execute(update(models).where(models.c.id == id_), {**columns, "updated": _notes.now()})


def _answers(connection: Connection, rows: list[Any]) -> list[dict[str, Any]]:
    ids = [row.id for row in rows]
    notes, points = _notes.of_all(connection, ids), _notes.latest_of(connection, ids)
    return [_said(row, notes.get(row.id, {}), points.get(row.id, [])) for row in rows]


def _said(row: Any, notes: dict[str, dict[str, str]], points: list[dict[str, Any]]) -> dict[str, Any]:
    info = {
        "model_id": row.id,
        "experiment_id": str(row.experiment_id),
        "name": row.name,
        "creation_timestamp_ms": row.created,
        "last_updated_timestamp_ms": row.updated,
        "artifact_uri": f"{SCHEME}:/{folder(row)}",
        "status": row.status,
        "model_type": row.type,
        "source_run_id": row.run_id,
        "tags": said(notes.get("tag", {})),
    }
    return {"info": info, "data": {"params": said(notes.get("param", {})), "metrics": points}}


ROWS = (
    Row("POST", "/logged-models", "writer", create, Create),
    Row("POST", "/logged-models/search", "reader", search, Search),
    Row("GET", "/logged-models/{model_id}", "reader", get, ById),
    Row("PATCH", "/logged-models/{model_id}", "writer", finish, Finish),
    Row("DELETE", "/logged-models/{model_id}", "writer", delete, ById),
    Row("PATCH", "/logged-models/{model_id}/tags", "writer", set_tags, Tags),
    Row("DELETE", "/logged-models/{model_id}/tags/{tag_key}", "writer", delete_tag, TagKey),
    Row("POST", "/logged-models/{model_id}/params", "writer", log_params, Params),
)
