from __future__ import annotations

import os

import pytest

from vitrify.core.errors import CheckFailedError, MalformedError, StoreError, UsageError
from vitrify.package._folder import copy, new_folder, opened, put
from vitrify.reading.files import HeldFiles


def _names(folder):
    return [one.name for one in folder.iterdir()]


def test_a_directory_appears_when_it_is_complete(tmp_path):
    with new_folder(tmp_path / "a" / "new") as new:
        put(new, "x/y.bin", b"1")
        assert not (tmp_path / "a" / "new").exists()
    assert (tmp_path / "a" / "new" / "x" / "y.bin").read_bytes() == b"1"
    assert _names(tmp_path / "a") == ["new"]


def test_a_failure_leaves_nothing_behind(tmp_path):
    with pytest.raises(MalformedError), new_folder(tmp_path / "new") as new:  # noqa: PT012 (some files, then the failure)
        put(new, "a", b"1")
        put(new, "../b", b"2")
    assert not _names(tmp_path)


def test_an_empty_directory_is_filled(tmp_path):
    (tmp_path / "new").mkdir()
    with new_folder(tmp_path / "new") as new:
        put(new, "a", b"1")
    assert _names(tmp_path / "new") == ["a"]


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_what_is_there_is_never_replaced(tmp_path, kind):
    place = tmp_path / "there"
    if kind == "file":
        place.write_text("mine")
    elif kind == "folder":
        place.mkdir()
        (place / "mine").touch()
    else:
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="there already"), new_folder(place):
        pytest.fail("the block must not run")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_cannot_be_written_to_is_a_store_error(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(StoreError), new_folder(tmp_path / "locked" / "new"):
        pytest.fail("the block must not run")


def test_a_file_in_the_way_of_a_folder_is_a_store_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError), new_folder(tmp_path / "file" / "new"):
        pytest.fail("the block must not run")


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "a/../../b", "a\\b", "C:x", "", "a//b", "a\nb"])
def test_no_file_is_put_outside(tmp_path, name):
    with pytest.raises(MalformedError):
        put(tmp_path, name, b"")


@pytest.mark.parametrize("names", [("a", "a"), ("a", "a/b"), ("a/b", "a")])
def test_two_files_in_one_place_are_refused(tmp_path, names):
    put(tmp_path, names[0], b"1")
    with pytest.raises(UsageError, match="place"):
        put(tmp_path, names[1], b"2")


def test_files_are_copied_under_their_own_names(tmp_path):
    copy(HeldFiles({"a/b": memoryview(b"1"), "c": memoryview(b"")}), tmp_path)
    assert (tmp_path / "a" / "b").read_bytes() == b"1"
    assert (tmp_path / "c").read_bytes() == b""


def test_a_link_out_of_a_directory_is_told_and_not_followed(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "passwd").symlink_to("/etc/passwd")
    with pytest.raises(CheckFailedError, match="passwd") as caught:
        opened(tmp_path / "in")
    assert caught.value.report.findings[0].rule == "link"


def test_a_pipe_is_told_and_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckFailedError, match="pipe"):
        opened(tmp_path)
