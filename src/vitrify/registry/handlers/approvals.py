"""Promotion through approvals: asked for, decided by others, carried out when the policy has all that it asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select, update

from vitrify.core.errors import ConflictError, DeniedError, ReferenceNotFoundError, UsageError
from vitrify.registry.database.schema import decisions, models, promotions, versions
from vitrify.registry.events import moment
from vitrify.registry.handlers import find, policy
from vitrify.registry.handlers.move import move
from vitrify.registry.values import Decision, Promotion, Promotions

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Row

    from vitrify.registry import requests as r
    from vitrify.registry.values import Stage
    from vitrify.registry.work import Work

_DAY = 86_400_000_000
_MAX_DAYS = 365
MAX_LIMIT = 1000


def request(work: Work, asked: r.RequestPromotion) -> Promotion:
    """Ask for a promotion."""
    found = find.version(work, asked.model, asked.version)
    version = found.value
    if not 0 < asked.days <= _MAX_DAYS:
        msg = f"a request stays open for up to {_MAX_DAYS} days, not {asked.days}"
        raise UsageError(msg)
    if version.stage == asked.stage or version.status != "active":
        msg = f"{version.model}:{version.version} is {version.status}, and in {version.stage}"
        raise ConflictError(msg, remedy="ask for another version, or another stage")
    if (known := _open(work, found.id, asked.stage)) is not None:
        msg = f"request {known} asks for that already"
        raise ConflictError(msg, remedy=f"decide on it: vitrify promotion approve {known}")
    row = {
        "version_id": found.id,
        "stage": asked.stage,
        "author": work.actor.who,
        "comment": asked.comment,
        "state": "open",
        "created": work.now,
        "expires": work.now + int(asked.days * _DAY),
    }
    id_ = int(work.connection.execute(insert(promotions), row).inserted_primary_key[0])  # type: ignore[index] # has a key
    facts = {"id": id_, "stage": asked.stage, "comment": asked.comment, "expires": row["expires"]}
    work.record("promotion.requested", version.model, version.version, **facts)
    return _value(work, _row(work, id_))


def decide(work: Work, asked: r.Decide) -> Promotion:
    """Approve or reject; carry it out where nothing is missing any more."""
    row = _row(work, asked.id)
    found = find.by_id(work, row.version_id)
    version = found.value
    _require_open(work, row)
    if work.actor.who in {row.author, version.author}:
        msg = f"{work.actor.who} asked for this promotion or made the version, so somebody else has to decide"
        raise DeniedError(msg, remedy="ask another approver")
    _say(work, asked)
    facts: dict[str, Any] = {"id": asked.id, "verdict": asked.verdict, "comment": asked.comment}
    work.record("promotion.decided", version.model, version.version, **facts)
    if asked.verdict == "reject":
        _end(work, row, "rejected")
    else:
        given = _given(work, asked.id)
        report = policy.ask(work, version, f"promote:{row.stage}", given)
        if report is None or report.passed:
            move(work, found, row.stage, comment=row.comment, approvals=given, **policy.grounds(work, version, report))
            _end(work, row, "done")
    return _value(work, _row(work, asked.id))


def withdraw(work: Work, asked: r.Withdraw) -> Promotion:
    """Take a request back."""
    row = _row(work, asked.id)
    _require_open(work, row)
    if row.author != work.actor.who:
        work.actor.require("admin")
    _end(work, row, "withdrawn")
    return _value(work, _row(work, asked.id))


def get(work: Work, asked: r.GetPromotion) -> Promotion:
    """Return one request, and what is missing."""
    return _value(work, _row(work, asked.id))


def list_(work: Work, asked: r.ListPromotions) -> Promotions:
    """Return requests, newest first."""
    query = (
        select(promotions)
        .join(versions, versions.c.id == promotions.c.version_id)
        .join(models, models.c.id == versions.c.model_id)
        .order_by(promotions.c.id.desc())
    )
    if asked.model:
        query = query.where(models.c.name == asked.model)
    found: list[Promotion] = []
    for row in work.connection.execute(query.add_columns(models.c.name)):
        if len(found) == min(max(asked.limit, 1), MAX_LIMIT):
            break
        if work.actor.sees(row.name) and asked.state in {"", _state(work, row)}:
            found.append(_value(work, row))
    return Promotions(promotions=tuple(found))


def given(work: Work, version_id: int, stage: Stage) -> tuple[Decision, ...]:
    """Return the approvals of the open request for a version and a stage."""
    id_ = _open(work, version_id, stage)
    return () if id_ is None else _given(work, id_)


def close(work: Work, version_id: int, stage: Stage) -> None:
    """Note that what was asked for has been carried out."""
    if (id_ := _open(work, version_id, stage)) is not None:
        _end(work, _row(work, id_), "done")


def drop(work: Work, chosen: ColumnElement[bool]) -> None:
    """Take back what is asked for versions that are given up."""
    query = (
        select(promotions)
        .join(versions, versions.c.id == promotions.c.version_id)
        .where(chosen, promotions.c.state == "open", promotions.c.expires > work.now)
        .order_by(promotions.c.id)
    )
    for row in work.connection.execute(query).all():
        _end(work, row, "withdrawn")


def _open(work: Work, version_id: int, stage: Stage) -> int | None:
    query = select(promotions.c.id).where(
        promotions.c.version_id == version_id,
        promotions.c.stage == stage,
        promotions.c.state == "open",
        promotions.c.expires > work.now,
    )
    return work.connection.execute(query).scalar()


def _given(work: Work, id_: int) -> tuple[Decision, ...]:
    return tuple(decision for decision in _decisions(work, id_) if decision.verdict == "approve")


def _decisions(work: Work, id_: int) -> tuple[Decision, ...]:
    query = select(decisions).where(decisions.c.promotion_id == id_).order_by(decisions.c.time)
    return tuple(
        Decision(who=row.who, verdict=row.verdict, comment=row.comment, when=moment(row.time))
        for row in work.connection.execute(query)
    )


def _say(work: Work, asked: r.Decide) -> None:
    said = {"verdict": asked.verdict, "comment": asked.comment, "time": work.now}
    own = (decisions.c.promotion_id == asked.id) & (decisions.c.who == work.actor.who)
    if not work.connection.execute(update(decisions).where(own), said).rowcount:
        work.connection.execute(insert(decisions), {"promotion_id": asked.id, "who": work.actor.who, **said})


def _end(work: Work, row: Row[Any], state: str) -> None:
    work.connection.execute(update(promotions).where(promotions.c.id == row.id), {"state": state})
    version = find.by_id(work, row.version_id).value
    work.record("promotion.closed", version.model, version.version, id=row.id, state=state)


def _row(work: Work, id_: int) -> Row[Any]:
    if (row := work.connection.execute(select(promotions).where(promotions.c.id == id_)).first()) is None:
        msg = f"no request has the number {id_}"
        raise ReferenceNotFoundError(msg, remedy="list them: vitrify promotion list")
    return row


def _require_open(work: Work, row: Row[Any]) -> None:
    if (state := _state(work, row)) != "open":
        msg = f"request {row.id} is {state}"
        raise ConflictError(msg, remedy="make a new request: vitrify promote --request")


def _state(work: Work, row: Row[Any]) -> Any:
    return "expired" if row.state == "open" and row.expires <= work.now else row.state


def _value(work: Work, row: Row[Any]) -> Promotion:
    version = find.by_id(work, row.version_id).value
    state = _state(work, row)
    missing: tuple[str, ...] = ()
    if state == "open":
        report = policy.ask(work, version, f"promote:{row.stage}", _given(work, row.id))
        missing = tuple(map(str, report.findings)) if report else ()
    return Promotion(
        id=row.id,
        model=version.model,
        version=version.version,
        stage=row.stage,
        author=row.author,
        comment=row.comment,
        state=state,
        created=moment(row.created),
        expires=moment(row.expires),
        decisions=_decisions(work, row.id),
        missing=missing,
    )
