"""Moving a version to a stage: what was in production makes room, and the log is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select, update

from vitrify.core.errors import ConflictError
from vitrify.registry.database.schema import productions, versions
from vitrify.registry.handlers import find

if TYPE_CHECKING:
    from vitrify.registry.handlers.find import Found
    from vitrify.registry.values import Stage
    from vitrify.registry.work import Work


def move(work: Work, found: Found, stage: Stage, **facts: Any) -> None:
    """Move a version, and whatever has to make room for it, and say so in the log; where it is already, do nothing."""
    version = found.value
    if version.status in {"yanked", "deleted"}:
        msg = f"{version.model}:{version.version} was {version.status}: {version.reason}"
        raise ConflictError(msg, remedy="restore it first, or choose another version")
    if version.stage == stage:
        return
    if stage == "production" and (there := current(work, found.model_id)) is not None:
        _leave(work, there, "archived", replaced_by=version.version)
    if version.stage == "production":
        _leave(work, found, stage, **facts)
        return
    _set(work, found.id, stage)
    said = {"from": version.stage, "to": stage, "digest": version.digest, **facts}
    event = work.record("version.staged", version.model, version.version, **said)
    if stage == "production":
        row = {"event": event, "model_id": found.model_id, "version_id": found.id, "since": work.now}
        work.connection.execute(insert(productions), row)


def _leave(work: Work, found: Found, stage: Stage, **facts: Any) -> None:
    version = found.value
    _set(work, found.id, stage)
    there = (productions.c.model_id == found.model_id) & productions.c.until.is_(None)
    work.connection.execute(update(productions).where(there), {"until": work.now})
    said = {"from": "production", "to": stage, "digest": version.digest, **facts}
    work.record("version.staged", version.model, version.version, **said)


def _set(work: Work, id_: int, stage: Stage) -> None:
    work.connection.execute(update(versions).where(versions.c.id == id_), {"stage": stage, "updated": work.now})


def current(work: Work, model_id: int) -> Found | None:
    """Return the version that is in production, if one is."""
    query = select(versions.c.id).where(versions.c.model_id == model_id, versions.c.stage == "production")
    id_ = work.connection.execute(query).scalar()
    return None if id_ is None else find.by_id(work, id_)
