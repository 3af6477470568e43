"""Our models and versions in MLflow's words.

What MLflow says of a version and we have no field for is kept in tags under ``vitrify.mlflow.``, which MLflow's clients
neither see nor write.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, select, tuple_

from vitrify.core.errors import UsageError
from vitrify.registry.api.mlflow._paths import Pinned
from vitrify.registry.api.mlflow._stages import TO_MLFLOW
from vitrify.registry.api.mlflow._wire import said
from vitrify.registry.database.schema import aliases, models, versions
from vitrify.registry.events import microseconds
from vitrify.registry.rows import VERSION, to_version
from vitrify.registry.values import STAGES

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection

    from vitrify.registry.values import Model, Stage, Version

RESERVED = "vitrify.mlflow."
SOURCE, RUN_LINK, MODEL_ID = (f"{RESERVED}{name}" for name in ("source", "run_link", "model_id"))
DIGEST, NAMED = "vitrify.digest", "vitrify.version"
COMPUTED = frozenset({DIGEST, NAMED})
"""Tags that are made up for each answer. A client that copies a version sends them back; they say nothing there."""
_RUN = re.compile(r"[0-9a-f]{32}", re.ASCII)
_GOOD = ("active", "deprecated")


def _newest(stage: Stage) -> Any:
    own = (versions.c.model_id == models.c.id) & (versions.c.stage == stage) & versions.c.status.in_(_GOOD)
    # Not max(): a database that has the index takes one step back from its end, and one over a condition reads it all.
    newest = select(versions.c.number).where(own).order_by(versions.c.number.desc()).limit(1)
    return newest.correlate(models).scalar_subquery()


_NEWEST = select(models.c.id, *(_newest(stage) for stage in STAGES)).where(
    models.c.id.in_(bindparam("ids", expanding=True))
)
_ALIASES = (
    select(aliases.c.model_id, aliases.c.alias, versions.c.number)
    .join(versions, versions.c.id == aliases.c.version_id)
    .where(aliases.c.model_id.in_(bindparam("ids", expanding=True)))
    .order_by(aliases.c.model_id, aliases.c.alias)
)


def check_tag(key: str) -> str:
    """Accept the key of a tag that MLflow's clients may write.

    Raises:
        UsageError: It is kept for what the server says.
    """
    if not key or key.startswith(RESERVED) or key in COMPUTED:
        msg = f"the tag {key[:100]!r} is the server's own"
        raise UsageError(msg, remedy="choose another key")
    return key


def latest(connection: Connection, ids: list[int]) -> dict[int, list[Version]]:
    """Return the newest version of each stage that is not yanked, by the key of the model."""
    rows = connection.execute(_NEWEST, {"ids": ids}).all()
    wanted = [(row[0], number) for row in rows for number in row[1:] if number is not None]
    found: dict[int, list[Version]] = {}
    if wanted:
        query = (
            select(versions.c.model_id, *VERSION)
            .select_from(versions.join(models))
            .where(tuple_(versions.c.model_id, versions.c.number).in_(wanted))
            .order_by(versions.c.model_id, versions.c.number)
        )
        for row in connection.execute(query):
            found.setdefault(row[0], []).append(to_version(row[1:]))
    return found


def aliases_of(connection: Connection, ids: list[int]) -> dict[int, list[dict[str, str]]]:
    """Return the aliases of models, by the key of the model."""
    found: dict[int, list[dict[str, str]]] = {}
    for id_, alias, number in connection.execute(_ALIASES, {"ids": ids}):
        found.setdefault(id_, []).append({"alias": alias, "version": str(number)})
    return found


def model_said(model: Model, newest: list[Version], known: list[dict[str, str]]) -> dict[str, Any]:
    """Return a model as MLflow's ``RegisteredModel``."""
    return {
        "name": model.name,
        "creation_timestamp": milliseconds(model.created),
        "last_updated_timestamp": milliseconds(model.updated),
        "user_id": model.owner,
        "description": model.description,
        "latest_versions": [version_said(version) for version in newest],
        "tags": said(model.tags),
        "aliases": known,
    }


def version_said(version: Version) -> dict[str, Any]:
    """Return a version as MLflow's ``ModelVersion``."""
    number = str(version.number)
    named = {} if version.version == number else {NAMED: version.version}
    tags = {key: value for key, value in version.tags.items() if not key.startswith(RESERVED)}
    message = "" if version.status == "active" else f"{version.status}: {version.reason}"
    return {
        "name": version.model,
        "version": number,
        "creation_timestamp": milliseconds(version.created),
        "last_updated_timestamp": milliseconds(version.updated),
        "user_id": version.author,
        "current_stage": TO_MLFLOW[version.stage],
        "description": version.description,
        "source": version.tags.get(SOURCE) or Pinned(version.model, number).uri,
        "run_id": version.run if _RUN.fullmatch(version.run) else "",
        "run_link": version.tags.get(RUN_LINK, ""),
        "status": "READY",
        "status_message": message,
        "tags": said({**tags, **named, DIGEST: version.digest}),
        "aliases": list(version.aliases),
        "model_id": version.tags.get(MODEL_ID, ""),
    }


def milliseconds(time: datetime) -> int:
    """Return a time as MLflow has it."""
    return microseconds(time) // 1000
