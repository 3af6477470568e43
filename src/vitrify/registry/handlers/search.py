"""Search: a query's tree becomes one SQL statement, whose values are bound and never part of its text."""

from __future__ import annotations

import base64
import binascii
import operator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import and_, false, func, literal, not_, or_, select

from vitrify.core.errors import UsageError
from vitrify.registry.database.schema import aliases, labels, models, versions
from vitrify.registry.events import microseconds
from vitrify.registry.globs import ESCAPE, as_like
from vitrify.registry.query import KEYED, Anywhere, Comparison, Field, Not, Several, parse
from vitrify.registry.rows import remembered
from vitrify.registry.values import Page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import ColumnElement, Select

    from vitrify.registry import requests as r
    from vitrify.registry.query import Scalar, Term
    from vitrify.registry.work import Work

    Order = list[tuple[ColumnElement[Any], bool]]

MAX_LIMIT = 1000
_OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_LEAST, _MOST = -1.7e308, 1.7e308
"""What a missing number counts as, so that it comes last in either order."""
_COLUMNS: dict[str, ColumnElement[Any]] = {
    "name": models.c.name,
    "owner": models.c.owner,
    "licence": models.c.licence,
    "commit": versions.c.commit_id,
    **{
        name: versions.c[name]
        for name in (
            "version",
            "number",
            "stage",
            "status",
            "author",
            "description",
            "digest",
            "run",
            "created",
            "updated",
        )
    },
}
_KEY = select(models.c.id).where(models.c.deleted.is_(None))
_NEWEST = ((Field("created"), True),)


def search(work: Work, request: r.Search) -> Page:
    """Return the versions that a query fits, in its order, newest first where it says none."""
    limit = min(max(request.limit, 1), MAX_LIMIT)
    statement, order = _statement(request.query, work.actor.models, limit)
    if request.after:
        statement = statement.where(_beyond(order, _position(request.after, len(order))))
    rows = work.connection.execute(statement).all()
    found = remembered(work.connection, rows[:limit])
    if len(rows) <= limit:
        return Page(versions=found)
    return Page(versions=found, next=_place(rows[limit - 1][3:]))


@lru_cache(maxsize=256)
def _statement(text: str, seen: tuple[str, ...], limit: int) -> tuple[Select[Any], Order]:
    """Return the statement of a query, and the keys that its rows are in the order of, with whether they descend."""
    query = parse(text)
    order = [(_ordered(field, descending), descending) for field, descending in query.order or _NEWEST]
    order.append((versions.c.id, True))
    statement: Select[Any] = (
        select(versions.c.id, versions.c.updated, models.c.name, *(key for key, _ in order))
        .select_from(versions.join(models))
        .where(models.c.deleted.is_(None))
        .order_by(*(key.desc() if descending else key for key, descending in order))
        .limit(limit + 1)
    )
    if query.where is not None:
        # The model's key as one value: only then PostgreSQL reads its versions in the order of an index.
        keys = [_KEY.where(models.c.name == name).scalar_subquery() for name in _names(query.where)]
        statement = statement.where(_condition(query.where), *(versions.c.model_id == key for key in keys))
    if not query.mentions("status"):
        statement = statement.where(versions.c.status != "deleted")
    if "*" not in seen:
        patterns = [models.c.name.like(as_like(glob), escape=ESCAPE) for glob in seen]
        statement = statement.where(or_(false(), *patterns))
    return statement, order


def _names(term: Term) -> Iterator[Scalar]:
    """Yield the names that a model must have for anything of it to be found."""
    match term:
        case Several(operator="and"):
            for one in term.terms:
                yield from _names(one)
        case Comparison(field=Field(name="name"), operator="="):
            yield term.values[0]


def _condition(term: Term) -> ColumnElement[bool]:
    match term:
        case Several():
            return (and_ if term.operator == "and" else or_)(*map(_condition, term.terms))
        case Not():
            return not_(_condition(term.term))
        case Anywhere():
            pattern = f"%{as_like(term.word)}%"
            return models.c.name.like(pattern, escape=ESCAPE) | versions.c.description.like(pattern, escape=ESCAPE)
        case _:
            return _compared(term)


def _compared(term: Comparison) -> ColumnElement[bool]:
    match term.field:
        case Field(name="alias"):
            return versions.c.id.in_(select(aliases.c.version_id).where(_compare(aliases.c.alias, term)))
        case Field(name="format"):
            return _has_format(term)
        case Field(key=None):
            return _compare(_COLUMNS[term.field.name], term)
        case _:
            column: ColumnElement[Any] = labels.c.number if isinstance(term.values[0], float) else labels.c.text
            entry = (labels.c.kind == KEYED[term.field.name]) & (labels.c.key == term.field.key)
            return versions.c.id.in_(select(labels.c.version_id).where(entry, _compare(column, term)))


def _has_format(term: Comparison) -> ColumnElement[bool]:
    def holds(glob: str) -> ColumnElement[bool]:
        return versions.c.variants.like(f'%"format":"{glob}"%', escape=ESCAPE)

    if term.operator in {"=", "in"}:
        return or_(*(holds(_literal(str(value))) for value in term.values))
    if term.operator == "~":
        return holds(as_like(str(term.values[0])))
    msg = f"format has no {term.operator!r}: a version has several"
    raise UsageError(msg, remedy="write: not format = onnx")


def _literal(text: str) -> str:
    return as_like(text.replace("*", "\0").replace("?", "\1")).replace("\0", "*").replace("\1", "?")


def _compare(column: ColumnElement[Any], term: Comparison) -> ColumnElement[bool]:
    values = [_bound(value) for value in term.values]
    if term.operator == "in":
        return column.in_(values)
    if term.operator in {"~", "!~"}:
        like = column.like(as_like(str(values[0])), escape=ESCAPE)
        return like if term.operator == "~" else not_(like)
    compared: ColumnElement[bool] = _OPERATORS[term.operator](column, values[0])
    return compared


def _bound(value: Scalar) -> str | float | int:
    return value if isinstance(value, str | float) else microseconds(value)


def _ordered(field: Field, descending: bool) -> ColumnElement[Any]:  # noqa: FBT001 (as the language has it)
    if field.key is None:
        return _COLUMNS[field.name]
    numeric = field.name == "metrics"
    column: ColumnElement[Any] = labels.c.number if numeric else labels.c.text
    entry = (
        select(column)
        .where(labels.c.version_id == versions.c.id, labels.c.kind == KEYED[field.name], labels.c.key == field.key)
        .scalar_subquery()
    )
    missing: Any = (_LEAST if descending else _MOST) if numeric else ""
    return func.coalesce(entry, missing)


def _beyond(order: Order, position: list[Any]) -> ColumnElement[bool]:
    """Return the condition for what comes after a row, in an order of several keys."""
    condition: ColumnElement[bool] = false()
    for (key, descending), value in reversed(list(zip(order, position, strict=True))):
        further = key < literal(value) if descending else key > literal(value)
        condition = or_(further, and_(key == literal(value), condition))
    return condition


def _place(values: tuple[Any, ...]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(list(values))).decode()


def _position(after: str, count: int) -> list[Any]:
    try:
        values = msgspec.json.decode(base64.urlsafe_b64decode(after.encode()), type=list[str | int | float])
    except (binascii.Error, ValueError, msgspec.MsgspecError, RecursionError):
        values = []
    if len(values) != count:
        msg = "no page begins there"
        raise UsageError(msg, remedy="go on with what the page before returned as next, and the same query")
    return values
