"""The migration that makes MLflow's tables, on a registry that was made before it."""

from __future__ import annotations

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text

from vitrify.registry.database import Database, mlflow_schema
from vitrify.registry.database.schema import metadata


@pytest.mark.parametrize("kind", ["sqlite+disk", "postgresql+disk"])
def test_a_registry_of_before_gets_the_tables_that_the_code_expects(registries, kind):
    url, _ = registries.places(kind)
    engine = create_engine(f"sqlite:///{url}" if kind.startswith("sqlite") else url)
    with engine.begin() as connection:
        for table in reversed(mlflow_schema.TABLES):
            table.drop(connection)
        mlflow_schema.BY_STAGE.drop(connection)
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
        connection.execute(text("INSERT INTO models (name, created, updated) VALUES ('kept', 1, 1)"))
    Database(url).close()
    with engine.connect() as connection:
        assert {table.name for table in mlflow_schema.TABLES} <= set(inspect(connection).get_table_names())
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        assert connection.execute(text("SELECT name FROM models")).scalar() == "kept"
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() >= "0002"
    engine.dispose()
