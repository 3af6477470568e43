"""Searching runs by what is said of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Text, cast

from vitrify.core.errors import UsageError
from vitrify.registry.api.mlflow import _notes
from vitrify.registry.api.mlflow._filters import Kind, compare, order, parse
from vitrify.registry.api.mlflow._pages import window
from vitrify.registry.api.mlflow._wire import Message, Row
from vitrify.registry.api.mlflow.runs import answers, query
from vitrify.registry.database.mlflow_schema import runs

if TYPE_CHECKING:
    from vitrify.registry.api.mlflow._filters import Clause
    from vitrify.registry.api.routing import Call

_MOST_EXPERIMENTS = 1000
_TEXT: dict[str, Any] = {
    "run_id": runs.c.id,
    "run_name": runs.c.name,
    "status": runs.c.status,
    "user_id": runs.c.by,
    "experiment_id": cast(runs.c.experiment_id, Text),
    "lifecycle_stage": runs.c.stage,
}
_TIMES: dict[str, Any] = {"start_time": runs.c.started, "created": runs.c.started, "end_time": runs.c.ended}
_VIEWS = {
    "ACTIVE_ONLY": ("active",),
    "DELETED_ONLY": ("deleted",),
    "ALL": ("active", "deleted"),
    1: ("active",),
    2: ("deleted",),
    3: ("active", "deleted"),
}


class Search(Message, frozen=True, kw_only=True):
    """``SearchRuns``."""

    experiment_ids: tuple[str, ...] = ()
    filter: str = ""
    run_view_type: str | int = "ACTIVE_ONLY"
    max_results: int | None = None
    order_by: tuple[str, ...] = ()
    page_token: str = ""


def search(call: Call, asked: Search) -> dict[str, Any]:
    """Return the runs that a filter fits, the newest first unless it is said otherwise."""
    stages = _VIEWS.get(asked.run_view_type)
    if stages is None or len(asked.experiment_ids) > _MOST_EXPERIMENTS:
        msg = f"run_view_type {str(asked.run_view_type)[:60]!r}, or more than {_MOST_EXPERIMENTS} experiments"
        raise UsageError(msg)
    ids = [int(text) for text in asked.experiment_ids if text.isascii() and text.isdigit() and len(text) < 18]  # noqa: PLR2004 (digits of a 64-bit number)
    found = query().where(runs.c.stage.in_(stages), runs.c.experiment_id.in_(ids))
    for clause in parse(asked.filter):
        found = found.where(_condition(clause))
    for kind, key, ascends in order(asked.order_by, {**_TEXT, **_TIMES}):
        column = _sort_key(kind, key)
        found = found.order_by(column.is_(None), column.asc() if ascends else column.desc())
    page = window(asked.max_results, asked.page_token, default=1000)
    found = found.order_by(runs.c.started.desc(), runs.c.id).limit(page.limit + 1).offset(page.offset)
    with call.backend.database.read() as connection:
        rows = list(connection.execute(found).all())
        said = answers(connection, rows[: page.limit])
    return {"runs": said, **({"next_page_token": token} if (token := page.token(len(rows))) else {})}


def _condition(clause: Clause) -> Any:
    if clause.kind != "attribute":
        return _notes.where(runs.c.id, clause)
    if clause.key in _TIMES:
        return compare(_TIMES[clause.key], clause, numeric=True)
    if clause.key in _TEXT:
        return compare(_TEXT[clause.key], clause)
    msg = f"runs cannot be searched by {clause.key[:100]!r}"
    raise UsageError(msg, remedy=f"use {', '.join((*_TEXT, *_TIMES))}, or tags, params, metrics")


def _sort_key(kind: Kind, key: str) -> Any:
    if kind == "attribute":
        return {**_TEXT, **_TIMES}[key]
    return _notes.sort_key(runs.c.id, kind, key)


ROWS = (Row("POST", "/runs/search", "reader", search, Search),)
