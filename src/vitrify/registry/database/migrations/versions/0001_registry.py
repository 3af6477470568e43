"""The registry's first tables. Later migrations change them; this one stays as it is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from vitrify.registry.database.guards import GUARDS

revision = "0001"
down_revision = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables, the guards, and the empty log's head."""
    _models()
    _versions()
    _names()
    _stages()
    _decisions()
    _evidence()
    _content()
    _people()
    for statement in GUARDS[op.get_bind().dialect.name]:
        op.execute(statement)
    head = sa.table("head", *(sa.column(name) for name in ("id", "seq", "hash", "time")))
    op.execute(head.insert().values(id=1, seq=0, hash="0" * 64, time=0))


def _models() -> None:
    op.create_table(
        "models",
        sa.Column("id", _ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("owner", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("licence", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("tags", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("updated", sa.BigInteger(), nullable=False),
        sa.Column("counter", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("live", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("deleted", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "one_model_a_name",
        "models",
        ["name"],
        unique=True,
        sqlite_where=sa.text("deleted IS NULL"),
        postgresql_where=sa.text("deleted IS NULL"),
    )


def _versions() -> None:
    op.create_table(
        "versions",
        sa.Column("id", _ID, nullable=False),
        sa.Column("model_id", _ID, nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("index_digest", sa.Text(), nullable=False),
        sa.Column("variants", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default=sa.text("'active'"), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("updated", sa.BigInteger(), nullable=False),
        sa.Column("description", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("tags", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("metrics", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("parameters", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("datasets", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("commit_id", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("run", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("card", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("reason", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("aliases", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.CheckConstraint(
            "stage <> 'production' OR status IN ('active', 'deprecated')", name="nothing_withdrawn_in_production"
        ),
        sa.CheckConstraint("stage IN ('development', 'staging', 'production', 'archived')", name="a_known_stage"),
        sa.CheckConstraint("status IN ('active', 'deprecated', 'yanked', 'deleted')", name="a_known_status"),
        sa.ForeignKeyConstraint(
            ["model_id"],
            ["models.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("model_id", "number", name="one_version_a_number"),
        sa.UniqueConstraint("model_id", "version", name="one_version_a_name"),
    )
    op.create_index(
        "one_production_a_model",
        "versions",
        ["model_id"],
        unique=True,
        sqlite_where=sa.text("stage = 'production'"),
        postgresql_where=sa.text("stage = 'production'"),
    )
    op.create_index("versions_by_digest", "versions", ["digest"])
    op.create_index("versions_by_stage", "versions", ["stage", "created", "id"])
    op.create_index("versions_by_time", "versions", ["created", "id"])
    op.create_index("versions_by_model_and_time", "versions", ["model_id", "created", "id"])


def _names() -> None:
    op.create_table(
        "labels",
        sa.Column("version_id", _ID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("number", sa.Double()),
        sa.ForeignKeyConstraint(
            ["version_id"],
            ["versions.id"],
        ),
        sa.PrimaryKeyConstraint("version_id", "kind", "key"),
        sqlite_with_rowid=False,
    )
    op.create_index("labels_by_number", "labels", ["kind", "key", "number"])
    op.create_index("labels_by_text", "labels", ["kind", "key", "text"])
    op.create_table(
        "aliases",
        sa.Column("model_id", _ID, nullable=False),
        sa.Column("alias", sa.Text(), nullable=False),
        sa.Column("version_id", _ID, nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"],
            ["models.id"],
        ),
        sa.ForeignKeyConstraint(
            ["version_id"],
            ["versions.id"],
        ),
        sa.PrimaryKeyConstraint("model_id", "alias"),
        sqlite_with_rowid=False,
    )
    op.create_index("aliases_by_version", "aliases", ["version_id"])


def _stages() -> None:
    op.create_table(
        "productions",
        sa.Column("event", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("model_id", _ID, nullable=False),
        sa.Column("version_id", _ID, nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger()),
        sa.Column("rolled_back", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"],
            ["models.id"],
        ),
        sa.ForeignKeyConstraint(
            ["version_id"],
            ["versions.id"],
        ),
        sa.PrimaryKeyConstraint("event"),
    )
    op.create_index("productions_by_time", "productions", ["model_id", "since"])
    op.create_table(
        "promotions",
        sa.Column("id", _ID, nullable=False),
        sa.Column("version_id", _ID, nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("comment", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("state IN ('open', 'done', 'rejected', 'withdrawn', 'expired')", name="a_known_state"),
        sa.ForeignKeyConstraint(
            ["version_id"],
            ["versions.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("promotions_by_state", "promotions", ["state", "id"])
    op.create_index("promotions_by_version", "promotions", ["version_id"])


def _decisions() -> None:
    op.create_table(
        "decisions",
        sa.Column("promotion_id", _ID, nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("comment", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("verdict IN ('approve', 'reject')", name="a_known_verdict"),
        sa.ForeignKeyConstraint(
            ["promotion_id"],
            ["promotions.id"],
        ),
        sa.PrimaryKeyConstraint("promotion_id", "who"),
    )
    op.create_table(
        "deployments",
        sa.Column("id", _ID, nullable=False),
        sa.Column("version_id", _ID, nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("started", sa.BigInteger(), nullable=False),
        sa.Column("ended", sa.BigInteger()),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.ForeignKeyConstraint(
            ["version_id"],
            ["versions.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("deployments_by_version", "deployments", ["version_id"])


def _evidence() -> None:
    op.create_table(
        "attestations",
        sa.Column("id", _ID, nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("predicate_type", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("subject", "digest", name="a_statement_once"),
    )
    op.create_table(
        "edges",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.PrimaryKeyConstraint("source", "target", "kind"),
        sqlite_with_rowid=False,
    )
    op.create_index("edges_by_target", "edges", ["target"])
    op.create_table(
        "events",
        sa.Column("seq", _ID, autoincrement=False, nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("model", sa.Text()),
        sa.Column("version", sa.Text()),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("previous", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("events_by_model", "events", ["model", "seq"])
    op.create_table(
        "head",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name="one_head"),
        sa.PrimaryKeyConstraint("id"),
    )


def _content() -> None:
    op.create_table(
        "blobs",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("touched", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("state IN ('arriving', 'live', 'dying')", name="a_known_blob_state"),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_index("blobs_by_time", "blobs", ["touched"])
    op.create_table(
        "uploads",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("uploads_by_owner", "uploads", ["who", "created"])


def _people() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("roles", sa.Text(), nullable=False),
        sa.Column("models", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger()),
        sa.Column("revoked", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "webhooks",
        sa.Column("id", _ID, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("kinds", sa.Text(), nullable=False),
        sa.Column("models", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("deleted", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", _ID, nullable=False),
        sa.Column("webhook_id", _ID, nullable=False),
        sa.Column("event", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("error", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("next", sa.BigInteger()),
        sa.CheckConstraint("state IN ('waiting', 'sent', 'failed')", name="a_known_delivery_state"),
        sa.ForeignKeyConstraint(
            ["webhook_id"],
            ["webhooks.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("deliveries_by_state", "deliveries", ["state", "next"])
    op.create_index("deliveries_by_webhook", "deliveries", ["webhook_id", "id"])
