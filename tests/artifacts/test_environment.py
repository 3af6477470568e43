from __future__ import annotations

import json
import platform
import subprocess
import sys

from vitrify.artifacts import environment


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    command = ["git", "-C", folder, *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def provenance_of(folder):
    script = "import json; from vitrify.artifacts.environment import provenance; print(json.dumps(provenance()))"
    (folder / "train.py").write_text(script)
    done = subprocess.run([sys.executable, folder / "train.py"], capture_output=True, text=True, check=True, cwd="/")
    return json.loads(done.stdout)


def test_the_environment_lists_the_distributions_of_the_imported_modules_and_nothing_of_the_host():
    found = environment.capture(["numpy.linalg", "click", "json", "vitrify.core", "no_such_module"])
    assert set(found.distributions) == {"numpy", "click"}
    assert found.python == platform.python_version()
    assert platform.node() not in found.to_json().decode()


def test_a_module_name_that_differs_from_its_distributions_is_found():
    assert "scikit-learn" in environment.capture(["sklearn.tree"]).distributions


def test_the_commit_of_the_training_script_is_kept_and_whether_it_was_changed_since(tmp_path):
    git(tmp_path, "init")
    (tmp_path / "data.txt").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    clean = provenance_of(tmp_path)["git"]
    (tmp_path / "data.txt").write_text("2")
    dirty = provenance_of(tmp_path)["git"]
    assert len(clean["commit"]) == 40
    assert clean == {"commit": dirty["commit"], "dirty": False}
    assert dirty["dirty"] is True


def test_a_script_outside_any_repository_has_no_commit(tmp_path):
    assert "git" not in provenance_of(tmp_path)


def test_the_command_line_names_the_commit_of_the_training_code_not_that_of_where_it_is_installed(tmp_path):
    script = (
        "import json, sys, sysconfig; sys.path[0] = sysconfig.get_path('scripts'); "
        "__file__ = sys.path[0] + '/vitrify'; "  # as the program that pip installs has it
        "from vitrify.artifacts.environment import provenance; from vitrify.cli.save import load_object; "
        "sys.argv[1:] and load_object(sys.argv[1]); print(json.dumps(provenance()))"
    )

    def asked(folder, *arguments):
        command = [sys.executable, "-c", script, *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
        return json.loads(done.stdout).get("git", {}).get("commit")

    commits = {}
    for name in ("ours", "elsewhere"):
        folder = tmp_path / name
        folder.mkdir()
        git(folder, "init")
        (folder / "train_it.py").write_text(f"model = {name!r}")
        git(folder, "add", ".")
        git(folder, "commit", "-m", name)
        commits[name] = git(folder, "rev-parse", "HEAD")
    assert asked(tmp_path / "ours") == commits["ours"]
    assert asked(tmp_path / "elsewhere", "../ours/train_it.py:model") == commits["ours"]
    assert asked(tmp_path) is None
