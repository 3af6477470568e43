"""MLflow's model versions: the registry's versions, each sealed when it is made, so that it never changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import or_, select

from vitrify.core.errors import ConflictError, ReferenceNotFoundError, UsageError
from vitrify.registry import requests as r
from vitrify.registry.api.mlflow import _notes, _sealing
from vitrify.registry.api.mlflow._filters import compare, order, parse
from vitrify.registry.api.mlflow._pages import window
from vitrify.registry.api.mlflow._paths import Pinned
from vitrify.registry.api.mlflow._registered import COMPUTED, MODEL_ID, RUN_LINK, SOURCE, check_tag, version_said
from vitrify.registry.api.mlflow._stages import number_of, stage_of
from vitrify.registry.api.mlflow._wire import Message, Pair, Row, pairs
from vitrify.registry.api.mlflow.registered_models import PROMPT, Search
from vitrify.registry.database.schema import labels, models, versions
from vitrify.registry.globs import ESCAPE, as_like
from vitrify.registry.handlers.versions import SEARCHED
from vitrify.registry.limits import MAX_ENTRIES
from vitrify.registry.rows import VERSION, to_version

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement

    from vitrify.registry.actor import Actor
    from vitrify.registry.api.mlflow._filters import Clause
    from vitrify.registry.api.routing import Call
    from vitrify.registry.local import LocalBackend
    from vitrify.registry.values import Stage, Version

_MOST = 10_000
"""Versions of one page: what MLflow's client asks for where nobody says a number."""
_MAX_SOURCE = 2000
_NUMERIC: dict[str, ColumnElement[Any]] = {
    "version_number": versions.c.number,
    "creation_timestamp": versions.c.created / 1000,
    "last_updated_timestamp": versions.c.updated / 1000,
}
_TEXT: dict[str, ColumnElement[Any]] = {"name": models.c.name, "run_id": versions.c.run}
_SORTABLE: dict[str, ColumnElement[Any]] = {
    "name": models.c.name,
    "version_number": versions.c.number,
    "creation_timestamp": versions.c.created,
    "last_updated_timestamp": versions.c.updated,
}
_ARCHIVING: tuple[Stage, ...] = ("staging", "production")


class Create(Message, frozen=True, kw_only=True):
    """``CreateModelVersion``."""

    name: str
    source: str
    run_id: str = ""
    tags: tuple[Pair, ...] = ()
    run_link: str = ""
    description: str = ""
    model_id: str = ""


class One(Message, frozen=True, kw_only=True):
    """``GetModelVersion``, ``DeleteModelVersion``, ``GetModelVersionDownloadUri``."""

    name: str
    version: str


class Update(One, frozen=True, kw_only=True):
    """``UpdateModelVersion``."""

    description: str = ""


class Tag(One, frozen=True, kw_only=True):
    """``SetModelVersionTag``, ``DeleteModelVersionTag``."""

    key: str
    value: str = ""


class Transition(One, frozen=True, kw_only=True):
    """``TransitionModelVersionStage``."""

    stage: str
    archive_existing_versions: bool = False


def create(call: Call, asked: Create) -> dict[str, Any]:
    """Seal what the source names, and register it as the model's next version.

    Parameters and metrics of the logged model, or else of the run, become the version's own, and are fixed with it.
    """
    backend = call.backend
    if len(asked.source) > _MAX_SOURCE:
        msg = f"a source of {len(asked.source)} characters (expected at most {_MAX_SOURCE})"
        raise UsageError(msg)
    tags = {check_tag(key): value for key, value in pairs(asked.tags).items() if key not in COMPUTED}
    backend.do(r.GetModel(model=asked.name))
    source = _sealing.find(backend, asked.source, call.headers.get("host", ""))
    kept = {SOURCE: asked.source, RUN_LINK: asked.run_link, MODEL_ID: asked.model_id or source.model_id}
    run = asked.run_id or source.run_id
    parameters, metrics = _measured(backend, (kept[MODEL_ID], run))
    version: Any = backend.do(
        r.CreateVersion(
            model=asked.name,
            digest=_sealing.seal(backend, source),
            description=asked.description,
            tags={**tags, **{key: value for key, value in kept.items() if value}},
            run=run,
            parameters=parameters,
            metrics=metrics,
        )
    )
    return {"model_version": version_said(version)}


def get(call: Call, asked: One) -> dict[str, Any]:
    """Return a version."""
    return {"model_version": version_said(_find(call.backend, asked))}


def update(call: Call, asked: Update) -> dict[str, Any]:
    """Change a description."""
    which = number_of(asked.version)
    version: Any = call.backend.do(r.UpdateVersion(model=asked.name, version=which, description=asked.description))
    return {"model_version": version_said(version)}


def transition(call: Call, asked: Transition) -> dict[str, Any]:
    """Move a version to a stage.

    Production holds one version. With ``archive_existing_versions`` the one that is there is archived; without it, it
    is not pushed out: the answer is a conflict.
    """
    stage, archive = stage_of(asked.stage), asked.archive_existing_versions
    if archive and stage not in _ARCHIVING:
        msg = f"archive_existing_versions goes with Staging and Production, not with {asked.stage[:60]!r}"
        raise UsageError(msg)
    backend, which = call.backend, number_of(asked.version)
    version = _find(backend, asked)
    if version.stage != stage:
        expected = "" if stage == "production" and not archive else None
        try:
            moved: Any = backend.do(r.Promote(model=asked.name, version=which, stage=stage, expected=expected))
        except ConflictError as error:
            model: Any = backend.do(r.GetModel(model=asked.name))
            if expected is None or model.production is None:
                raise
            msg = f"{asked.name} has {model.production} in production, and there is room for one"
            raise ConflictError(
                msg, remedy="pass archive_existing_versions=True to put this one in its place"
            ) from error
        version = moved
    if archive and stage == "staging":
        _archive_others(backend, version)
    return {"model_version": version_said(version)}


def delete(call: Call, asked: One) -> dict[str, Any]:
    """Give a version up; refused while it is in production. Its number is never given again."""
    reason = f"deleted by {call.backend.actor.who} through MLflow's API"
    call.backend.do(r.DeleteVersion(model=asked.name, version=number_of(asked.version), reason=reason))
    return {}


def download_uri(call: Call, asked: One) -> dict[str, Any]:
    """Return where the version's own files are, which never change, whatever becomes of what it was made from."""
    version = _find(call.backend, asked)
    return {"artifact_uri": Pinned(version.model, str(version.number)).uri}


def set_tag(call: Call, asked: Tag) -> dict[str, Any]:
    """Set a tag."""
    tags: dict[str, str | None] = {check_tag(asked.key): asked.value}
    call.backend.do(r.UpdateVersion(model=asked.name, version=number_of(asked.version), tags=tags))
    return {}


def delete_tag(call: Call, asked: Tag) -> dict[str, Any]:
    """Take a tag away."""
    tags: dict[str, str | None] = {check_tag(asked.key): None}
    call.backend.do(r.UpdateVersion(model=asked.name, version=number_of(asked.version), tags=tags))
    return {}


def search(call: Call, asked: Search) -> dict[str, Any]:
    """Return the versions that a filter fits, what changed last first."""
    query = select(*VERSION).select_from(versions.join(models)).where(models.c.deleted.is_(None))
    query = query.where(versions.c.status != "deleted", *_visible(call.backend.actor))
    for clause in parse(asked.filter):
        query = query.where(_condition(clause))
    for kind, key, ascends in order(asked.order_by, _SORTABLE):
        if kind != "attribute":
            msg = f"versions cannot be sorted by {key[:100]!r}"
            raise UsageError(msg, remedy=f"use {', '.join(_SORTABLE)}")
        query = query.order_by(_SORTABLE[key].asc() if ascends else _SORTABLE[key].desc())
    page = window(asked.max_results, asked.page_token, limit=_MOST)
    query = query.order_by(versions.c.updated.desc(), models.c.name, versions.c.number.desc())
    with call.backend.database.read() as connection:
        rows = connection.execute(query.limit(page.limit + 1).offset(page.offset)).all()
    found = [version_said(to_version(row)) for row in rows[: page.limit] if call.backend.actor.sees(row[0])]
    return {"model_versions": found, **({"next_page_token": token} if (token := page.token(len(rows))) else {})}


def _condition(clause: Clause) -> ColumnElement[bool]:
    if clause.kind == "tag":
        clause = _cut(clause)
        if clause.key == PROMPT and clause.operator == "!=":
            return ~_tagged(PROMPT, labels.c.text == clause.value)
        if clause.operator in {"IS NULL", "IS NOT NULL"}:
            there = _tagged(clause.key)
            return there if clause.operator == "IS NOT NULL" else ~there
        return _tagged(clause.key, compare(labels.c.text, clause))
    if clause.kind == "attribute" and clause.key in _NUMERIC:
        return compare(_NUMERIC[clause.key], clause, numeric=True)
    if clause.kind == "attribute" and clause.key in _TEXT:
        return compare(_TEXT[clause.key], clause)
    if clause.kind == "attribute" and clause.key == "source_path":
        return _tagged(SOURCE, compare(labels.c.text, _cut(clause)))
    msg = f"versions cannot be searched by {clause.key[:100]!r}"
    raise UsageError(msg, remedy=f"use {', '.join((*_TEXT, *_NUMERIC))}, source_path, or tags.<key>")


def _cut(clause: Clause) -> Clause:
    """Return a clause about as much of a text as the index of labels has."""
    match clause.value:
        case str(text):
            return replace(clause, value=text[:SEARCHED])
        case tuple(texts):
            return replace(clause, value=tuple(text[:SEARCHED] for text in texts))
        case _:
            return clause


def _tagged(key: str, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    own = (labels.c.version_id == versions.c.id) & (labels.c.kind == "tag") & (labels.c.key == key)
    return select(labels.c.key).where(own, *conditions).correlate(versions).exists()


def _visible(actor: Actor) -> tuple[ColumnElement[bool], ...]:
    if actor.sees_all:
        return ()
    return (or_(*(models.c.name.like(as_like(pattern), escape=ESCAPE) for pattern in actor.models)),)


def _find(backend: LocalBackend, asked: One) -> Version:
    version: Any = backend.do(r.GetVersion(model=asked.name, version=number_of(asked.version)))
    if version.status == "deleted":
        msg = f"{version.model}:{asked.version} was deleted: {version.reason}"
        raise ReferenceNotFoundError(msg)
    found: Version = version
    return found


def _archive_others(backend: LocalBackend, kept: Version) -> None:
    others = select(versions.c.number).select_from(versions.join(models))
    there = (models.c.name == kept.model) & models.c.deleted.is_(None) & (versions.c.stage == "staging")
    with backend.database.read() as connection:
        numbers = connection.execute(others.where(there, versions.c.number != kept.number)).scalars().all()
    for number in numbers:
        backend.do(r.Promote(model=kept.model, version=str(number), stage="archived", comment=f"for {kept.version}"))


def _measured(backend: LocalBackend, owners: tuple[str, ...]) -> tuple[dict[str, str], dict[str, float]]:
    """Return parameters and metrics of the first that has any, as many as a version takes."""
    with backend.database.read() as connection:
        for owner in filter(None, owners):
            parameters = _notes.of(connection, owner).get("param", {})
            metrics = _notes.figures(connection, owner)
            if parameters or metrics:
                return dict(list(parameters.items())[:MAX_ENTRIES]), dict(list(metrics.items())[:MAX_ENTRIES])
    return {}, {}


ROWS = (
    Row("POST", "/model-versions/create", "writer", create, Create),
    Row("GET", "/model-versions/get", "reader", get, One),
    Row("PATCH", "/model-versions/update", "writer", update, Update),
    Row("POST", "/model-versions/transition-stage", "reader", transition, Transition),
    Row("DELETE", "/model-versions/delete", "admin", delete, One),
    Row("GET", "/model-versions/search", "reader", search, Search),
    Row("GET", "/model-versions/get-download-uri", "reader", download_uri, One),
    Row("POST", "/model-versions/set-tag", "writer", set_tag, Tag),
    Row("DELETE", "/model-versions/delete-tag", "writer", delete_tag, Tag),
)
