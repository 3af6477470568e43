"""The tables of what MLflow's clients track: experiments, runs, logged models and the files of both.

A registered model or version of MLflow's is one of ours (:mod:`vitrify.registry.database.schema`). What stands here is
a notebook beside the record: it changes freely, and nothing that a version pins depends on it.

Times are milliseconds since 1970, as MLflow says them.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Double, ForeignKey, Index, Table, Text, text

from vitrify.registry.database.schema import ID, metadata, versions

BYTEWISE = Text().with_variant(Text(collation="C"), "postgresql")
"""Compared byte by byte on both databases, so that all paths below a folder are one range."""

experiments = Table(
    "mlflow_experiments",
    metadata,
    Column("id", ID, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("root", Text, nullable=False, server_default=text("''")),
    Column("stage", Text, nullable=False, server_default=text("'active'")),
    Column("created", BigInteger, nullable=False),
    Column("updated", BigInteger, nullable=False),
    CheckConstraint("stage IN ('active', 'deleted')", name="a_known_experiment_stage"),
)

runs = Table(
    "mlflow_runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("experiment_id", ID, ForeignKey("mlflow_experiments.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("started", BigInteger, nullable=False),
    Column("ended", BigInteger),
    Column("stage", Text, nullable=False, server_default=text("'active'")),
    CheckConstraint("stage IN ('active', 'deleted')", name="a_known_run_stage"),
)
Index("mlflow_runs_by_time", runs.c.experiment_id, runs.c.started)

logged_models = Table(
    "mlflow_models",
    metadata,
    Column("id", Text, primary_key=True),
    Column("experiment_id", ID, ForeignKey("mlflow_experiments.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("type", Text, nullable=False, server_default=text("''")),
    Column("run_id", Text, nullable=False, server_default=text("''")),
    Column("by", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("updated", BigInteger, nullable=False),
    Column("deleted", BigInteger),
)
Index("mlflow_models_by_time", logged_models.c.experiment_id, logged_models.c.created)
Index("mlflow_models_by_run", logged_models.c.run_id)

values = Table(
    "mlflow_values",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    CheckConstraint("kind IN ('param', 'tag', 'input', 'output', 'dataset')", name="a_known_value"),
    sqlite_with_rowid=False,
)
"""What is said of a run, a logged model or an experiment (``experiment:7``), by kind and key."""

metrics = Table(
    "mlflow_metrics",
    metadata,
    Column("id", ID, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Double),
    Column("time", BigInteger, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("about", Text, nullable=False, server_default=text("'{}'")),
)
"""Every point of every metric; a value of NULL is NaN, which SQLite does not keep otherwise. ``about`` is JSON: the
logged model and the data set that the point is of."""
Index("mlflow_metrics_by_key", metrics.c.owner, metrics.c.key, metrics.c.id)

latest = Table(
    "mlflow_latest",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", Double),
    Column("time", BigInteger, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("about", Text, nullable=False, server_default=text("'{}'")),
    sqlite_with_rowid=False,
)
"""Of each metric the point of the highest step, and of those the newest."""

files = Table(
    "mlflow_files",
    metadata,
    Column("path", BYTEWISE, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("updated", BigInteger, nullable=False),
    Column("by", Text, nullable=False),
    sqlite_with_rowid=False,
)
"""What lies at an artifact's path now. The garbage collector keeps the content of every row."""
Index("mlflow_files_by_digest", files.c.digest)

TABLES = (experiments, runs, logged_models, values, metrics, latest, files)
"""In the order in which they can be made."""

BY_STAGE = Index("versions_by_model_and_stage", versions.c.model_id, versions.c.stage, versions.c.number)
"""The latest version of each stage of a model, which MLflow shows with every model."""
