"""Directories, file by file."""

from __future__ import annotations

from pathlib import Path

import pytest

from vitrify.inspection.watched import Watched, branches, single
from vitrify.reading.files import HeldFiles, LocalFiles


@pytest.fixture(params=["held", "local"])
def files(request, tmp_path):
    named = {"a": b"1", "d/b": b"2", "d/e/c": b"3", "d/e/f": b"4"}
    if request.param == "held":
        return HeldFiles({name: memoryview(data) for name, data in named.items()})
    for name, data in named.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    return LocalFiles({name: tmp_path / name for name in named})


def test_what_is_opened_is_remembered_until_it_is_asked_for(files):
    watched = Watched(files)
    assert watched.names() == files.names()
    assert watched.opened() == set()
    assert (watched.read("a"), bytes(watched.map("d/b"))) == (b"1", b"2")
    assert watched.path("d/e/c").read_bytes() == b"3"
    assert watched.opened() == {"a", "d/b", "d/e/c"}
    assert watched.opened() == set()


def test_no_file_is_held_open_longer_than_somebody_looks(tmp_path):
    resource = pytest.importorskip("resource")
    for number in range(200):
        (tmp_path / str(number)).write_bytes(b"x")
    watched = Watched(LocalFiles({str(number): tmp_path / str(number) for number in range(200)}))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/dev/fd").iterdir())) + 50, hard))
    try:
        assert all(bytes(watched.map(name)) == b"x" for name in watched.names())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    held = watched.map("0")
    assert watched.map("0") is held


def test_a_single_file_has_the_last_part_of_its_name(files):
    assert single(files, "d/e/c").names() == ("c",)
    assert single(files, "d/e/c").read("c") == b"3"


def test_branches_are_files_alone_and_folders_whole(files):
    found = {place: branch.names() for place, branch in branches(files, files.names(), 0)}
    assert found == {"": ("a",), "d": ("b", "e/c", "e/f")}
    deep = [(place, branch.names()) for place, branch in branches(files, files.names(), 99)]
    assert deep == [("", ("a",)), ("d", ("b",)), ("d/e", ("c",)), ("d/e", ("f",))]
