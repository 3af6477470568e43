"""The tables. What must never be broken stands here as a constraint, not in code.

Times are microseconds since 1970 in UTC. JSON is text, written by :mod:`vitrify.core.wire`, because both databases
compare and index text alike. ``labels`` repeats what stands in a version's JSON, one row an entry, so that a search
has an index.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

REVISION = "0002"
"""The newest migration: a database that says so needs none."""

ID = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself only where the type is exactly INTEGER."""

metadata = MetaData()


def _text(name: str, default: str = "") -> Column[str]:
    return Column(name, Text, nullable=False, server_default=text(f"'{default}'"))


models = Table(
    "models",
    metadata,
    Column("id", ID, primary_key=True),
    Column("name", Text, nullable=False),
    _text("description"),
    _text("owner"),
    _text("licence"),
    _text("tags", "{}"),
    Column("created", BigInteger, nullable=False),
    Column("updated", BigInteger, nullable=False),
    Column("counter", Integer, nullable=False, server_default=text("0")),
    Column("live", Integer, nullable=False, server_default=text("0")),
    Column("deleted", BigInteger),
)
Index(
    "one_model_a_name",
    models.c.name,
    unique=True,
    sqlite_where=models.c.deleted.is_(None),
    postgresql_where=models.c.deleted.is_(None),
)

versions = Table(
    "versions",
    metadata,
    Column("id", ID, primary_key=True),
    Column("model_id", ID, ForeignKey("models.id"), nullable=False),
    Column("version", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("digest", Text, nullable=False),
    Column("index_digest", Text, nullable=False),
    Column("variants", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("stage", Text, nullable=False),
    _text("status", "active"),
    Column("author", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("updated", BigInteger, nullable=False),
    _text("description"),
    _text("tags", "{}"),
    _text("metrics", "{}"),
    _text("parameters", "{}"),
    _text("datasets", "{}"),
    _text("commit_id"),
    _text("run"),
    _text("card"),
    _text("reason"),
    _text("aliases", "[]"),
    UniqueConstraint("model_id", "version", name="one_version_a_name"),
    UniqueConstraint("model_id", "number", name="one_version_a_number"),
    CheckConstraint("stage IN ('development', 'staging', 'production', 'archived')", name="a_known_stage"),
    CheckConstraint("status IN ('active', 'deprecated', 'yanked', 'deleted')", name="a_known_status"),
    CheckConstraint(
        "stage <> 'production' OR status IN ('active', 'deprecated')", name="nothing_withdrawn_in_production"
    ),
)
Index(
    "one_production_a_model",
    versions.c.model_id,
    unique=True,
    sqlite_where=versions.c.stage == "production",
    postgresql_where=text("stage = 'production'"),
)
Index("versions_by_time", versions.c.created, versions.c.id)
Index("versions_by_model_and_time", versions.c.model_id, versions.c.created, versions.c.id)
Index("versions_by_digest", versions.c.digest)
Index("versions_by_stage", versions.c.stage, versions.c.created, versions.c.id)

labels = Table(
    "labels",
    metadata,
    Column("version_id", ID, ForeignKey("versions.id"), primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("text", Text, nullable=False),
    Column("number", Double),
    sqlite_with_rowid=False,
)
Index("labels_by_text", labels.c.kind, labels.c.key, labels.c.text)
Index("labels_by_number", labels.c.kind, labels.c.key, labels.c.number)

aliases = Table(
    "aliases",
    metadata,
    Column("model_id", ID, ForeignKey("models.id"), primary_key=True),
    Column("alias", Text, primary_key=True),
    Column("version_id", ID, ForeignKey("versions.id"), nullable=False),
    sqlite_with_rowid=False,
)
Index("aliases_by_version", aliases.c.version_id)

productions = Table(
    "productions",
    metadata,
    Column("event", BigInteger, primary_key=True, autoincrement=False),
    Column("model_id", ID, ForeignKey("models.id"), nullable=False),
    Column("version_id", ID, ForeignKey("versions.id"), nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("until", BigInteger),
    Column("rolled_back", Integer, nullable=False, server_default=text("0")),
)
Index("productions_by_time", productions.c.model_id, productions.c.since)

promotions = Table(
    "promotions",
    metadata,
    Column("id", ID, primary_key=True),
    Column("version_id", ID, ForeignKey("versions.id"), nullable=False),
    Column("stage", Text, nullable=False),
    Column("author", Text, nullable=False),
    _text("comment"),
    Column("state", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
    CheckConstraint("state IN ('open', 'done', 'rejected', 'withdrawn', 'expired')", name="a_known_state"),
)
Index("promotions_by_version", promotions.c.version_id)
Index("promotions_by_state", promotions.c.state, promotions.c.id)

decisions = Table(
    "decisions",
    metadata,
    Column("promotion_id", ID, ForeignKey("promotions.id"), primary_key=True),
    Column("who", Text, primary_key=True),
    Column("verdict", Text, nullable=False),
    _text("comment"),
    Column("time", BigInteger, nullable=False),
    CheckConstraint("verdict IN ('approve', 'reject')", name="a_known_verdict"),
)

attestations = Table(
    "attestations",
    metadata,
    Column("id", ID, primary_key=True),
    Column("subject", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("predicate_type", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("by", Text, nullable=False),
    Column("content", Text, nullable=False),
    UniqueConstraint("subject", "digest", name="a_statement_once"),
)

deployments = Table(
    "deployments",
    metadata,
    Column("id", ID, primary_key=True),
    Column("version_id", ID, ForeignKey("versions.id"), nullable=False),
    Column("target", Text, nullable=False),
    Column("started", BigInteger, nullable=False),
    Column("ended", BigInteger),
    Column("by", Text, nullable=False),
    _text("facts", "{}"),
)
Index("deployments_by_version", deployments.c.version_id)

edges = Table(
    "edges",
    metadata,
    Column("source", Text, primary_key=True),
    Column("target", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    _text("facts", "{}"),
    sqlite_with_rowid=False,
)
Index("edges_by_target", edges.c.target)

events = Table(
    "events",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("time", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("model", Text),
    Column("version", Text),
    Column("facts", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
)
Index("events_by_model", events.c.model, events.c.seq)

head = Table(
    "head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Column("time", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="one_head"),
)

blobs = Table(
    "blobs",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("touched", BigInteger, nullable=False),
    CheckConstraint("state IN ('arriving', 'live', 'dying')", name="a_known_blob_state"),
)
Index("blobs_by_time", blobs.c.touched)

uploads = Table(
    "uploads",
    metadata,
    Column("id", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("who", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
)
Index("uploads_by_owner", uploads.c.who, uploads.c.created)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("secret_hash", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("roles", Text, nullable=False),
    Column("models", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger),
    Column("revoked", BigInteger),
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", ID, primary_key=True),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False),
    Column("kinds", Text, nullable=False),
    Column("models", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("deleted", BigInteger),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", ID, primary_key=True),
    Column("webhook_id", ID, ForeignKey("webhooks.id"), nullable=False),
    Column("event", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("state", Text, nullable=False),
    Column("status", Integer),
    _text("error"),
    Column("next", BigInteger),
    CheckConstraint("state IN ('waiting', 'sent', 'failed')", name="a_known_delivery_state"),
)
Index("deliveries_by_state", deliveries.c.state, deliveries.c.next)
Index("deliveries_by_webhook", deliveries.c.webhook_id, deliveries.c.id)
