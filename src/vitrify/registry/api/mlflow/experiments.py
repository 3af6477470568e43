"""Experiments: the folders that runs and logged models lie in."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from sqlalchemy import Text, insert, select, update

from vitrify.core.errors import ConflictError, ReferenceNotFoundError, UsageError
from vitrify.registry.api.mlflow import _notes
from vitrify.registry.api.mlflow._filters import compare, order, parse
from vitrify.registry.api.mlflow._pages import window
from vitrify.registry.api.mlflow._paths import SCHEME, check_path
from vitrify.registry.api.mlflow._wire import Message, Pair, Row, pairs, said
from vitrify.registry.database.mlflow_schema import experiments

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from vitrify.registry.api.routing import Call
    from vitrify.registry.local import LocalBackend

DEFAULT = 0
_DEFAULT_NAME = "Default"
_MAX_NAME = 500
_MOST = 1000
_NUMERIC = {"creation_time": experiments.c.created, "last_update_time": experiments.c.updated}
_TEXT = {"name": experiments.c.name}
_SORTABLE = {**_NUMERIC, **_TEXT, "experiment_id": experiments.c.id}
_VIEWS = {"ACTIVE_ONLY": ("active",), "DELETED_ONLY": ("deleted",), "ALL": ("active", "deleted")}


class Create(Message, frozen=True, kw_only=True):
    """``CreateExperiment``."""

    name: str
    artifact_location: str = ""
    tags: tuple[Pair, ...] = ()


class ById(Message, frozen=True, kw_only=True):
    """``GetExperiment``, ``DeleteExperiment``, ``RestoreExperiment``."""

    experiment_id: str


class ByName(Message, frozen=True, kw_only=True):
    """``GetExperimentByName``."""

    experiment_name: str


class Rename(Message, frozen=True, kw_only=True):
    """``UpdateExperiment``."""

    experiment_id: str
    new_name: str = ""


class Tag(Message, frozen=True, kw_only=True):
    """``SetExperimentTag``, ``DeleteExperimentTag``."""

    experiment_id: str
    key: str
    value: str = ""


class Search(Message, frozen=True, kw_only=True):
    """``SearchExperiments``."""

    filter: str = ""
    max_results: int | None = None
    order_by: tuple[str, ...] = ()
    page_token: str = ""
    view_type: str | int = "ACTIVE_ONLY"


def create(call: Call, asked: Create) -> dict[str, Any]:
    """Make an experiment; its artifacts lie here, under the server's rules."""
    _check_name(asked.name)
    root = asked.artifact_location
    if root:
        if not root.startswith(f"{SCHEME}:/") or root.startswith(f"{SCHEME}://"):
            msg = f"artifact_location is {root[:200]!r}; this server keeps artifacts itself"
            raise UsageError(msg, remedy=f"leave it out, or name a folder here: {SCHEME}:/folder")
        root = check_path(root.removeprefix(f"{SCHEME}:/").strip("/"), writing=True)
    _ensure_default(call.backend)
    with call.backend.database.write() as connection:
        if connection.execute(select(experiments.c.id).where(experiments.c.name == asked.name)).first():
            msg = f"an experiment is called {asked.name[:200]!r}, or was and can be restored"
            raise ConflictError(msg, remedy="choose another name, or use that one")
        now = _notes.now()
        row = {"name": asked.name, "root": root, "stage": "active", "created": now, "updated": now}
        done = connection.execute(insert(experiments), row)
        id_ = int(done.inserted_primary_key[0])  # type: ignore[index] # a table with a key gives one
        _notes.put(connection, owner(id_), "tag", pairs(asked.tags))
    return {"experiment_id": str(id_)}


def get(call: Call, asked: ById) -> dict[str, Any]:
    """Return an experiment, also one that was deleted."""
    return {"experiment": _answer(call.backend, find(call.backend, asked.experiment_id))}


def get_by_name(call: Call, asked: ByName) -> dict[str, Any]:
    """Return the experiment of a name."""
    _ensure_default(call.backend)
    with call.backend.database.read() as connection:
        row = connection.execute(select(experiments).where(experiments.c.name == asked.experiment_name)).first()
    if row is None:
        msg = f"no experiment is called {asked.experiment_name[:200]!r}"
        raise ReferenceNotFoundError(msg)
    return {"experiment": _answer(call.backend, row)}


def search(call: Call, asked: Search) -> dict[str, Any]:
    """Return the experiments that a filter fits."""
    _ensure_default(call.backend)
    names = {1: "ACTIVE_ONLY", 2: "DELETED_ONLY", 3: "ALL"}
    view = names.get(asked.view_type, "") if isinstance(asked.view_type, int) else asked.view_type
    if view not in _VIEWS:
        msg = f"view_type is {str(asked.view_type)[:60]!r}; expected {', '.join(_VIEWS)}"
        raise UsageError(msg)
    query = select(experiments).where(experiments.c.stage.in_(_VIEWS[view]))
    own = "experiment:" + experiments.c.id.cast(Text)
    for clause in parse(asked.filter):
        match clause.kind, clause.key:
            case "attribute", name if name in _NUMERIC:
                query = query.where(compare(_NUMERIC[name], clause, numeric=True))
            case "attribute", name if name in _TEXT:
                query = query.where(compare(_TEXT[name], clause))
            case "tag", _:
                query = query.where(_notes.where(own, clause))
            case _:
                msg = f"experiments cannot be searched by {clause.key[:100]!r}"
                raise UsageError(msg, remedy=f"use {', '.join((*_TEXT, *_NUMERIC))} or tags")
    for _, name, ascends in order(asked.order_by, _SORTABLE):
        column = _SORTABLE.get(name, experiments.c.id)
        query = query.order_by(column.asc() if ascends else column.desc())
    page = window(asked.max_results, asked.page_token, default=_MOST)
    query = query.order_by(experiments.c.id.desc()).limit(page.limit + 1).offset(page.offset)
    with call.backend.database.read() as connection:
        rows = connection.execute(query).all()
        notes = _notes.of_all(connection, [owner(row.id) for row in rows])
    found = [_said(row, notes.get(owner(row.id), {})) for row in rows[: page.limit]]
    return {"experiments": found, **({"next_page_token": token} if (token := page.token(len(rows))) else {})}


def delete(call: Call, asked: ById) -> dict[str, Any]:
    """Put an experiment away; it can be restored."""
    _change(call, asked.experiment_id, stage="deleted")
    return {}


def restore(call: Call, asked: ById) -> dict[str, Any]:
    """Bring an experiment back."""
    _change(call, asked.experiment_id, stage="active")
    return {}


def rename(call: Call, asked: Rename) -> dict[str, Any]:
    """Give an experiment another name."""
    _check_name(asked.new_name)
    _change(call, asked.experiment_id, name=asked.new_name)
    return {}


def set_tag(call: Call, asked: Tag) -> dict[str, Any]:
    """Set a tag."""
    row = find(call.backend, asked.experiment_id)
    with call.backend.database.write() as connection:
        _notes.put(connection, owner(row.id), "tag", {asked.key: asked.value})
    return {}


def delete_tag(call: Call, asked: Tag) -> dict[str, Any]:
    """Take a tag away."""
    row = find(call.backend, asked.experiment_id)
    with call.backend.database.write() as connection:
        if not _notes.take(connection, owner(row.id), "tag", asked.key):
            msg = f"experiment {row.id} has no tag {asked.key[:100]!r}"
            raise ReferenceNotFoundError(msg)
    return {}


def find(backend: LocalBackend, text: str, *, active: bool = False) -> Any:
    """Return an experiment's row.

    Raises:
        ReferenceNotFoundError: There is none.
        UsageError: It must be active, and was deleted.
    """
    if text == str(DEFAULT):
        _ensure_default(backend)
    with backend.database.read() as connection:
        row = _row(connection, text)
    if active and row.stage != "active":
        msg = f"experiment {row.id} was deleted"
        raise UsageError(msg, remedy="restore it first, or use another")
    return row


def root_of(row: Any) -> str:
    """Return the folder of an experiment's artifacts."""
    return row.root or str(row.id)


def owner(id_: int) -> str:
    """Return what an experiment is called among notes."""
    return f"experiment:{id_}"


def _row(connection: Connection, text: str) -> Any:
    known = text.isascii() and text.isdigit() and len(text) < 18  # noqa: PLR2004 (digits of a 64-bit number)
    row = connection.execute(select(experiments).where(experiments.c.id == int(text))).first() if known else None
    if row is None:
        msg = f"no experiment has the id {text[:60]!r}"
        raise ReferenceNotFoundError(msg)
    return row


def _change(call: Call, id_: str, **columns: str) -> None:
    row = find(call.backend, id_)
    with call.backend.database.write() as connection:
        if "name" in columns:
            taken = (experiments.c.name == columns["name"]) & (experiments.c.id != row.id)
            if connection.execute(select(experiments.c.id).where(taken)).first():
                msg = f"an experiment is called {columns['name'][:200]!r}"
                raise ConflictError(msg, remedy="choose another name")
        connection.execute(update(experiments).where(experiments.c.id == row.id), {**columns, "updated": _notes.now()})


def _check_name(name: str) -> None:
    if not name.strip() or len(name) > _MAX_NAME:
        msg = f"an experiment's name of {len(name)} characters (expected 1 to {_MAX_NAME})"
        raise UsageError(msg)


def _ensure_default(backend: LocalBackend) -> None:
    """Make the experiment that MLflow's clients expect to be there, on first use."""
    default = select(experiments.c.id).where(experiments.c.id == DEFAULT)
    with backend.database.read() as connection:
        if connection.execute(default).first():
            return
    with contextlib.suppress(ConflictError), backend.database.write() as connection:
        now = _notes.now()
        row = {"id": DEFAULT, "name": _DEFAULT_NAME, "stage": "active", "created": now, "updated": now}
        connection.execute(insert(experiments), row)


def _answer(backend: LocalBackend, row: Any) -> dict[str, Any]:
    with backend.database.read() as connection:
        return _said(row, _notes.of(connection, owner(row.id)))


def _said(row: Any, notes: dict[str, dict[str, str]]) -> dict[str, Any]:
    return {
        "experiment_id": str(row.id),
        "name": row.name,
        "artifact_location": f"{SCHEME}:/{root_of(row)}",
        "lifecycle_stage": row.stage,
        "creation_time": row.created,
        "last_update_time": row.updated,
        "tags": said(notes.get("tag", {})),
    }


ROWS = (
    Row("POST", "/experiments/create", "writer", create, Create, taken=True),
    Row("GET", "/experiments/get", "reader", get, ById),
    Row("GET", "/experiments/get-by-name", "reader", get_by_name, ByName),
    Row("GET", "/experiments/search", "reader", search, Search),
    Row("POST", "/experiments/search", "reader", search, Search),
    Row("POST", "/experiments/update", "writer", rename, Rename, taken=True),
    Row("POST", "/experiments/delete", "writer", delete, ById),
    Row("POST", "/experiments/restore", "writer", restore, ById),
    Row("POST", "/experiments/set-experiment-tag", "writer", set_tag, Tag),
    Row("POST", "/experiments/delete-experiment-tag", "writer", delete_tag, Tag),
)
