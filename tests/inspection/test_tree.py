from __future__ import annotations

import os

import pytest

from vitrify.inspection.identify import files_at


def listed(path):
    files = files_at(path)
    return set(files.names()), {(one.place, one.rule) for one in files.left_out}


def test_a_link_to_a_file_inside_is_followed(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_bytes(b"a")
    (tmp_path / "b").symlink_to("sub/a")
    assert listed(tmp_path) == ({"sub/a", "b"}, set())
    assert files_at(tmp_path).read("b") == b"a"


def test_a_link_that_leaves_the_directory_is_told_and_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    home = tmp_path / "home"
    home.mkdir()
    (home / "relative").symlink_to("../secret")
    (home / "absolute").symlink_to(secret)
    (home / "folder").symlink_to(tmp_path)
    (home / "chain").symlink_to("relative")
    assert listed(home) == (set(), {(name, "link") for name in ("relative", "absolute", "folder", "chain")})


def test_links_that_lead_nowhere_or_in_circles_are_told(tmp_path):
    (tmp_path / "dangling").symlink_to("nothing")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "self").symlink_to(".")
    assert listed(tmp_path) == (set(), {("dangling", "link"), ("circle", "link"), ("self", "link")})


@pytest.mark.parametrize(
    ("blob", "followed"), [("a" * 64, True), ("a" * 40, True), ("secret", False), ("A" * 64, False)]
)
def test_a_snapshot_of_a_cache_may_link_to_its_blobs_only(blob, followed, tmp_path):
    snapshot = tmp_path / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / blob).write_bytes(b"x")
    (snapshot / "f").symlink_to(f"../../blobs/{blob}")
    assert listed(snapshot) == (({"f"}, set()) if followed else (set(), {("f", "link")}))


def test_pipes_are_told_and_never_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to pipe").symlink_to("pipe")
    assert listed(tmp_path) == (set(), {("pipe", "special-file"), ("to pipe", "link")})
