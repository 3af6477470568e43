"""Statements that go to the driver as they are: the same rows, errors and transactions as SQLAlchemy's own.

And what they take does not grow with the registry: plans use an index, and SQLite's own instructions are counted.
"""

import sqlite3

import pytest
from registries import acting, artifact, register
from sqlalchemy import bindparam, event, insert, select, text, update

from vitrify.core.errors import ConflictError, UnavailableError
from vitrify.registry import requests as r
from vitrify.registry.audit import verify
from vitrify.registry.database import schema
from vitrify.registry.database.prepared import Prepared, together
from vitrify.registry.registry import Registry

MODEL = Prepared(
    select(schema.models.c.name, schema.models.c.counter).where(
        schema.models.c.name == bindparam("name"), schema.models.c.owner == "ann"
    )
)
OWNER = Prepared(update(schema.models).where(schema.models.c.name == bindparam("name_")).values(owner=bindparam("who")))
DOUBLE = Prepared(insert(schema.models).values(name=bindparam("name"), created=1, updated=1))


@pytest.fixture(params=["sqlite+disk", "postgresql+disk"])
def backend(request, registries):
    """A registry on each database, with one version."""
    made = registries.open(request.param)
    register(made)
    return made


def test_what_is_asked_for_comes_back_as_a_plain_tuple(backend):
    with backend.database.read() as connection:
        assert MODEL.run(connection, name="churn").fetchall() == [("churn", 1)]
        assert MODEL.run(connection, name="x' OR '1' = '1").fetchone() is None


def test_what_is_read_is_one_state_whatever_is_written_meanwhile(registries):
    backend = registries.open("sqlite+disk")  # PostgreSQL sees what was committed, each statement anew
    register(backend)
    with backend.database.read() as connection:
        assert MODEL.run(connection, name="churn").fetchall() == [("churn", 1)]
        Registry(backend).update_model("churn", owner="eve")
        assert MODEL.run(connection, name="churn").fetchall() == [("churn", 1)]
    with backend.database.read() as connection:
        assert MODEL.run(connection, name="churn").fetchone() is None


def test_several_together_are_all_written_or_none(backend):
    def twice():
        with backend.database.write() as connection, together(connection):
            OWNER.run(connection, name_="churn", who="eve")
            DOUBLE.run(connection, name="churn")
            OWNER.run(connection, name_="churn", who="mallory")

    with pytest.raises(ConflictError, match="the database refused"):
        twice()
    assert Registry(backend).model("churn").owner == "ann"
    with backend.database.write() as connection:
        with together(connection):
            OWNER.run(connection, name_="churn", who="bob")
            found = connection.dialect.name, MODEL.run(connection, name="churn")
        assert found[1].fetchone() is None
    assert Registry(backend).model("churn").owner == "bob"


def interrupted(backend):
    with backend.database.write() as connection:
        OWNER.run(connection, name_="churn", who="eve")
        raise KeyboardInterrupt


def lost(backend):
    with backend.database.write() as connection:
        OWNER.run(connection, name_="churn", who="eve")
        connection.invalidate()
        raise KeyboardInterrupt


@pytest.mark.parametrize("cut", [interrupted, lost])
def test_a_write_that_is_interrupted_is_undone_and_the_next_one_is_written(backend, cut):
    with pytest.raises(KeyboardInterrupt):
        cut(backend)
    assert Registry(backend).model("churn").owner == "ann"
    assert Registry(backend).update_model("churn", owner="bob").owner == "bob"
    assert verify(backend.database).passed


@pytest.mark.parametrize("at_once", [True, False])
def test_a_connection_that_is_cut_is_said_and_the_next_request_works(registries, at_once):
    backend = registries.open("postgresql+disk")
    register(backend)

    def cut():
        with backend.database.write() as connection:
            own = connection.execute(text("SELECT pg_backend_pid()")).scalar()
            OWNER.run(connection, name_="churn", who="eve")
            with backend.database.write() as other:
                other.execute(text(f"SELECT pg_terminate_backend({own})"))
            if not at_once:
                OWNER.run(connection, name_="churn", who="eve")
            with together(connection):
                OWNER.run(connection, name_="churn", who="eve")

    with pytest.raises(UnavailableError, match="does not answer"):
        cut()
    assert Registry(backend).model("churn").owner == "ann"
    assert Registry(backend).set_alias("churn", "champion", "1").aliases == ("champion",)
    assert verify(backend.database).passed


def test_an_alias_that_moves_leaves_the_others_where_they_are(backend):
    register(backend)
    registry = Registry(backend)
    for alias in ("b", "c", "a"):
        registry.set_alias("churn", alias, "1")
    assert registry.version("churn", "1").aliases == ("a", "b", "c")
    head = registry.head()
    assert registry.set_alias("churn", "a", "1").aliases == ("a", "b", "c")
    assert registry.head() == head
    assert registry.set_alias("churn", "b", "2").aliases == ("b",)
    assert registry.version("churn", "1").aliases == ("a", "c")
    registry.remove_alias("churn", "a")
    assert registry.version("churn", "1").aliases == ("c",)
    assert registry.version("churn", "@b").version == "2"
    assert verify(backend.database).passed


class Watched:
    """What SQLite does for a request.

    Attributes:
        statements: Their text, with their values.
        steps: Instructions of SQLite's machine.
    """

    def __init__(self, backend):
        self.backend = backend
        self.statements = []
        self.steps = 0
        event.listen(backend.database.engine, "checkout", self._watch)
        backend.database.close()  # what is open was not watched

    def _watch(self, connection, *_):
        connection.set_trace_callback(self.statements.append)
        connection.set_progress_handler(self._step, 1)

    def _step(self):
        self.steps += 1
        return 0

    def __call__(self, work):
        self.statements.clear()
        self.steps = 0
        work()
        return self.steps


@pytest.fixture
def works(registries):
    """Yield the requests that are made most, and what watches them."""
    backend = registries.open("sqlite+disk")
    digest = artifact(backend)
    registry = Registry(backend)

    def create():
        registry.do(r.CreateVersion(model="churn", digest=digest, tags={"team": "risk"}, metrics={"auc": 0.9}))

    for _ in range(12):
        create()
    registry.set_alias("churn", "champion", "1")
    registry.promote("churn", "1", "staging")
    named = {
        "create": create,
        "alias": lambda: [registry.set_alias("churn", "champion", which) for which in ("2", "1")],
        "resolve": lambda: registry.version("churn", "@champion"),
        "stage": lambda: registry.version("churn", "@staging"),
        "latest": lambda: registry.version("churn", "latest"),
        "search": lambda: registry.do(r.Search(query="name = churn", limit=10)),
        "page": lambda: registry.do(
            r.Search(query="name = churn", limit=5, after=registry.do(r.Search(query="name = churn", limit=5)).next)
        ),
    }
    return Watched(backend), named


@pytest.mark.parametrize("name", ["create", "alias", "resolve", "stage", "latest", "search", "page"])
def test_no_request_that_is_made_often_walks_through_a_table(works, name):
    watched, named = works
    watched(named[name])
    asked = [one for one in watched.statements if one.startswith(("SELECT", "UPDATE", "DELETE", "INSERT"))]
    assert asked
    path = watched.backend.database.url.database
    plain = sqlite3.connect(path)
    plans = [row[3] for one in asked for row in plain.execute(f"EXPLAIN QUERY PLAN {one}")]
    plain.close()
    assert not [line for line in plans if line.startswith(("SCAN", "USE TEMP")) and line != "SCAN webhooks"]


@pytest.mark.parametrize("name", ["create", "alias", "resolve", "stage", "latest", "search", "page"])
def test_a_request_takes_as_much_with_many_versions_as_with_few(works, name):
    watched, named = works
    for _ in range(2):  # what is compiled or remembered once is no matter
        few = watched(named[name])
    for _ in range(100):
        named["create"]()
    for _ in range(2):
        many = watched(named[name])
    assert 0 < many <= 1.1 * few


def test_a_version_and_an_alias_are_few_statements(works):
    watched, named = works
    watched(named["create"])
    changed = [one.split(" SET ")[0].split(" (")[0] for one in watched.statements if one.startswith(("INSERT", "UPD"))]
    assert sorted(changed) == [
        "INSERT INTO edges",
        "INSERT INTO events",
        "INSERT INTO labels",
        "INSERT INTO labels",
        "INSERT INTO versions",
        "UPDATE blobs",
        "UPDATE head",
        "UPDATE models",
    ]
    assert len([one for one in watched.statements if one.startswith("SELECT")]) <= 3
    watched(
        lambda: acting(watched.backend, "ann", "writer").do(r.SetAlias(model="churn", alias="champion", version="3"))
    )
    assert len([one for one in watched.statements if one.startswith("SELECT")]) <= 3
    assert watched.statements.count("COMMIT") == 1
