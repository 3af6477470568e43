"""The commands that look after a registry: garbage, backup, restore."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from registries import put, register, registries

from vitrify.cli.registry import command
from vitrify.core.errors import ConflictError, UsageError

__all__ = ["registries"]


@pytest.fixture
def place(registries):
    """The path of a registry with one version and one loose blob."""
    backend = registries.open()
    register(backend)
    put(backend, b"loose")
    return backend.database.url.database


def run(*arguments):
    return CliRunner().invoke(command, list(map(str, arguments)), catch_exceptions=True)


def test_garbage_goes_when_it_is_old_enough(place):
    assert run("gc", "--registry", place).output == "deleted 0 blobs, 0 B\n"
    assert run("gc", "--registry", place, "--grace", 0, "--dry-run").output == "would delete 1 blobs, 5 B\n"
    done = json.loads(run("gc", "--registry", place, "--grace", 0, "--json").output)
    assert done == {"blobs": 1, "bytes": 5, "dryRun": False}
    assert run("gc", "--registry", place, "--grace", -1).exit_code == 2


def test_a_backup_is_restored_into_an_empty_place_only(place, tmp_path):
    done = run("backup", tmp_path / "backup", "--registry", place)
    assert "5 blobs" in done.output
    new = tmp_path / "new"
    assert "the log ends with event 2" in run("restore", tmp_path / "backup", "--registry", new).output
    assert json.loads(run("backup", tmp_path / "again", "--registry", new, "--json").output)["content"] == 5
    assert isinstance(run("restore", tmp_path / "backup", "--registry", new).exception, ConflictError)
    assert isinstance(run("backup", tmp_path / "backup", "--registry", place).exception, UsageError)


@pytest.mark.parametrize("arguments", [("gc",), ("backup", "x"), ("restore", ".")])
def test_a_server_is_no_place_for_what_needs_the_database(arguments):
    done = run(*arguments, "--registry", "http://127.0.0.1:1")
    assert isinstance(done.exception, UsageError)
    assert "where the database is" in str(done.exception)
