"""Stages: one production version a model; moving there asks the policy, and the log keeps the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select, update

from vitrify.core.errors import ConflictError
from vitrify.registry.database.schema import productions, versions
from vitrify.registry.handlers import approvals, find, policy
from vitrify.registry.handlers.move import current, move

if TYPE_CHECKING:
    from vitrify.registry import requests as r
    from vitrify.registry.values import Version
    from vitrify.registry.work import Work


def promote(work: Work, request: r.Promote) -> Version:
    """Move a version to a stage, if role and policy allow it."""
    found = find.version(work, request.model, request.version)
    before = found.value
    work.actor.require("approver" if "production" in {request.stage, before.stage} else "writer")
    there = current(work, found.model_id)
    if request.expected is not None and request.expected != (there.value.version if there else ""):
        found_there = there.value.version if there else "nothing"
        msg = f"{before.model} has {found_there} in production, not {request.expected or 'nothing'}"
        raise ConflictError(msg, remedy="look at what is there now, then decide again")
    if before.stage == request.stage:
        return before
    given = approvals.given(work, found.id, request.stage)
    facts = policy.require(work, before, f"promote:{request.stage}", given)
    move(work, found, request.stage, comment=request.comment, approvals=given, **facts)
    approvals.close(work, found.id, request.stage)
    return find.by_id(work, found.id).value


def rollback(work: Work, request: r.Rollback) -> Version:
    """Put the last good version back into production."""
    model = find.model(work, request.model)
    there = current(work, model.id)
    bad = (productions.c.model_id == model.id) & productions.c.until.is_(None)
    good = _last_good(work, model.id, there.id if there else None)
    if good is None:
        msg = f"{request.model} has no earlier version in good standing that was in production"
        raise ConflictError(msg, remedy=f"promote one: vitrify promote {request.model}:VERSION production")
    work.connection.execute(update(productions).where(bad), {"rolled_back": 1})
    found = find.by_id(work, good)
    before = there.value.version if there else None
    facts = policy.grounds(work, found.value, None)
    move(work, found, "production", comment=request.comment, rollback=True, rolled_back=before, **facts)
    approvals.close(work, found.id, "production")
    return find.by_id(work, found.id).value


def _last_good(work: Work, model_id: int, now: int | None) -> int | None:
    """Return the version that was last in production before this one, of those that nobody rolled back since."""
    query = (
        select(productions.c.version_id, productions.c.rolled_back, versions.c.status)
        .join(versions, versions.c.id == productions.c.version_id)
        .where(productions.c.model_id == model_id)
        .order_by(productions.c.event.desc())
    )
    seen = {now}
    for row in work.connection.execute(query):
        if row.version_id not in seen and not row.rolled_back and row.status == "active":
            return int(row.version_id)
        seen.add(row.version_id)
    return None
