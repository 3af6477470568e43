"""What MLflow's clients track. Later migrations change these tables; this one stays as it is."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_PATH = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the tables; an index on the registry's own that a list of MLflow's models needs."""
    _tables()
    _points()
    _index("mlflow_runs_by_time", "mlflow_runs", "experiment_id", "started")
    _index("mlflow_models_by_time", "mlflow_models", "experiment_id", "created")
    _index("mlflow_models_by_run", "mlflow_models", "run_id")
    _index("mlflow_metrics_by_key", "mlflow_metrics", "owner", "key", "id")
    _index("mlflow_files_by_digest", "mlflow_files", "digest")
    _index("versions_by_model_and_stage", "versions", "model_id", "stage", "number")


def _tables() -> None:
    _table(
        "mlflow_experiments",
        sa.Column("id", _ID, primary_key=True),
        _text("name", unique=True),
        _text("root", default=""),
        _text("stage", default="active"),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("updated", sa.BigInteger, nullable=False),
        sa.CheckConstraint("stage IN ('active', 'deleted')", name="a_known_experiment_stage"),
    )
    _table(
        "mlflow_runs",
        _key("id"),
        sa.Column("experiment_id", _ID, sa.ForeignKey("mlflow_experiments.id"), nullable=False),
        *(_text(name) for name in ("name", "by", "status")),
        sa.Column("started", sa.BigInteger, nullable=False),
        sa.Column("ended", sa.BigInteger),
        _text("stage", default="active"),
        sa.CheckConstraint("stage IN ('active', 'deleted')", name="a_known_run_stage"),
    )
    _table(
        "mlflow_models",
        _key("id"),
        sa.Column("experiment_id", _ID, sa.ForeignKey("mlflow_experiments.id"), nullable=False),
        _text("name"),
        _text("type", default=""),
        _text("run_id", default=""),
        _text("by"),
        _text("status"),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("updated", sa.BigInteger, nullable=False),
        sa.Column("deleted", sa.BigInteger),
    )
    _table(
        "mlflow_files",
        sa.Column("path", _PATH, primary_key=True),
        _text("digest"),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("updated", sa.BigInteger, nullable=False),
        _text("by"),
        sqlite_with_rowid=False,
    )


def _points() -> None:
    _table(
        "mlflow_values",
        *map(_key, ("owner", "kind", "key")),
        _text("value"),
        sa.CheckConstraint("kind IN ('param', 'tag', 'input', 'output', 'dataset')", name="a_known_value"),
        sqlite_with_rowid=False,
    )
    _table("mlflow_metrics", sa.Column("id", _ID, primary_key=True), _text("owner"), _text("key"), *_point())
    _table("mlflow_latest", _key("owner"), _key("key"), *_point(), sqlite_with_rowid=False)


def _point() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("value", sa.Double),
        sa.Column("time", sa.BigInteger, nullable=False),
        sa.Column("step", sa.BigInteger, nullable=False),
        _text("about", default="{}"),
    )


def _key(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, primary_key=True)


def _text(name: str, *, default: str | None = None, unique: bool = False) -> sa.Column[Any]:
    given = None if default is None else sa.text(f"'{default}'")
    return sa.Column(name, sa.Text, nullable=False, unique=unique, server_default=given)


def _table(name: str, *columns: sa.schema.SchemaItem, **options: bool) -> None:
    op.create_table(name, *columns, if_not_exists=True, **options)


def _index(name: str, table: str, *columns: str) -> None:
    op.create_index(name, table, list(columns), if_not_exists=True)
