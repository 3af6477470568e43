"""Deployments: where a version runs, asked of the policy and kept in the lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import insert, select, update

from vitrify.core.errors import ConflictError, ReferenceNotFoundError
from vitrify.registry.database.schema import deployments
from vitrify.registry.edges import of_deployment
from vitrify.registry.events import canonical, moment
from vitrify.registry.handlers import find, policy
from vitrify.registry.handlers.versions import link
from vitrify.registry.values import Deployment

if TYPE_CHECKING:
    from vitrify.registry import requests as r
    from vitrify.registry.work import Work


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


def _value(work: Work, id_: int) -> Deployment:
    row = work.connection.execute(select(deployments).where(deployments.c.id == id_)).first()
    if row is None:
        msg = f"no deployment has the number {id_}"
        raise ReferenceNotFoundError(msg, remedy="see the lineage of the model: vitrify lineage")
    version = find.by_id(work, row.version_id).value
    return Deployment(
        id=row.id,
        model=version.model,
        version=version.version,
        digest=version.digest,
        target=row.target,
        started=moment(row.started),
        ended=None if row.ended is None else moment(row.ended),
        by=row.by,
        facts=msgspec.json.decode(row.facts),
    )
