"""What is said of a run, a logged model or an experiment: parameters, tags, inputs, outputs, and the points of metrics.

Reads and writes go to the database row by row, without the registry's log: a training may write a thousand a second.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import and_, bindparam, delete, exists, insert, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from vitrify.core.errors import UsageError
from vitrify.registry.api.mlflow._filters import compare
from vitrify.registry.api.mlflow._wire import number
from vitrify.registry.database.mlflow_schema import latest, metrics, values
from vitrify.registry.events import canonical

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Table

    from vitrify.registry.api.mlflow._filters import Clause

_MAX_KEY = 250

_VALUES = select(values.c.kind, values.c.key, values.c.value).where(values.c.owner == bindparam("owner"))
_VALUE_KEYS = ("owner", "kind", "key")
_OF_ALL = select(values.c.owner, values.c.kind, values.c.key, values.c.value).where(
    values.c.owner.in_(bindparam("owners", expanding=True))
)
_LATEST = (
    select(latest.c.owner, latest.c.key, latest.c.value, latest.c.time, latest.c.step, latest.c.about)
    .where(latest.c.owner.in_(bindparam("owners", expanding=True)))
    .order_by(latest.c.owner, latest.c.key)
)


def now() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def insert_or(connection: Connection, table: Table) -> Any:
    """Return the insert of the database's own dialect, which can say what a conflict means."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def put(connection: Connection, owner: str, kind: str, given: dict[str, str]) -> None:
    """Write values; those that are there are replaced."""
    rows = _rows(owner, kind, given)
    if rows:
        statement = insert_or(connection, values)
        changed = {"value": statement.excluded.value}
        connection.execute(statement.on_conflict_do_update(index_elements=_VALUE_KEYS, set_=changed), rows)


def put_params(connection: Connection, owner: str, given: dict[str, str]) -> None:
    """Write parameters, which never change: the same again is fine.

    Raises:
        UsageError: One has another value already; nothing was written.
    """
    rows = _rows(owner, "param", given)
    if not rows:
        return
    connection.execute(insert_or(connection, values).on_conflict_do_nothing(index_elements=_VALUE_KEYS), rows)
    mine = (values.c.owner == owner) & (values.c.kind == "param") & values.c.key.in_(list(given))
    for key, value in connection.execute(select(values.c.key, values.c.value).where(mine)):
        if value != given[key]:
            msg = f"the parameter {key[:100]!r} is {value[:100]!r} already, and a parameter never changes"
            raise UsageError(msg, remedy=f"log {given[key][:100]!r} under another name, or in another run")


def take(connection: Connection, owner: str, kind: str, key: str) -> bool:
    """Delete a value; return whether it was there."""
    mine = (values.c.owner == owner) & (values.c.kind == kind) & (values.c.key == key)
    return bool(connection.execute(delete(values).where(mine)).rowcount)


def of(connection: Connection, owner: str) -> dict[str, dict[str, str]]:
    """Return everything that is said of one thing, by kind and key."""
    return of_all(connection, [owner]).get(owner, {})


def of_all(connection: Connection, owners: list[str]) -> dict[str, dict[str, dict[str, str]]]:
    """Return everything that is said of several things, by owner, kind and key."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    if owners:
        for owner, kind, key, value in connection.execute(_OF_ALL, {"owners": owners}):
            found.setdefault(owner, {}).setdefault(kind, {})[key] = value
    return found


def add_points(connection: Connection, points: list[dict[str, Any]]) -> None:
    """Write points of metrics, each with ``owner``, ``key``, ``value``, ``time``, ``step`` and ``about``.

    The latest of each is the one of the highest step, and of those the newest, and of those the largest.
    """
    if not points:
        return
    connection.execute(insert(metrics), points)
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for point in points:
        place = (point["owner"], check_key(point["key"]))
        if place not in best or _rank(point) >= _rank(best[place]):
            best[place] = point
    statement = insert_or(connection, latest)
    new = statement.excluded
    later = or_(
        new.step > latest.c.step,
        and_(new.step == latest.c.step, new.time > latest.c.time),
        and_(new.step == latest.c.step, new.time == latest.c.time, new.value > latest.c.value),
    )
    changed = {name: new[name] for name in ("value", "time", "step", "about")}
    rows = [best[place] for place in sorted(best)]  # see _rows
    connection.execute(
        statement.on_conflict_do_update(index_elements=("owner", "key"), set_=changed, where=later), rows
    )


def latest_of(connection: Connection, owners: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the latest point of every metric, by owner."""
    found: dict[str, list[dict[str, Any]]] = {}
    if owners:
        for owner, key, value, when, step, about in connection.execute(_LATEST, {"owners": owners}):
            found.setdefault(owner, []).append(as_metric(key, value, when, step, about))
    return found


def figures(connection: Connection, owner: str) -> dict[str, float]:
    """Return the latest finite value of every metric."""
    query = select(latest.c.key, latest.c.value).where(latest.c.owner == owner).order_by(latest.c.key)
    rows = connection.execute(query).all()
    return {key: value for key, value in rows if value is not None and abs(value) < float("inf")}


def as_metric(key: str, value: float | None, when: int, step: int, about: str) -> dict[str, Any]:
    """Return a point as MLflow's ``Metric``."""
    return {"key": key, "value": number(value), "timestamp": when, "step": step, **msgspec.json.decode(about)}


def point(owner: str, key: str, value: float, *, when: int, step: int, about: dict[str, str]) -> dict[str, Any]:
    """Return a row of :func:`add_points`."""
    kept = None if math.isnan(value) else value  # NaN is no value of SQLite's
    said = {name: text for name, text in about.items() if text}
    return {"owner": owner, "key": check_key(key), "value": kept, "time": when, "step": step, "about": canonical(said)}


def where(owner: ColumnElement[str], clause: Clause) -> ColumnElement[bool]:
    """Return a clause about a tag, a parameter or a metric of an owner as SQL."""
    if clause.kind == "metric":
        own = (latest.c.owner == owner) & (latest.c.key == clause.key)
        return exists().where(own, compare(latest.c.value, clause, numeric=True)).correlate_except(latest)
    own = (values.c.owner == owner) & (values.c.kind == clause.kind) & (values.c.key == clause.key)
    if clause.operator in {"IS NULL", "IS NOT NULL"}:
        there = exists().where(own).correlate_except(values)
        return there if clause.operator == "IS NOT NULL" else ~there
    return exists().where(own, compare(values.c.value, clause)).correlate_except(values)


def sort_key(owner: ColumnElement[str], kind: str, key: str) -> ColumnElement[Any]:
    """Return a tag, a parameter or a metric of an owner as something to sort by."""
    if kind == "metric":
        own = (latest.c.owner == owner) & (latest.c.key == key)
        return select(latest.c.value).where(own).correlate_except(latest).scalar_subquery()
    own = (values.c.owner == owner) & (values.c.kind == kind) & (values.c.key == key)
    return select(values.c.value).where(own).correlate_except(values).scalar_subquery()


def check_key(key: str) -> str:
    """Accept the name of a value.

    Raises:
        UsageError: It is empty or too long.
    """
    if not key or len(key) > _MAX_KEY:
        msg = f"a name of {len(key)} characters (expected 1 to {_MAX_KEY})"
        raise UsageError(msg)
    return key


def _rows(owner: str, kind: str, given: dict[str, str]) -> list[dict[str, str]]:
    """Return rows in the order of their keys, so that two who write the same never wait for each other in a circle."""
    return [
        {"owner": owner, "kind": kind, "key": check_key(key), "value": value} for key, value in sorted(given.items())
    ]


def _rank(point: dict[str, Any]) -> tuple[int, int, float]:
    return point["step"], point["time"], float("-inf") if point["value"] is None else point["value"]
