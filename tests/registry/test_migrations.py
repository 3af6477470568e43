"""Migrations run forward on real data, once, and end where the code's tables are."""

from __future__ import annotations

import sqlite3
from threading import Thread

import pytest
from registries import ADMIN, register
from registry_life import live
from sqlalchemy import inspect, text

from vitrify.core.errors import ReferenceNotFoundError, StoreError, UnavailableError, UsageError, VitrifyError
from vitrify.registry import open_registry
from vitrify.registry.audit import verify
from vitrify.registry.blobs import open_blobs
from vitrify.registry.database import Database, mlflow_schema, schema
from vitrify.registry.local import LocalBackend
from vitrify.registry.registry import Registry


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "registry.db")
    return request.getfixturevalue("postgresql").database()


def differences(database):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with database.engine.connect() as connection:
        return compare_metadata(MigrationContext.configure(connection), schema.metadata)


def at_first(url, patch):
    """Return a database as the first migration left it."""
    from alembic import command

    upgrade = command.upgrade
    with patch.context() as only:
        only.setattr(command, "upgrade", lambda config, _: upgrade(config, "0001"))
        return Database(url)


def test_a_new_database_has_the_tables_of_the_code(url):
    assert mlflow_schema.TABLES
    database = Database(url)
    assert differences(database) == []
    with database.read() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == schema.REVISION
    database.close()


def test_whoever_wants_to_make_none_finds_none(url, tmp_path):
    with pytest.raises(ReferenceNotFoundError, match="no registry yet"):
        Database(url, create=False)
    assert list(tmp_path.iterdir()) == []
    Database(url).close()
    Database(url, create=False).close()


def test_the_tables_of_a_migrated_database_have_every_constraint_of_the_code(url):
    """Alembic compares no CHECK, so they are compared here, by what the metadata itself would have made."""
    migrated = Database(url)
    found = {name: _constraints(migrated, name) for name in schema.metadata.tables}
    for name, table in schema.metadata.tables.items():
        wanted = {constraint.name for constraint in table.constraints if constraint.name}
        assert wanted <= found[name], name
    migrated.close()


def _constraints(database, table):
    inspector = inspect(database.engine)
    checks = inspector.get_check_constraints(table) + inspector.get_unique_constraints(table)
    return {one["name"] for one in checks}


def test_a_database_with_a_past_is_migrated_and_still_says_the_same(url, tmp_path, monkeypatch, registries):
    old = at_first(url, monkeypatch)
    with old.read() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "0001"
        assert not inspect(connection).has_table("mlflow_runs")
    backend = LocalBackend(old, open_blobs(str(tmp_path / "content")), ADMIN)
    live(backend)
    head = Registry(backend).head()
    old.close()
    new = Database(url)
    assert differences(new) == []
    report = verify(new, {head.seq: head.hash})
    assert report.passed, report
    backend = LocalBackend(new, open_blobs(str(tmp_path / "content")), ADMIN)
    register(backend, "after", "migration")
    new.close()


def test_servers_that_start_at_once_migrate_once(url):
    made, errors = [], []

    def start():
        try:
            made.append(Database(url))
        except VitrifyError as error:
            errors.append(error)

    threads = [Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for database in made:
        assert differences(database) == []
        database.close()


def test_a_database_of_a_newer_version_is_refused_in_words(url):
    database = Database(url)
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(StoreError, match="made by a newer Vitrify"):
        Database(url)


def test_what_is_no_database_is_refused_in_words(tmp_path):
    (tmp_path / "notes.db").write_text("these are notes and no database at all" * 100)
    with pytest.raises(StoreError, match="damaged"):
        Database(tmp_path / "notes.db")
    with pytest.raises(UsageError, match="no record"):
        Database("sqlite:///:memory:")
    with pytest.raises(UsageError, match="not a database"):
        Database("mysql://me@host/registry")
    with pytest.raises(UsageError, match="no registry is reached by ftp://") as caught:
        open_registry("ftp://me:secret@x")
    assert "postgresql://" in str(caught.value)
    assert "secret" not in str(caught.value)
    with pytest.raises(UnavailableError, match="does not answer"):
        Database("postgresql://me@127.0.0.1:1/registry")


def test_a_password_is_never_shown():
    with pytest.raises(UsageError) as caught:
        Database("mysql://me:secret@host/registry")
    assert "secret" not in str(caught.value)


def test_another_programs_sqlite_file_keeps_its_tables(tmp_path):
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE notes (text)")
    Database(tmp_path / "other.db").close()
    with sqlite3.connect(tmp_path / "other.db") as connection:
        assert connection.execute("SELECT count(*) FROM notes").fetchone() == (0,)
    connection.close()
