"""A disk that does not take it: a typed error with a remedy, and the store as it was."""

import errno
import os
import resource
from contextlib import contextmanager, suppress

import pytest

from vitrify.core.errors import StoreError
from vitrify.stores import export, fsck
from vitrify.testing.stores import contents, save

OLD = {"w": b"old" * 1000, "v": b"2"}
NEW = {"w": b"new" * 100_000, "v": b"3"}


@contextmanager
def file_size_limit(size):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def unchanged(store):
    """Demand that the block leaves the store exactly as it was: names, blobs, and no leftovers."""
    before = {path: path.read_bytes() for path in store.root.rglob("*") if path.is_file() and path.name != "verified"}
    yield
    after = {path: path.read_bytes() for path in store.root.rglob("*") if path.is_file() and path.name != "verified"}
    assert after == before
    assert fsck(store).passed


def as_stream(stage, content):
    with stage.open("w", "weight") as stream:
        stream.write(content)


def in_pieces(stage, content):
    with stage.open("w", "weight") as stream:
        for start in range(0, len(content), 1000):
            stream.write(content[start : start + 1000])


def as_path(stage, content):
    with stage.path("w", "weight") as path:
        path.write_bytes(content)


@pytest.mark.parametrize("write", [as_stream, in_pieces, as_path])
def test_a_file_above_the_size_limit_leaves_the_old_artifact(store, write):
    digest = save(store, OLD, "churn:latest")
    with unchanged(store):
        with (
            file_size_limit(200_000),
            pytest.raises(StoreError, match="File too large") as caught,
            store.stage() as stage,
        ):
            write(stage, NEW["w"])
        assert "ulimit -f" in caught.value.remedy
        assert contents(store, store.names.get("churn:latest").content) == OLD
    assert store.names.get("churn:latest").content == digest


def test_an_index_that_cannot_be_written_is_found_before_any_blob_is_visible(store):
    for number in range(30):
        save(store, {"w": b"old"}, f"churn:{number}")
    with unchanged(store), file_size_limit(2_000), pytest.raises(StoreError, match=r"index\.json"):
        save(store, {"w": b"new"}, "churn:latest")


def test_a_library_that_swallows_the_error_does_not_turn_half_a_file_into_a_whole_one(store):
    save(store, OLD, "churn:latest")

    def stubborn(stage):
        with stage.open("w", "weight") as stream:
            for part in (b"x" * 3_000_000, b"and on"):
                with suppress(StoreError):
                    stream.write(part)

    with (
        unchanged(store),
        file_size_limit(200_000),
        store.stage() as stage,
        pytest.raises(StoreError, match="File too large"),
    ):
        stubborn(stage)


def test_an_export_that_cannot_be_written_leaves_the_old_file(store, tmp_path):
    digest = save(store, NEW, "churn:latest")
    path = tmp_path / "churn.tar"
    path.write_bytes(b"the old export")
    with file_size_limit(200_000), pytest.raises(StoreError, match=r"churn\.tar"):
        export(store, digest, path)
    assert path.read_bytes() == b"the old export"
    assert [entry.name for entry in tmp_path.iterdir() if "churn" in entry.name] == ["churn.tar"]


class _Failing:
    """Stands in for a function of ``os`` and fails at one of its calls: a disk cannot be asked to."""

    def __init__(self, monkeypatch, name):
        self._real = getattr(os, name)
        self.calls = self.fatal = 0
        monkeypatch.setattr(os, name, self)

    def __call__(self, *arguments):
        self.calls += 1
        if self.calls == self.fatal:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self._real(*arguments)

    def at(self, call):
        self.calls, self.fatal = 0, call


@pytest.mark.parametrize(("function", "at_least"), [("fsync", 6), ("fdatasync", 1), ("write", 2), ("fchmod", 4)])
def test_a_call_that_fails_at_any_point_fails_the_commit(store, monkeypatch, function, at_least):
    monkeypatch.setattr("vitrify.stores._stream._FLUSHED", 100_000)
    failing = _Failing(monkeypatch, function)
    save(store, OLD, "churn:latest")
    seen, raised = [], []
    for point in range(1, 100):
        failing.at(point)
        try:
            save(store, NEW, "churn:latest")
        except StoreError as error:
            raised.append(str(error))
        else:
            break
        finally:
            failing.at(0)
        seen.append(contents(store, store.names.get("churn:latest").content))
    assert len(seen) >= at_least
    assert all("Input/output error" in message and "check the disk" in message for message in raised)
    # The last fsync comes when the new index is in its place: nobody knows then whether it will last.
    assert all(files == OLD for files in seen[:-1])
    assert seen[-1] in (OLD, NEW)
    assert fsck(store).passed
