"""Versions: registered, found, described, varied, withdrawn. What they pin never changes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import bindparam, delete, insert, select, text, update

from vitrify.core.attestation import PARITY
from vitrify.core.errors import ConflictError, DeniedError, ReferenceNotFoundError, UnavailableError
from vitrify.registry import requests as r
from vitrify.registry.database.prepared import Prepared
from vitrify.registry.database.schema import aliases, blobs, labels, models, versions
from vitrify.registry.edges import of_variants, of_version
from vitrify.registry.events import canonical, fingerprint
from vitrify.registry.handlers import evidence, find
from vitrify.registry.handlers.approvals import drop
from vitrify.registry.handlers.models import make, merged
from vitrify.registry.limits import check_model, check_version
from vitrify.registry.values import Done, Version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.registry.content import Pinned
    from vitrify.registry.edges import Step
    from vitrify.registry.work import Work

_MODEL = Prepared(
    select(models.c.id, models.c.counter).where(models.c.name == bindparam("name"), models.c.deleted.is_(None))
)
_COUNT = Prepared(
    update(models)
    .where(models.c.id == bindparam("id_"))
    .values(counter=bindparam("number"), live=models.c.live + 1, updated=bindparam("now"))
)
_TAKEN = (
    select(versions.c.id)
    .select_from(versions.join(models))
    .where(models.c.name == bindparam("model"), versions.c.version == bindparam("version"))
)
_LINK = Prepared(
    text(
        "INSERT INTO edges (source, target, kind, facts) VALUES (:source, :target, :kind, :facts)"
        " ON CONFLICT DO NOTHING"
    )
)
SEARCHED = 300
"""Characters of a value that a search compares: PostgreSQL refuses rows of an index above 2,704 bytes."""
LABELLED = {"tags": "tag", "metrics": "metric", "parameters": "parameter", "datasets": "dataset"}
_LABEL = Prepared(insert(labels).values({column.name: bindparam(column.name) for column in labels.c}))
_SAID = ("description", "tags", "card", "metrics", "parameters", "datasets", "commit", "run")
_ADDED = (
    *("model_id", "version", "number", "digest", "index_digest", "variants", "content", "stage", "author", "created"),
    *("updated", "description", "tags", "card", "metrics", "parameters", "datasets", "commit_id", "run"),
)
_ADD = Prepared(insert(versions).values({name: bindparam(name) for name in _ADDED}).returning(versions.c.id))


def create(work: Work, request: r.CreateVersion) -> Version:
    """Register an artifact as a version."""
    check_model(request.model)
    find.require(work, request.model)
    pinned: Pinned = work.prepared
    row = _MODEL.run(work.connection, name=request.model).fetchone()
    if row is None:
        make(work, r.CreateModel(name=request.model))
        row = _MODEL.run(work.connection, name=request.model).fetchone()
    model_id, counter = row
    number = counter + 1
    version = str(number) if request.version is None else check_version(request.version)
    if (
        request.version is not None
        and work.connection.execute(_TAKEN, {"model": request.model, "version": version}).first()
    ):
        msg = f"{request.model} has a version {version}, and a version never changes"
        raise ConflictError(msg, remedy="register it under the next version")
    _keep(work, pinned)
    for variant in pinned.variants[1:]:
        _require_proof(work, variant.digest, request.digest)
    facts = _insert(work, request, model_id, number, version)
    work.later(_COUNT, id_=model_id, number=number, now=work.now)
    work.record("version.created", request.model, version, **facts)
    link(work, of_version(request.model, version, facts))
    said = {name: getattr(request, name) for name in _SAID}
    return Version(
        model=request.model,
        version=version,
        number=number,
        digest=request.digest,
        index=pinned.index,
        variants=pinned.variants,
        stage="development",
        status="active",
        author=work.actor.who,
        created=work.when,
        updated=work.when,
        **said,
    )


def vary(work: Work, request: r.AddVariant) -> Version:
    """Add a proven variant."""
    found = find.version(work, request.model, request.version)
    pinned: Pinned = work.prepared
    before = found.value
    if [variant.digest for variant in pinned.variants[:-1]] != [variant.digest for variant in before.variants]:
        msg = f"somebody else added a variant to {before.model}:{before.version} meanwhile"
        raise ConflictError(msg, remedy="run it again")
    _keep(work, pinned)
    _require_proof(work, request.digest, before.digest)
    columns = {
        "variants": canonical(pinned.variants),
        "content": canonical(pinned.content),
        "index_digest": pinned.index,
        "updated": work.now,
    }
    work.connection.execute(update(versions).where(versions.c.id == found.id), columns)
    facts = _pins(pinned)
    work.record("version.varied", before.model, before.version, **facts)
    link(work, of_variants(facts))
    return find.version(work, request.model, before.version).value


def get(work: Work, request: r.GetVersion) -> Version:
    """Return a version."""
    return find.version(work, request.model, request.version, deleted=True).value


def change(work: Work, request: r.UpdateVersion) -> Version:
    """Change what is said about a version."""
    found = find.version(work, request.model, request.version)
    before = found.value
    changes: dict[str, Any] = {
        name: given
        for name in ("description", "card")
        if (given := getattr(request, name)) not in {None, getattr(before, name)}
    }
    if (tags := merged(before.tags, request.tags)) != before.tags:
        changes["tags"] = tags
        gone = {key for key in request.tags if key in before.tags}
        chosen = (labels.c.version_id == found.id) & (labels.c.kind == "tag") & labels.c.key.in_(gone)
        work.connection.execute(delete(labels).where(chosen))
        _label(work, found.id, "tag", {key: tags[key] for key in request.tags if key in tags})
    if changes:
        columns = {**changes, "tags": canonical(tags), "updated": work.now}
        work.connection.execute(update(versions).where(versions.c.id == found.id), columns)
        work.record("version.updated", before.model, before.version, **changes)
    return find.version(work, before.model, before.version).value


def set_status(work: Work, request: r.SetStatus) -> Version:
    """Deprecate, yank or restore a version."""
    found = find.version(work, request.model, request.version)
    before = found.value
    if request.status == "yanked" and before.stage == "production":
        msg = f"{before.model}:{before.version} is in production"
        raise ConflictError(msg, remedy=f"put another there first: vitrify rollback {before.model}")
    if (before.status, before.reason) != (request.status, request.reason):
        columns = {"status": request.status, "reason": request.reason, "updated": work.now}
        work.connection.execute(update(versions).where(versions.c.id == found.id), columns)
        facts = {"status": request.status, "reason": request.reason}
        work.record("version.status", before.model, before.version, **facts)
    return find.version(work, before.model, before.version).value


def remove(work: Work, request: r.DeleteVersion) -> Done:
    """Give a version's content up."""
    found = find.version(work, request.model, request.version)
    before = found.value
    if before.stage == "production":
        msg = f"{before.model}:{before.version} is in production"
        raise ConflictError(msg, remedy=f"put another there first: vitrify rollback {before.model}")
    drop(work, versions.c.id == found.id)
    columns = {
        "status": "deleted",
        "stage": "archived",
        "reason": request.reason,
        "aliases": "[]",
        "updated": work.now,
    }
    work.connection.execute(delete(aliases).where(aliases.c.version_id == found.id))
    work.connection.execute(update(versions).where(versions.c.id == found.id), columns)
    work.connection.execute(update(models).where(models.c.id == found.model_id).values(live=models.c.live - 1))
    work.record("version.deleted", before.model, before.version, reason=request.reason)
    return Done()


def link(work: Work, steps: Iterable[Step]) -> None:
    """Add edges to the lineage, each once."""
    for source, target, kind, facts in steps:
        work.later(_LINK, source=source, target=target, kind=kind, facts=canonical(facts))


def _keep(work: Work, pinned: Pinned) -> None:
    """Hold the content off from the garbage collector, all of it or none.

    Raises:
        ReferenceNotFoundError: Some of it was never uploaded.
        UnavailableError: Some of it is just being collected.
    """
    wanted = sorted(pinned.content)
    named = {f"digest{at}": digest for at, digest in enumerate(wanted)}
    touched = _touch(len(wanted)).run(work.connection, now=work.now, **named)
    if touched.rowcount == len(wanted):
        return
    rows = work.connection.execute(select(blobs.c.digest, blobs.c.state).where(blobs.c.digest.in_(wanted))).all()
    known = {row.digest: row.state for row in rows}
    if missing := [digest for digest in wanted if known.get(digest, "arriving") == "arriving"]:
        msg = f"the registry has no content {', '.join(missing[:5])}"
        raise ReferenceNotFoundError(msg, remedy="upload it first: vitrify register does")
    msg = "some of the content is just being collected as garbage"
    raise UnavailableError(msg, remedy="upload it again in a moment: vitrify register does")


@lru_cache(maxsize=64)
def _touch(count: int) -> Prepared:
    """Return the statement that holds so many blobs off from the collector."""
    wanted = blobs.c.digest.in_([bindparam(f"digest{at}") for at in range(count)])
    return Prepared(update(blobs).where(wanted, blobs.c.state == "live").values(touched=bindparam("now")))


def _require_proof(work: Work, variant: str, source: str) -> None:
    """Refuse a variant without a parity attestation against the source.

    Raises:
        DeniedError: There is none that says clean.
    """
    for predicate in evidence.predicates(work, variant, PARITY):
        reports = predicate.get("reports") or []
        if (
            predicate.get("source") == source
            and all(report.get("verdict") == "clean" for report in reports)
            and reports
        ):
            return
    msg = f"nothing proves that {variant} predicts as {source} does"
    raise DeniedError(msg, remedy="convert it with vitrify convert, whose parity attestation comes along")


def _insert(work: Work, request: r.CreateVersion, model_id: int, number: int, version: str) -> dict[str, Any]:
    pinned: Pinned = work.prepared
    said = {name: getattr(request, name) for name in _SAID}
    facts = {
        **said,
        "number": number,
        "digest": request.digest,
        **_pins(pinned),
    }
    columns = {
        name: canonical(value) if isinstance(value, dict) else value for name, value in said.items() if name != "commit"
    }
    added = _ADD.run(
        work.connection,
        **columns,
        model_id=model_id,
        version=version,
        number=number,
        digest=request.digest,
        index_digest=pinned.index,
        variants=canonical(facts["variants"]),
        content=canonical(pinned.content),
        stage="development",
        author=work.actor.who,
        created=work.now,
        updated=work.now,
        commit_id=request.commit,
    )
    ((id_,),) = added.fetchall()
    for name, kind in LABELLED.items():
        _label(work, id_, kind, said[name])
    return facts


def _pins(pinned: Pinned) -> dict[str, Any]:
    """Return what is pinned, for the log; of the content, which may be a long list, the hash."""
    return {
        "index": pinned.index,
        "variants": msgspec.to_builtins([variant.replace(extra={}) for variant in pinned.variants]),
        "sources": msgspec.to_builtins(pinned.sources),
        "content": fingerprint(canonical(pinned.content)),
    }


def _label(work: Work, id_: int, kind: str, values: dict[str, Any]) -> None:
    for row in label_rows(id_, kind, values):
        work.later(_LABEL, **row)


def label_rows(id_: int, kind: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows by which a search finds some entries of a version's."""
    return [
        {"version_id": id_, "kind": kind, "key": key, "text": str(value)[:SEARCHED], "number": _number(value)}
        for key, value in values.items()
    ]


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None
