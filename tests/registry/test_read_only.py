"""Whoever may only read a registry on disk can read it: while others write, after they left, and after a crash."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from registries import register

from vitrify.registry.database.reading import ReadOnly
from vitrify.registry.places import FILE
from vitrify.registry.registry import Registry
from vitrify.stores._durable import locked

READER = """
import json, os, sys
from pathlib import Path
from vitrify.core.errors import VitrifyError
from vitrify.registry import open_registry
from vitrify.registry.audit import verify
from vitrify.registry.backup import back_up

def look(place):
    registry = open_registry(place, create=False)
    try:
        found = [version.description for version in registry.search()]
        assert registry.version("churn").description == found[0]
        assert verify(registry.backend.database).passed
        with registry.backend.database.snapshot() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM models").scalar() == 1
        back_up(registry.backend.database, registry.backend.blobs, Path(target) / str(os.getuid()))
        return found, refused(lambda: registry.update_model("churn", description="mine"))
    finally:
        registry.close()

def refused(call):
    try:
        call()
    except VitrifyError as error:
        return [type(error).__name__, str(error)]

own, place, target = sys.argv[1:]
look(own)  # brings every library in, while it may still be read
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    (Path(place) / "mine").touch()
    sys.exit("it can be written to")
except PermissionError:
    pass
print(json.dumps(refused(lambda: print(json.dumps(look(place)), flush=True))))
"""


@pytest.fixture
def folder():
    """Return a folder that everybody reaches; pytest's own are private."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    (made / "registry").chmod(0o755)
    shutil.rmtree(made)


@pytest.fixture
def shelf(registries, folder):
    """Return the backend of a registry with one version, which its owner has open."""
    place = folder / "registry"
    shutil.copytree(Path(registries.places("sqlite+disk")[0]).parent, place)
    backend = registries.reopen(str(place / FILE), str(place / "content"))
    register(backend, description="first")
    return backend


def read(registries, place):
    """Return what somebody finds who may only read, and what he is told."""
    own = registries.places("sqlite+disk")
    backups = Path(tempfile.mkdtemp(dir=place.parent))
    backups.chmod(0o777)
    backend = registries.reopen(*own)
    register(backend)
    for path in (place, *place.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        command = [sys.executable, "-c", READER, str(Path(own[0]).parent), str(place), str(backups)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        for path in (place, *place.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert done.returncode == 0, done.stderr
    *found, error = map(json.loads, done.stdout.splitlines())
    return found[0] if found else None, error


def test_while_its_owner_has_it_open_the_newest_is_read(registries, folder, shelf):
    Registry(shelf).update_version("churn", "1", description="second")
    (found, refusal), error = read(registries, folder / "registry")
    assert error is None
    assert found == ["second"]
    assert refusal[0] == "StoreError"
    assert "may only be read by this user" in refusal[1]
    assert "-> ask the owner" in refusal[1]


def test_when_everybody_has_left_it_is_read(registries, folder, shelf):
    shelf.close()
    assert not (folder / "registry" / f"{FILE}-wal").exists()
    (found, refusal), error = read(registries, folder / "registry")
    assert (found, refusal[0], error) == (["first"], "StoreError", None)


def test_while_it_is_read_as_a_file_that_does_not_change_nobody_writes(shelf):
    shelf.close()
    path = Path(shelf.database.url.database)
    writers = path.with_name(f"{FILE}-writer")
    with ReadOnly(path, writers).connect() as connection:
        assert connection.exec_driver_sql("SELECT description FROM versions").scalar() == "first"
        with pytest.raises(BlockingIOError), locked(writers, wait=False):
            pass
    with locked(writers, wait=False):
        pass


def test_what_a_crash_left_in_the_log_is_read(registries, folder, shelf):
    (found, _), error = read(registries, crashed(folder, shelf))
    assert (found, error) == (["only in the log"], None)


def test_a_log_without_its_index_is_never_passed_over(registries, folder, shelf):
    copy = crashed(folder, shelf)
    (copy / f"{FILE}-shm").unlink()
    found, error = read(registries, copy)
    assert found is None
    assert error[0] == "StoreError"
    assert "vitrify registry migrate" in error[1]


def crashed(folder, shelf):
    """Return a registry whose owner died, with a change that stands in the log alone."""
    Registry(shelf).update_version("churn", "1", description="only in the log")
    return Path(shutil.copytree(folder / "registry", folder / "crashed"))
