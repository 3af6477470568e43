"""What a crash, a kill, a restart, a full disk or a clock that goes backwards does to a registry: nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from registries import acting, register
from sqlalchemy import text

from vitrify.core.errors import ConflictError, StoreError, UnavailableError, VitrifyError
from vitrify.registry import requests as r
from vitrify.registry.audit import verify
from vitrify.registry.registry import Registry

KILL = Path(__file__).parents[2] / "benchmarks" / "registry_kill.py"


def killed(*options):
    """Run the benchmark on a small scale and return what it found."""
    command = [sys.executable, str(KILL), "--processes", "16", "--every", "0.1", "--patience", "500", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    result = json.loads(done.stdout)
    assert result["good"], (result, done.stderr)
    return result


def test_sixteen_processes_that_are_killed_at_random_leave_one_production_version_at_every_moment():
    result = killed("--promotions", "300")
    assert result["killed"] > 1


def test_the_same_on_postgresql(postgresql):
    assert killed("--promotions", "100", "--database", postgresql.database())["killed"] > 1


def promoted(database):
    """Return how often something was promoted until now; 0 where nobody can say."""
    import psycopg

    try:
        with psycopg.connect(database.replace("+psycopg", "")) as connection:
            return connection.execute("SELECT count(*) FROM productions").fetchone()[0]
    except psycopg.Error:
        return 0


def test_the_same_while_postgresql_itself_dies_and_is_started_again(mortal_postgresql):
    found = []
    database = mortal_postgresql.database()
    thread = threading.Thread(target=lambda: found.append(killed("--promotions", "100", "--database", database)))
    thread.start()
    restarts = 0
    for wanted in (5, 40):
        while promoted(database) < wanted and thread.is_alive():
            time.sleep(0.01)
        if thread.is_alive():
            mortal_postgresql.restart()
            restarts += 1
    thread.join()
    assert found
    assert restarts


def test_a_lost_connection_is_said_and_the_next_request_works(mortal_postgresql, registries):
    backend = registries.reopen(mortal_postgresql.database(), str(registries.folder / "content"))
    register(backend)
    head = Registry(backend).head()
    mortal_postgresql.stop()
    with pytest.raises(UnavailableError, match="does not answer"):
        Registry(backend).promote("churn", "1", "production")
    with pytest.raises(UnavailableError, match="does not answer"):
        Registry(backend).version("churn")
    mortal_postgresql.restart()
    assert Registry(backend).head() == head
    assert Registry(backend).promote("churn", "1", "production").stage == "production"
    assert verify(backend.database).passed


def test_a_connection_that_is_cut_in_the_middle_of_a_transaction_changes_nothing(registries):
    backend = registries.open("postgresql+disk")
    register(backend)
    head = Registry(backend).head()

    def cut():
        with backend.database.write() as connection:
            connection.execute(text("UPDATE models SET owner = 'eve'"))
            own = connection.execute(text("SELECT pg_backend_pid()")).scalar()
            with backend.database.write() as other:
                other.execute(text(f"SELECT pg_terminate_backend({own})"))
            connection.execute(text("UPDATE models SET owner = 'eve'"))

    with pytest.raises(UnavailableError):
        cut()
    assert Registry(backend).head() == head
    assert Registry(backend).model("churn").owner == "ann"


FULL = """
import resource, signal, sys
from vitrify.core.errors import StoreError
from vitrify.registry import requests as r
from vitrify.registry.actor import everyone
from vitrify.registry.blobs import open_blobs
from vitrify.registry.database import Database
from vitrify.registry.local import LocalBackend

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
backend = LocalBackend(Database(sys.argv[1]), open_blobs(sys.argv[2]), everyone("ann"))
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
done = 0
try:
    for number in range(100):
        backend.do(r.UpdateModel(model="churn", description=f"{number}" + "x" * 50_000))
        done = number
except StoreError as error:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    backend.do(r.UpdateModel(model="churn", owner="after"))  # there is room again
    print(done, error.message, flush=True)
"""


def test_a_full_disk_is_said_and_nothing_is_lost(registries):
    places = registries.places("sqlite+disk")
    backend = registries.reopen(*places)
    register(backend)
    done = subprocess.run([sys.executable, "-c", FULL, *places], capture_output=True, text=True, check=False)
    number, _, message = done.stdout.partition(" ")
    assert "could not be written" in message, done.stderr
    model = Registry(backend).model("churn")
    assert model.description.rstrip("x") == number
    assert model.owner == "after"
    assert verify(backend.database).passed


def test_a_clock_that_goes_backwards_leaves_the_log_in_order(registry, monkeypatch):
    register(registry.backend)
    hour = 3_600_000_000_000
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() - hour)
    first = registry.promote("churn", "1", "production")
    monkeypatch.setattr(time, "time_ns", lambda: now() - 2 * hour)
    second = registry.update_version("churn", "1", description="later, whatever the clock says")
    assert second.updated > first.updated
    times = [event.time for event in registry.events()]
    assert times == sorted(times)
    assert verify(registry.backend.database).passed


@pytest.mark.parametrize("kind", ["sqlite+disk", "postgresql+disk"])
def test_of_two_promoters_at_once_who_expect_the_same_one_is_refused(registries, kind):
    backend = registries.open(kind)
    for seed in ("a", "b", "c"):
        register(backend, seed=seed)
    Registry(backend).promote("churn", "1", "production")
    outcomes = []
    barrier = threading.Barrier(2)

    def promote(version):
        barrier.wait()
        try:
            Registry(backend).promote("churn", version, "production", expected="1")
            outcomes.append("done")
        except ConflictError:
            outcomes.append("refused")

    threads = [threading.Thread(target=promote, args=(version,)) for version in ("2", "3")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["done", "refused"]
    assert verify(backend.database).passed


@pytest.mark.parametrize("kind", ["sqlite+disk", "postgresql+disk"])
def test_many_who_register_at_once_get_a_version_each(registries, kind):
    backend = registries.open(kind)
    register(backend)
    digest = Registry(backend).version("churn").digest
    numbers, errors = [], []

    def create(number):
        try:
            for _ in range(5):
                about = {"model": "churn", "digest": digest, "tags": {"by": f"{number}"}}
                numbers.append(backend.do(r.CreateVersion(**about)).number)
        except VitrifyError as error:
            errors.append(error)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert sorted(numbers) == list(range(2, 42))
    assert verify(backend.database).passed


def test_the_database_itself_refuses_a_second_production_version(backend):
    for seed in ("a", "b"):
        register(backend, seed=seed)
    Registry(backend).promote("churn", "1", "production")
    with pytest.raises(ConflictError, match="the database refused"), backend.database.write() as connection:
        connection.execute(text("UPDATE versions SET stage = 'production' WHERE number = 2"))
    with pytest.raises(ConflictError, match="the database refused"), backend.database.write() as connection:
        connection.execute(text("UPDATE versions SET status = 'yanked' WHERE number = 1"))


def test_a_request_that_fails_leaves_no_trace(registry):
    register(registry.backend)
    head = registry.head()
    refused = [
        r.CreateModel(name="churn"),
        r.Promote(model="churn", version="9", stage="production"),
        r.Promote(model="churn", version="1", stage="production", expected="7"),
        r.Rollback(model="churn"),
        r.SetAlias(model="churn", alias="production", version="1"),
        r.CreateVersion(model="churn", digest=f"sha256:{'0' * 64}"),
        r.Decide(id=77, verdict="approve"),
    ]
    for request in refused:
        with pytest.raises(VitrifyError):
            registry.do(request)
    assert registry.head() == head
    with pytest.raises(VitrifyError):
        acting(registry.backend, "eve", "reader").create_model("mine")
    assert registry.head() == head


def test_a_damaged_database_is_said(registries):
    database, content = registries.places("sqlite+disk")
    register(registries.reopen(database, content))
    registries.close()
    data = bytearray(Path(database).read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    Path(database).write_bytes(bytes(data))
    with pytest.raises(StoreError, match="damaged"):
        Registry(registries.reopen(database, content)).version("churn")
