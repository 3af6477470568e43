"""What is scanned where a person names files and folders."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save_file

from vitrify.checks.scan.policy import Policy
from vitrify.checks.scan.targets import Target, targets


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "weights").mkdir()
    for name in ("one", "two"):
        save_file({"w": np.zeros(3)}, tmp_path / "weights" / f"{name}.safetensors")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("text")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("text")
    (tmp_path / "b.txt").write_text("text")
    return tmp_path


def listed(tree, policy):
    return [(one.path.relative_to(tree).as_posix(), one.skipped) for one in targets([tree], policy)]


def test_a_folder_is_its_files_and_a_model_s_folder_is_one_target(tree):
    assert listed(tree, Policy()) == [
        ("b.txt", False),
        (".git", True),
        ("docs/a.md", False),
        ("weights", False),
    ]


def test_what_the_policy_skips_is_listed_as_skipped(tree):
    found = listed(tree, Policy(skip=("docs",)))
    assert ("docs", True) in found
    assert not any(name.startswith("docs/") for name, _ in found)


def test_a_file_is_a_target_whether_it_is_there_or_not(tree):
    paths = [tree / "b.txt", tree / "missing"]
    assert list(targets(paths, Policy())) == [Target(path) for path in paths]


def test_a_link_inside_is_a_target_and_one_that_leads_out_is_told(tree, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "secret"
    outside.write_text("text")
    (tree / "docs" / "inside").symlink_to(tree / "b.txt")
    (tree / "docs" / "outside").symlink_to(outside)
    (tree / "weights" / "outside").symlink_to(outside)
    found = {one.path.relative_to(tree).as_posix(): one for one in targets([tree], Policy())}
    assert found["docs/inside"].left_out is None
    assert found["docs/outside"].left_out.rule == "link"
    assert "weights/outside" not in found  # the folder is one target, which tells it itself


def test_folders_as_deep_as_the_system_takes_are_walked(tmp_path):
    folder = tmp_path
    for _ in range(600):
        folder /= "d"
    folder.mkdir(parents=True)
    (folder / "a").write_text("text")
    (tmp_path / "b").write_text("text")
    assert [one.path.name for one in targets([tmp_path], Policy())] == ["b", "a"]
