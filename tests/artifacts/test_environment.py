from __future__ import annotations

import platform
import subprocess
import sys

from vitrify.artifacts import environment


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)


def provenance_of(folder):
    script = "import json; from vitrify.artifacts.environment import provenance; print(json.dumps(provenance()))"
    (folder / "train.py").write_text(script)
    done = subprocess.run([sys.executable, folder / "train.py"], capture_output=True, text=True, check=True, cwd="/")
    import json

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
