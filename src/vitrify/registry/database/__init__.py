"""Where the registry's rows are: SQLite in one file, or PostgreSQL by URL; the same schema, the same rules."""

from __future__ import annotations

from vitrify.registry.database import mlflow_schema as _mlflow_schema  # its tables belong to the same schema
from vitrify.registry.database.engine import Database

assert _mlflow_schema.TABLES

__all__ = ["Database"]
