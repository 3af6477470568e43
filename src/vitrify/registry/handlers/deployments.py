"""Deployments: where a version runs, asked of the policy and kept in the lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import insert, select, update

from vitrify.core.errors import ConflictError, ReferenceNotFoundError
from vitrify.registry.database.schema import deployments, models, versions
from vitrify.registry.edges import of_deployment
from vitrify.registry.events import canonical, moment
from vitrify.registry.handlers import find, policy
from vitrify.registry.handlers.versions import link
from vitrify.registry.values import Deployment, Deployments

if TYPE_CHECKING:
    from sqlalchemy import Row

    from vitrify.registry import requests as r
    from vitrify.registry.work import Work

MAX_LIMIT = 1000


def start(work: Work, request: r.Deploy) -> Deployment:
    """Say that a version runs somewhere from now on."""
    found = find.version(work, request.model, request.version)
    version = found.value
    if version.status == "yanked":
        msg = f"{version.model}:{version.version} was yanked: {version.reason}"
        raise ConflictError(msg, remedy="choose another version")
    grounds = policy.require(work, version, "serve", ())
    row = {
        "version_id": found.id,
        "target": request.target,
        "started": work.now,
        "by": work.actor.who,
        "facts": canonical(request.facts),
    }
    id_ = int(work.connection.execute(insert(deployments), row).inserted_primary_key[0])  # type: ignore[index] # has a key
    facts: dict[str, Any] = {"id": id_, "target": request.target, "digest": version.digest, "facts": request.facts}
    work.record("deployment.started", version.model, version.version, **facts, **grounds)
    link(work, of_deployment(version.model, version.version, facts))
    return _value(work, id_)


def end(work: Work, request: r.EndDeployment) -> Deployment:
    """Say that it does not run there any more; saying so again changes nothing."""
    before = _value(work, request.id)
    if before.ended is None:
        work.connection.execute(update(deployments).where(deployments.c.id == request.id), {"ended": work.now})
        work.record("deployment.ended", before.model, before.version, id=request.id)
    return _value(work, request.id)


def list_(work: Work, request: r.ListDeployments) -> Deployments:
    """Return where versions run, newest first."""
    query = (
        select(deployments, models.c.name, versions.c.version, versions.c.digest)
        .select_from(deployments.join(versions).join(models))
        .order_by(deployments.c.id.desc())
    )
    if request.model:
        query = query.where(models.c.name == request.model, models.c.deleted.is_(None))
    if request.target:
        query = query.where(deployments.c.target == request.target)
    if not request.ended:
        query = query.where(deployments.c.ended.is_(None))
    limit = min(max(request.limit, 1), MAX_LIMIT)
    if work.actor.sees_all:
        query = query.limit(limit)
    found: list[Deployment] = []
    for row in work.connection.execute(query):
        if work.actor.sees(row.name):
            found.append(_shown(row, row.name, row.version, row.digest))
        if len(found) == limit:
            break
    return Deployments(deployments=tuple(found))


def _value(work: Work, id_: int) -> Deployment:
    row = work.connection.execute(select(deployments).where(deployments.c.id == id_)).first()
    if row is None:
        msg = f"no deployment has the number {id_}"
        raise ReferenceNotFoundError(msg, remedy="list what runs: vitrify deployment list")
    version = find.by_id(work, row.version_id).value
    return _shown(row, version.model, version.version, version.digest)


def _shown(row: Row[Any], model: str, version: str, digest: str) -> Deployment:
    return Deployment(
        id=row.id,
        model=model,
        version=version,
        digest=digest,
        target=row.target,
        started=moment(row.started),
        ended=None if row.ended is None else moment(row.ended),
        by=row.by,
        facts=msgspec.json.decode(row.facts),
    )
