"""A registry is backed up while it is used, restored into either database, and never from a damaged backup."""

from __future__ import annotations

import threading

import pytest
from registries import KINDS, artifact, intact, put, register
from registry_life import live
from sqlalchemy import select

from vitrify.core.digest import Digest
from vitrify.core.errors import (
    CheckFailedError,
    ConflictError,
    CorruptError,
    MalformedError,
    ReferenceNotFoundError,
    UsageError,
    VitrifyError,
)
from vitrify.registry import requests as r
from vitrify.registry.audit import verify
from vitrify.registry.backup import Backup, back_up, read, restore
from vitrify.registry.database.schema import metadata
from vitrify.registry.registry import Registry


def rows(backend):
    left_out = {"uploads", "blobs"}
    with backend.database.read() as connection:
        return {
            table.name: sorted(map(repr, connection.execute(select(table)).all()))
            for table in metadata.sorted_tables
            if table.name not in left_out
        }


@pytest.fixture
def made(registries, tmp_path):
    """A backup of a registry with a past."""
    backend = registries.open()
    live(backend)
    back_up(backend.database, backend.blobs, tmp_path / "backup")
    return tmp_path / "backup"


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", ["sqlite+disk", "postgresql+s3"])
def test_what_is_restored_is_what_was_backed_up_on_either_database(registries, tmp_path, source, target):
    first, second = registries.open(source), registries.open(target)
    live(first)
    put(first, b"loose, and kept too")
    done = back_up(first.database, first.blobs, tmp_path / "backup")
    assert done.seq == Registry(first).head().seq
    assert read(tmp_path / "backup") == restore(tmp_path / "backup", second.database, second.blobs) == done
    assert rows(second) == rows(first)
    assert intact(second) == intact(first)
    assert set(second.blobs.digests()) == set(first.blobs.digests())
    live(second, "again")  # rows are numbered on, and everything works
    report = verify(second.database)
    assert report.passed, report


def test_an_empty_registry_is_backed_up_and_restored(registries, tmp_path):
    first, second = registries.open(), registries.open()
    back_up(first.database, first.blobs, tmp_path / "backup")
    assert restore(tmp_path / "backup", second.database, second.blobs).seq == 0
    register(second)


@pytest.mark.parametrize("kind", ["sqlite+disk", "postgresql+disk"])
def test_a_backup_is_one_moment_while_others_write(registries, tmp_path, kind):
    first, second = registries.open(kind), registries.open("sqlite+disk")
    register(first)
    over = threading.Event()

    def write():
        number = 0
        while not over.is_set():
            register(first, seed=f"seed{number % 5}")
            Registry(first).promote("churn", "latest", "production")
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        done = back_up(first.database, first.blobs, tmp_path / "backup")
    finally:
        over.set()
        thread.join()
    restore(tmp_path / "backup", second.database, second.blobs)
    assert Registry(second).head().seq == done.seq
    assert intact(second)


def test_files_are_linked_where_that_is_asked_for(registries, tmp_path):
    backend = registries.open()
    digest = Digest.parse(artifact(backend))
    for link in (False, True):
        back_up(backend.database, backend.blobs, tmp_path / f"{link}", link=link)
    linked, copied = (tmp_path / name / "content/blobs/sha256" / digest.hex for name in ("True", "False"))
    assert linked.samefile(backend.blobs.path(digest))
    assert not copied.samefile(backend.blobs.path(digest))


def test_a_backup_never_overwrites_and_leaves_nothing_half_written(registries, tmp_path):
    backend = registries.open()
    digest = Digest.parse(artifact(backend))
    (tmp_path / "there").mkdir()
    with pytest.raises(UsageError, match="there is something"):
        back_up(backend.database, backend.blobs, tmp_path / "there")
    backend.blobs.delete(digest)
    with pytest.raises(ReferenceNotFoundError):
        back_up(backend.database, backend.blobs, tmp_path / "new")
    assert {path.name for path in tmp_path.iterdir()} <= {"there", "vitrify-home"}


def test_damaged_content_is_not_backed_up(registries, tmp_path):
    backend = registries.open()
    path = backend.blobs.path(Digest.parse(artifact(backend)))
    path.chmod(0o644)
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(CorruptError):
        back_up(backend.database, backend.blobs, tmp_path / "new")


def test_a_registry_that_is_not_empty_is_not_restored_into(registries, made):
    backend = registries.open()
    register(backend)
    before = rows(backend)
    with pytest.raises(ConflictError, match="not empty"):
        restore(made, backend.database, backend.blobs)
    assert rows(backend) == before


def _cut(path):
    path.write_bytes(path.read_bytes()[:-10])


def _swap(old, new):
    def damage(path):
        data = path.read_bytes()
        assert old in data
        path.write_bytes(data.replace(old, new, 1))

    return damage


def _resealed(name, old, new):
    """Change a table's file and its hash: then only the log can tell."""

    def damage(folder):
        import hashlib

        path = folder / "rows" / name
        _swap(old, new)(path)
        found = read(folder)
        tables = tuple(
            table.replace(sha256=hashlib.sha256(path.read_bytes()).hexdigest())
            if f"{table.name}.jsonl" == name
            else table
            for table in found.tables
        )
        (folder / "backup.json").write_bytes(found.replace(tables=tables).to_json())

    return damage


def _some_blob(folder):
    return next((folder / "content/blobs/sha256").iterdir())


def _garble(folder):
    path = _some_blob(folder)
    path.chmod(0o644)
    path.write_bytes(b"x" * path.stat().st_size)


DAMAGE = {
    "a row is cut": (lambda folder: _cut(folder / "rows/events.jsonl"), (CorruptError, MalformedError)),
    "a value is another": (lambda folder: _swap(b"ann", b"eve")(folder / "rows/events.jsonl"), CorruptError),
    "a row is no array": (lambda folder: _swap(b"[", b"{")(folder / "rows/models.jsonl"), MalformedError),
    "a row has a value too few": (lambda folder: _swap(b'"ann",', b"")(folder / "rows/models.jsonl"), MalformedError),
    "a table is missing": (lambda folder: (folder / "rows/events.jsonl").unlink(), VitrifyError),
    "a blob is missing": (lambda folder: _some_blob(folder).unlink(), CorruptError),
    "a blob is garbled": (_garble, CorruptError),
    "the description is cut": (lambda folder: _cut(folder / "backup.json"), MalformedError),
    "it is of a newer layout": (
        lambda folder: _swap(b'"revision": "0', b'"revision": "9')(folder / "backup.json"),
        MalformedError,
    ),
    "it has a table that nobody knows": (
        lambda folder: _swap(b'"tokens"', b'"secret"')(folder / "backup.json"),
        MalformedError,
    ),
    "it is no backup": (lambda folder: (folder / "backup.json").unlink(), UsageError),
    "a version's author is another": (_resealed("versions.jsonl", b'"ann"', b'"eve"'), CheckFailedError),
    "an event is another": (_resealed("events.jsonl", b'"ann"', b'"eve"'), CheckFailedError),
    "a key is there twice": (_resealed("aliases.jsonl", b"\n", b'\n[1,"best",1]\n'), VitrifyError),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_backup_is_refused_and_nothing_of_it_is_seen(registries, made, what):
    damage, error = DAMAGE[what]
    damage(made)
    backend = registries.open()
    before = rows(backend)
    with pytest.raises(error):
        restore(made, backend.database, backend.blobs)
    assert rows(backend) == before
    register(backend)  # and the registry is as usable as before


def test_an_older_backup_without_a_table_that_came_since_is_restored(registries, made):
    found = read(made)
    kept = tuple(table for table in found.tables if not table.name.startswith("mlflow_"))
    assert len(kept) < len(found.tables)
    (made / "backup.json").write_bytes(found.replace(tables=kept, revision="0001").to_json())
    backend = registries.open()
    assert restore(made, backend.database, backend.blobs).seq == found.seq


def test_an_unknown_field_of_the_description_survives(made):
    found = read(made)
    assert Backup.from_json(found.replace(extra={"later": 1}).to_json(), where="here").extra == {"later": 1}


def test_an_upload_in_flight_is_no_part_of_a_backup(registries, tmp_path):
    first, second = registries.open(), registries.open()
    first.expect(Digest.of(b"not here yet"), 12)
    back_up(first.database, first.blobs, tmp_path / "backup")
    restore(tmp_path / "backup", second.database, second.blobs)
    digest = str(Digest.of(b"not here yet"))
    assert second.do(r.FindMissing(digests=(digest,))).digests == (digest,)
