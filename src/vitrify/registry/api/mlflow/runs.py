"""Runs: one training each, with parameters, tags, points of metrics, and what went in and came out."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import insert, select, update

from vitrify.core.errors import ReferenceNotFoundError, UsageError
from vitrify.registry.api.mlflow import _notes, experiments
from vitrify.registry.api.mlflow._pages import window
from vitrify.registry.api.mlflow._paths import SCHEME
from vitrify.registry.api.mlflow._wire import Message, Pair, Row, pairs, said
from vitrify.registry.database import mlflow_schema as schema
from vitrify.registry.database.mlflow_schema import runs
from vitrify.registry.events import canonical

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from vitrify.registry.api.routing import Call

STATUSES = {1: "RUNNING", 2: "SCHEDULED", 3: "FINISHED", 4: "FAILED", 5: "KILLED"}
_MAX_NAME = 1000
_MAX_PARAM = 6000
_MAX_BATCH = 1000
_NAME = "mlflow.runName"


class Create(Message, frozen=True, kw_only=True):
    """``CreateRun``."""

    experiment_id: str = str(experiments.DEFAULT)
    user_id: str = ""
    run_name: str = ""
    start_time: int | None = None
    tags: tuple[Pair, ...] = ()


class Change(Message, frozen=True, kw_only=True):
    """``UpdateRun``."""

    run_id: str = ""
    run_uuid: str = ""
    status: str | int | None = None
    end_time: int | None = None
    run_name: str = ""


class ById(Message, frozen=True, kw_only=True):
    """``GetRun``, ``DeleteRun``, ``RestoreRun``."""

    run_id: str = ""
    run_uuid: str = ""


class Value(Message, frozen=True, kw_only=True):
    """``LogParam``, ``SetTag``, ``DeleteTag``."""

    run_id: str = ""
    run_uuid: str = ""
    key: str
    value: str = ""


class Point(Message, frozen=True, kw_only=True):
    """A point of a metric."""

    key: str
    value: float | str
    timestamp: int = 0
    step: int = 0
    model_id: str = ""
    dataset_name: str = ""
    dataset_digest: str = ""


class OnePoint(Point, frozen=True, kw_only=True):
    """``LogMetric``."""

    run_id: str = ""
    run_uuid: str = ""


class Batch(Message, frozen=True, kw_only=True):
    """``LogBatch``."""

    run_id: str
    metrics: tuple[Point, ...] = ()
    params: tuple[Pair, ...] = ()
    tags: tuple[Pair, ...] = ()


class LegacyModel(Message, frozen=True, kw_only=True):
    """``LogModel``: what clients before 3 say of a model that they logged."""

    run_id: str
    model_json: str = ""


class ModelLink(Message, frozen=True, kw_only=True):
    """A logged model that went into a run, or came out of it."""

    model_id: str
    step: int = 0


class Dataset(Message, frozen=True, kw_only=True):
    """A data set that a run read."""

    name: str = ""
    digest: str = ""
    source_type: str = ""
    source: str = ""
    schema: str = ""
    profile: str = ""


class DatasetInput(Message, frozen=True, kw_only=True):
    """A data set, and what it was for."""

    dataset: Dataset
    tags: tuple[Pair, ...] = ()


class Inputs(Message, frozen=True, kw_only=True):
    """``LogInputs``."""

    run_id: str
    datasets: tuple[DatasetInput, ...] = ()
    models: tuple[ModelLink, ...] = ()


class Outputs(Message, frozen=True, kw_only=True):
    """``LogOutputs``."""

    run_id: str
    models: tuple[ModelLink, ...] = ()


class History(Message, frozen=True, kw_only=True):
    """``GetMetricHistory``."""

    run_id: str = ""
    run_uuid: str = ""
    metric_key: str
    page_token: str = ""
    max_results: int | None = None


def create(call: Call, asked: Create) -> dict[str, Any]:
    """Begin a run."""
    experiment = experiments.find(call.backend, asked.experiment_id, active=True)
    tags = pairs(asked.tags)
    id_ = secrets.token_hex(16)
    name = asked.run_name or tags.get(_NAME) or f"run-{id_[:8]}"
    row = {
        "id": id_,
        "experiment_id": experiment.id,
        "name": name[:_MAX_NAME],
        "by": asked.user_id or call.backend.actor.who,
        "status": "RUNNING",
        "started": asked.start_time or _notes.now(),
        "stage": "active",
    }
    with call.backend.database.write() as connection:
        connection.execute(insert(runs), row)
        _notes.put(connection, id_, "tag", {**tags, _NAME: row["name"]})
        return {"run": answers(connection, [_one(connection, id_)])[0]}


def get(call: Call, asked: ById) -> dict[str, Any]:
    """Return a run, also one that was deleted."""
    with call.backend.database.read() as connection:
        return {"run": answers(connection, [_one(connection, asked.run_id or asked.run_uuid)])[0]}


def change(call: Call, asked: Change) -> dict[str, Any]:
    """Say how a run ended, or what it is called."""
    id_ = asked.run_id or asked.run_uuid
    changes: dict[str, Any] = {}
    if asked.status is not None:
        changes["status"] = STATUSES.get(asked.status, "") if isinstance(asked.status, int) else asked.status
        if changes["status"] not in STATUSES.values():
            msg = f"status is {str(asked.status)[:60]!r}; expected {', '.join(STATUSES.values())}"
            raise UsageError(msg)
    if asked.end_time is not None:
        changes["ended"] = asked.end_time
    if asked.run_name:
        changes["name"] = asked.run_name[:_MAX_NAME]
    with call.backend.database.write() as connection:
        _active(connection, id_)
        if changes:
            connection.execute(update(runs).where(runs.c.id == id_), changes)
        if "name" in changes:
            _notes.put(connection, id_, "tag", {_NAME: changes["name"]})
        return {"run_info": answers(connection, [_one(connection, id_)])[0]["info"]}


def delete(call: Call, asked: ById) -> dict[str, Any]:
    """Put a run away; it can be restored."""
    _stage(call, asked, "deleted")
    return {}


def restore(call: Call, asked: ById) -> dict[str, Any]:
    """Bring a run back."""
    _stage(call, asked, "active")
    return {}


def log_parameter(call: Call, asked: Value) -> dict[str, Any]:
    """Write a parameter, which never changes."""
    id_ = asked.run_id or asked.run_uuid
    with call.backend.database.write() as connection:
        _active(connection, id_)
        _notes.put_params(connection, id_, params([Pair(key=asked.key, value=asked.value)]))
    return {}


def set_tag(call: Call, asked: Value) -> dict[str, Any]:
    """Set a tag."""
    id_ = asked.run_id or asked.run_uuid
    with call.backend.database.write() as connection:
        _active(connection, id_)
        _put_tags(connection, id_, {asked.key: asked.value})
    return {}


def delete_tag(call: Call, asked: Value) -> dict[str, Any]:
    """Take a tag away."""
    id_ = asked.run_id or asked.run_uuid
    with call.backend.database.write() as connection:
        _active(connection, id_)
        if not _notes.take(connection, id_, "tag", asked.key):
            msg = f"run {id_} has no tag {asked.key[:100]!r}"
            raise ReferenceNotFoundError(msg)
    return {}


def log_metric(call: Call, asked: OnePoint) -> dict[str, Any]:
    """Write a point of a metric."""
    id_ = asked.run_id or asked.run_uuid
    with call.backend.database.write() as connection:
        _active(connection, id_)
        _notes.add_points(connection, _points(id_, asked))
    return {}


def log_batch(call: Call, asked: Batch) -> dict[str, Any]:
    """Write points, parameters and tags, all or none."""
    if len(asked.metrics) + len(asked.params) + len(asked.tags) > _MAX_BATCH:
        msg = f"a batch of more than {_MAX_BATCH} points, parameters and tags"
        raise UsageError(msg, remedy="log it in several")
    with call.backend.database.write() as connection:
        _active(connection, asked.run_id)
        _put_tags(connection, asked.run_id, pairs(asked.tags))
        _notes.put_params(connection, asked.run_id, params(asked.params))
        _notes.add_points(connection, [row for one in asked.metrics for row in _points(asked.run_id, one)])
    return {}


def log_inputs(call: Call, asked: Inputs) -> dict[str, Any]:
    """Say which data sets and models went in."""
    with call.backend.database.write() as connection:
        _active(connection, asked.run_id)
        data = {f"{one.dataset.name[:100]}:{one.dataset.digest[:100]}": _dataset(one) for one in asked.datasets}
        _notes.put(connection, asked.run_id, "dataset", data)
        _notes.put(connection, asked.run_id, "input", {link.model_id: str(link.step) for link in asked.models})
    return {}


def log_outputs(call: Call, asked: Outputs) -> dict[str, Any]:
    """Say which logged models came out."""
    with call.backend.database.write() as connection:
        _active(connection, asked.run_id)
        _notes.put(connection, asked.run_id, "output", {link.model_id: str(link.step) for link in asked.models})
    return {}


def log_model(call: Call, asked: LegacyModel) -> dict[str, Any]:
    """Take note of a model that an old client logged; its files are what counts."""
    with call.backend.database.write() as connection:
        _active(connection, asked.run_id)
        _notes.put(connection, asked.run_id, "tag", {"mlflow.log-model.history": f"[{asked.model_json}]"})
    return {}


def history(call: Call, asked: History) -> dict[str, Any]:
    """Return the points of a metric in the order in which they came; from the token's on."""
    id_ = asked.run_id or asked.run_uuid
    page = window(asked.max_results, asked.page_token, default=25_000, limit=25_000)
    point = schema.metrics.c
    query = (
        select(point.key, point.value, point.time, point.step, point.about)
        .where(point.owner == id_, point.key == asked.metric_key)
        .order_by(point.id)
    )
    with call.backend.database.read() as connection:
        _one(connection, id_)
        rows = connection.execute(query.limit(page.limit + 1).offset(page.offset)).all()
    found = [{**_notes.as_metric(*row), "run_id": id_} for row in rows[: page.limit]]
    return {"metrics": found, **({"next_page_token": token} if (token := page.token(len(rows))) else {})}


def answers(connection: Connection, rows: list[Any]) -> list[dict[str, Any]]:
    """Return runs as MLflow has them; each row has the run's columns and its experiment's root, named ``root``."""
    ids = [row.id for row in rows]
    notes, points = _notes.of_all(connection, ids), _notes.latest_of(connection, ids)
    return [_said(row, notes.get(row.id, {}), points.get(row.id, [])) for row in rows]


def folder(row: Any) -> str:
    """Return the folder of a run's artifacts."""
    return f"{row.root or row.experiment_id}/{row.id}/artifacts"


def query() -> Any:
    """Return the statement whose rows :func:`answers` takes."""
    there = runs.join(schema.experiments, schema.experiments.c.id == runs.c.experiment_id)
    return select(runs, schema.experiments.c.root).select_from(there)


def find(connection: Connection, id_: str) -> Any:
    """Return a run.

    Raises:
        ReferenceNotFoundError: There is none.
    """
    return _one(connection, id_)


def params(given: Any) -> dict[str, str]:
    """Return parameters, each once and of a bounded length.

    Raises:
        UsageError: One is too long, or comes twice with two values.
    """
    found: dict[str, str] = {}
    for pair in given:
        if len(pair.value) > _MAX_PARAM or found.get(pair.key, pair.value) != pair.value:
            said_ = f"{len(pair.value)} characters (at most {_MAX_PARAM}), or two values"
            msg = f"the parameter {pair.key[:100]!r} has {said_}"
            raise UsageError(msg)
        found[pair.key] = pair.value
    return found


def _one(connection: Connection, id_: str) -> Any:
    if (row := connection.execute(query().where(runs.c.id == id_)).first()) is None:
        msg = f"no run has the id {id_[:60]!r}"
        raise ReferenceNotFoundError(msg)
    found: Any = row
    return found


def _active(connection: Connection, id_: str) -> None:
    if _one(connection, id_).stage != "active":
        msg = f"run {id_} was deleted"
        raise UsageError(msg, remedy="restore it first")


def _stage(call: Call, asked: ById, stage: str) -> None:
    id_ = asked.run_id or asked.run_uuid
    with call.backend.database.write() as connection:
        _one(connection, id_)
        connection.execute(update(runs).where(runs.c.id == id_), {"stage": stage})


def _put_tags(connection: Connection, id_: str, tags: dict[str, str]) -> None:
    if name := tags.get(_NAME):  # the run before what is said of it, as everywhere: two never wait in a circle
        connection.execute(update(runs).where(runs.c.id == id_), {"name": name[:_MAX_NAME]})
    _notes.put(connection, id_, "tag", tags)


def _points(id_: str, asked: Point) -> list[dict[str, Any]]:
    """Return the rows of a point: the run's, and the logged model's that it says something about."""
    try:
        value = float(asked.value)
    except ValueError:
        msg = f"the metric {asked.key[:100]!r} is {str(asked.value)[:60]!r}; expected a number, NaN or Infinity"
        raise UsageError(msg) from None
    data = {"dataset_name": asked.dataset_name, "dataset_digest": asked.dataset_digest}
    about = {**data, "model_id": asked.model_id}
    rows = [_notes.point(id_, asked.key, value, when=asked.timestamp, step=asked.step, about=about)]
    if asked.model_id:
        about = {**about, "run_id": id_}
        rows.append(_notes.point(asked.model_id, asked.key, value, when=asked.timestamp, step=asked.step, about=about))
    return rows


def _dataset(one: DatasetInput) -> str:
    return canonical(msgspec.to_builtins(one))


def _said(row: Any, notes: dict[str, dict[str, str]], points: list[dict[str, Any]]) -> dict[str, Any]:
    info = {
        "run_id": row.id,
        "run_uuid": row.id,
        "run_name": row.name,
        "experiment_id": str(row.experiment_id),
        "user_id": row.by,
        "status": row.status,
        "start_time": row.started,
        "artifact_uri": f"{SCHEME}:/{folder(row)}",
        "lifecycle_stage": row.stage,
        **({} if row.ended is None else {"end_time": row.ended}),
    }
    data = {"metrics": points, "params": said(notes.get("param", {})), "tags": said(notes.get("tag", {}))}
    links = {
        kind: [{"model_id": key, **({"step": int(step)} if kind == "output" else {})} for key, step in found.items()]
        for kind in ("input", "output")
        if (found := notes.get(kind))
    }
    sets = [msgspec.json.decode(text) for text in notes.get("dataset", {}).values()]
    return {
        "info": info,
        "data": data,
        "inputs": {"dataset_inputs": sets, "model_inputs": links.get("input", [])},
        "outputs": {"model_outputs": links.get("output", [])},
    }


ROWS = (
    Row("POST", "/runs/create", "writer", create, Create),
    Row("GET", "/runs/get", "reader", get, ById),
    Row("POST", "/runs/update", "writer", change, Change),
    Row("POST", "/runs/delete", "writer", delete, ById),
    Row("POST", "/runs/restore", "writer", restore, ById),
    Row("POST", "/runs/log-parameter", "writer", log_parameter, Value),
    Row("POST", "/runs/log-metric", "writer", log_metric, OnePoint),
    Row("POST", "/runs/log-batch", "writer", log_batch, Batch),
    Row("POST", "/runs/set-tag", "writer", set_tag, Value),
    Row("POST", "/runs/delete-tag", "writer", delete_tag, Value),
    Row("POST", "/runs/log-inputs", "writer", log_inputs, Inputs),
    Row("POST", "/runs/outputs", "writer", log_outputs, Outputs),
    Row("POST", "/runs/log-model", "writer", log_model, LegacyModel),
    Row("GET", "/metrics/get-history", "reader", history, History),
)
