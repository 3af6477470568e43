"""From a row of the database to a value. The order of the columns stands once, beside what reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec
from sqlalchemy import bindparam, select

from vitrify.registry.database.schema import models, versions
from vitrify.registry.events import moment
from vitrify.registry.values import Model, Variant, Version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Engine

_decode = msgspec.json.decode
_variants = msgspec.json.Decoder(tuple[Variant, ...]).decode

VERSION = (
    models.c.name,
    versions.c.version,
    versions.c.number,
    versions.c.digest,
    versions.c.index_digest,
    versions.c.variants,
    versions.c.stage,
    versions.c.status,
    versions.c.author,
    versions.c.created,
    versions.c.updated,
    versions.c.description,
    versions.c.tags,
    versions.c.metrics,
    versions.c.parameters,
    versions.c.datasets,
    versions.c.commit_id,
    versions.c.run,
    versions.c.card,
    versions.c.reason,
    versions.c.aliases,
)
"""The columns of :func:`to_version`."""

_BY_IDS = (
    select(versions.c.id, versions.c.updated, *VERSION)
    .select_from(versions.join(models))
    .where(versions.c.id.in_(bindparam("ids", expanding=True)))
)
_MOST_KNOWN = 4096
_KNOWN: WeakKeyDictionary[Engine, dict[int, tuple[tuple[int, str], Version]]] = WeakKeyDictionary()
"""Versions that were read before, by database and key, with the time of the last change and the model's name."""

_production = (
    select(versions.c.version)
    .where(versions.c.model_id == models.c.id, versions.c.stage == "production")
    .scalar_subquery()
)
MODEL = (
    models.c.name,
    models.c.description,
    models.c.owner,
    models.c.licence,
    models.c.tags,
    models.c.created,
    models.c.updated,
    models.c.live,
    _production,
)
"""The columns of :func:`to_model`."""


def to_version(row: Sequence[Any]) -> Version:
    """Return a version from the columns of ``VERSION``."""
    return Version(
        model=row[0],
        version=row[1],
        number=row[2],
        digest=row[3],
        index=row[4],
        variants=_variants(row[5]),
        stage=row[6],
        status=row[7],
        author=row[8],
        created=moment(row[9]),
        updated=moment(row[10]),
        description=row[11],
        tags=_object(row[12]),
        metrics=_object(row[13]),
        parameters=_object(row[14]),
        datasets=_object(row[15]),
        commit=row[16],
        run=row[17],
        card=row[18],
        reason=row[19],
        aliases=() if row[20] == "[]" else tuple(_decode(row[20])),
    )


def remembered(connection: Connection, rows: Sequence[Sequence[Any]]) -> tuple[Version, ...]:
    """Return the versions of rows of id, time of the last change, and model's name, in their order.

    Each change of a version gives it a later time, so what was read once need not be read again.
    """
    known = _KNOWN.setdefault(connection.engine, {})
    found = {row[0]: seen[1] for row in rows if (seen := known.get(row[0])) and seen[0] == (row[1], row[2])}
    if absent := [row[0] for row in rows if row[0] not in found]:
        if len(known) > _MOST_KNOWN:
            known.clear()
        for row in connection.execute(_BY_IDS, {"ids": absent}):
            version = to_version(row[2:])
            known[row[0]] = ((row[1], version.model), version)
            found[row[0]] = version
    return tuple(found[row[0]] for row in rows)


def to_model(row: Sequence[Any]) -> Model:
    """Return a model from the columns of ``MODEL``."""
    name, description, owner, licence, tags, created, updated, live, production = row
    return Model(
        name=name,
        description=description,
        owner=owner,
        licence=licence,
        tags=_object(tags),
        created=moment(created),
        updated=moment(updated),
        versions=live,
        production=production,
    )


def _object(text: str) -> dict[str, Any]:
    return {} if text == "{}" else _decode(text)
