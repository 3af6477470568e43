"""Versions and stages as git tags, by the command line, in a real repository."""

import json
import subprocess

import pytest


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "ann")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ann@example.org")
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    return tmp_path


def test_versions_and_stages_are_tagged_and_read(call, repository):
    assert call("gto", "register", "churn", "v1.0.0")[1].strip() == "churn@v1.0.0"
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "second"], check=True)
    assert call("gto", "register", "churn", "v1.1.0", "-m", "with age")[1].strip() == "churn@v1.1.0"
    assert call("gto", "assign", "churn", "production", "--commit", "churn@v1.0.0")[0] == 0
    tags = subprocess.run(["git", "tag"], check=True, capture_output=True, text=True).stdout.split()
    assert sorted(tags) == ["churn#production#1", "churn@v1.0.0", "churn@v1.1.0"]
    shown = json.loads(call("gto", "show", "--json")[1])["churn"]
    assert [one["version"] for one in shown["versions"]] == ["v1.0.0", "v1.1.0"]
    assert shown["stages"] == {"production": "v1.0.0"}
    assert "production: v1.0.0" in call("gto", "show")[1]
    assert call("gto", "deprecate", "churn")[0] == 0
    assert "deprecated" in call("gto", "show")[1]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("register", "churn", "one"), 2),
        (("register", "--upload-pack=x", "v1.0.0"), 2),
        (("register", "churn", "v1.0.0", "--commit", "nothing"), 3),
        (("assign", "churn", "--", "-x"), 2),
    ],
)
def test_what_is_no_tag_is_refused(call, repository, arguments, code):
    assert call("gto", *arguments)[0] == code


def test_a_tag_is_given_once(call, repository):
    assert call("gto", "register", "churn", "v1.0.0")[0] == 0
    assert call("gto", "register", "churn", "v1.0.0")[0] == 14
