from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import ConflictError, ReferenceNotFoundError, StoreError, UsageError
from vitrify.package import gto
from vitrify.package.gto import GtoEvent, GtoVersion, parse, render

NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?(/[a-z0-9]{1,4})?", fullmatch=True)
FULL = st.builds(lambda folder, name: f"{folder}:{name}" if folder else name, st.none() | NAMES, NAMES)
NUMBERS = st.integers(0, 999)
VERSIONS = st.builds(
    lambda core, pre, build: f"v{'.'.join(map(str, core))}{'-' + pre if pre else ''}{'+' + build if build else ''}",
    st.tuples(NUMBERS, NUMBERS, NUMBERS),
    st.none() | st.sampled_from(["rc.1", "alpha", "0.3.7", "x-y"]),
    st.none() | st.sampled_from(["5114f85", "001"]),
)
COUNTS = st.none() | st.integers(0, 999_999_999)
EVENTS = st.one_of(
    st.builds(GtoEvent, FULL, st.sampled_from(["register", "deregister"]), version=VERSIONS, count=COUNTS),
    st.builds(GtoEvent, FULL, st.sampled_from(["assign", "unassign"]), stage=NAMES, count=COUNTS),
    st.builds(GtoEvent, FULL, st.sampled_from(["deprecate", "create"]), count=COUNTS),
)


@given(EVENTS)
def test_a_tag_that_was_rendered_is_parsed_to_the_same_event(event):
    assert parse(render(event)) == event


@given(st.text(max_size=60) | st.from_regex(r"[a-z@#!v0-9.=/-]{1,30}", fullmatch=True))
def test_what_is_parsed_is_rendered_to_the_same_event(text):
    event = parse(text)
    assert event is None or parse(render(event)) == event


@pytest.mark.parametrize(
    ("tag", "event"),
    [
        ("churn@v1.2.3", GtoEvent("churn", "register", version="v1.2.3")),
        ("churn@v1.2.3!", GtoEvent("churn", "deregister", version="v1.2.3")),
        ("churn#production#3", GtoEvent("churn", "assign", stage="production", count=3)),
        ("churn#production", GtoEvent("churn", "assign", stage="production")),
        ("churn#production!#4", GtoEvent("churn", "unassign", stage="production", count=4)),
        ("churn@deprecated#5", GtoEvent("churn", "deprecate", count=5)),
        ("churn@deprecated", GtoEvent("churn", "deprecate")),
        ("churn@created#1", GtoEvent("churn", "create", count=1)),
        ("models=churn@v1.0.0-rc.1+b7", GtoEvent("models:churn", "register", version="v1.0.0-rc.1+b7")),
        ("a/b/c@v0.0.1#2", GtoEvent("a/b/c", "register", version="v0.0.1", count=2)),
    ],
)
def test_tags_of_the_convention(tag, event):
    assert parse(tag) == event
    assert render(event) == tag


@pytest.mark.parametrize(
    "tag",
    [
        *("", "v1.2.3", "churn", "churn@1.2.3", "churn@v1.2", "churn@v01.2.3", "Churn@v1.2.3", "churn@v1.2.3!!"),
        *("-churn@v1.2.3", "churn-@v1.2.3", "churn#", "churn#prod#", "churn#prod#x", "churn@deprecated!"),
        *("../x=churn@v1.0.0", "-o=churn@v1.0.0", "a..b=c@v1.0.0", "x.lock/y=c@v1.0.0", "/x=c@v1.0.0", "a//b@v1.0.0"),
        *("churn@v1.2.3\n", "churn@v1.2.3 ", "churn#prod#9999999999", "c" * 500 + "@v1.0.0", "churn@v1.2.3\x00"),
    ],
)
def test_other_tags_are_none(tag):
    assert parse(tag) is None


@pytest.mark.parametrize(
    "event",
    [
        GtoEvent("-x", "register", version="v1.0.0"),
        GtoEvent("churn", "register", version="1.0.0"),
        GtoEvent("churn", "register"),
        GtoEvent("churn", "assign"),
        GtoEvent("churn", "assign", stage="Prod"),
        GtoEvent("churn", "assign", stage="prod", version="v1.0.0"),
        GtoEvent("churn", "deprecate", count=-1),
        GtoEvent("a=b", "register", version="v1.0.0"),
        GtoEvent("churn --force", "register", version="v1.0.0"),
    ],
)
def test_events_that_no_tag_can_say_are_refused(event):
    with pytest.raises(UsageError, match="cannot say"):
        render(event)


def _replayed(*tags):
    return gto.replay((parse(tag), commit, when) for when, (tag, commit) in enumerate(tags))


def test_the_state_follows_from_the_events():
    state = _replayed(
        ("churn@v1.0.0", "a"),
        ("churn#prod#1", "a"),
        ("churn@v1.10.0", "b"),
        ("churn@v1.9.0", "c"),
        ("churn#prod#2", "b"),
    )
    model = state["churn"]
    assert [one.version for one in model.versions] == ["v1.0.0", "v1.9.0", "v1.10.0"]
    assert model.versions[0] == GtoVersion("v1.0.0", "a", 0)
    assert (model.latest, model.stages, model.deprecated, model.events) == ("v1.10.0", {"prod": "v1.10.0"}, False, 5)


def test_a_version_that_no_longer_counts_leaves_its_stages():
    state = _replayed(("churn@v1.0.0", "a"), ("churn#prod#1", "a"), ("churn#dev#2", "a"), ("churn@v1.0.0!", "a"))
    assert state["churn"].versions == ()
    assert state["churn"].stages == {}
    assert state["churn"].latest is None


def test_a_stage_is_left_and_a_model_deprecated_and_created_again():
    state = _replayed(
        ("x@v1.0.0", "a"), ("x#prod#1", "a"), ("x#prod!#2", "a"), ("x@deprecated#3", "a"), ("y@created", "b")
    )
    assert state["x"].stages == {}
    assert state["x"].deprecated
    assert not state["y"].deprecated
    assert not _replayed(("x@deprecated#1", "a"), ("x@created#2", "a"))["x"].deprecated


def test_a_stage_at_a_commit_without_a_version_names_the_commit():
    assert _replayed(("x#dev#1", "abc"))["x"].stages == {"dev": "abc"}


@pytest.mark.parametrize("before", ["v1.0.0-alpha", "v1.0.0-alpha.1", "v1.0.0-beta.2", "v1.0.0-beta.11", "v1.0.0-rc.1"])
def test_versions_are_ordered_as_semantic_versioning_has_it(before):
    order = ["v1.0.0-alpha", "v1.0.0-alpha.1", "v1.0.0-alpha.beta", "v1.0.0-beta", "v1.0.0-beta.2", "v1.0.0-beta.11"]
    order += ["v1.0.0-rc.1", "v1.0.0"]
    state = _replayed(*((f"x@{version}", "a") for version in reversed(order)))
    assert [one.version for one in state["x"].versions] == order
    assert before in order


@pytest.fixture
def repository(tmp_path, monkeypatch):
    for key in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{key}_NAME", "A")
        monkeypatch.setenv(f"{key}_EMAIL", "a@example.org")
    folder = tmp_path / "repository"
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    for text in ("one", "two"):
        subprocess.run(["git", "-C", folder, "commit", "--quiet", "--allow-empty", "-m", text], check=True)
    return folder


@pytest.mark.external
def test_tags_are_written_and_the_state_is_read(repository):
    assert gto.read(repository) == {}
    assert (
        gto.write(repository, GtoEvent("churn", "register", version="v1.0.0"), "first", commit="HEAD~1")
        == "churn@v1.0.0"
    )
    gto.write(repository, GtoEvent("churn", "register", version="v1.1.0"), "second")
    assert (
        gto.write(repository, GtoEvent("churn", "assign", stage="prod"), "# go", commit="churn@v1.0.0")
        == "churn#prod#1"
    )
    assert gto.write(repository, GtoEvent("churn", "assign", stage="prod"), "up") == "churn#prod#2"
    model = gto.read(repository)["churn"]
    assert [one.version for one in model.versions] == ["v1.0.0", "v1.1.0"]
    assert model.stages == {"prod": "v1.1.0"}
    shown = subprocess.run(
        ["git", "-C", repository, "tag", "-l", "--format=%(contents)", "churn#prod#1"], capture_output=True, check=True
    )
    assert shown.stdout.strip() == b"# go"


@pytest.mark.external
def test_a_tag_is_written_once(repository):
    event = GtoEvent("churn", "register", version="v1.0.0")
    gto.write(repository, event, "x")
    with pytest.raises(ConflictError, match=r"churn@v1\.0\.0"):
        gto.write(repository, event, "x", commit="HEAD~1")


@pytest.mark.external
@pytest.mark.parametrize("commit", ["--help", "-d", "nothing", "a b", "", "HEAD;true", "refs/heads/../x"])
def test_a_commit_that_is_none_is_refused_and_no_tag_made(repository, commit):
    with pytest.raises((UsageError, ReferenceNotFoundError)):
        gto.write(repository, GtoEvent("churn", "register", version="v1.0.0"), "x", commit=commit)
    assert gto.read(repository) == {}


@pytest.mark.external
@pytest.mark.parametrize("message", ["", "  \n", "x" * 70_000, "a\0b"])
def test_a_message_that_git_cannot_keep_is_refused(repository, message):
    with pytest.raises(UsageError):
        gto.write(repository, GtoEvent("churn", "register", version="v1.0.0"), message)


@pytest.mark.external
def test_other_tags_and_lightweight_ones_do_no_harm(repository):
    for tag in ("v1.0.0", "release/2", "churn@v0.1.0"):
        subprocess.run(["git", "-C", repository, "tag", tag], check=True)
    state = gto.read(repository)
    assert list(state) == ["churn"]
    assert state["churn"].versions[0].when == 0
    assert len(state["churn"].versions[0].commit) == 40


@pytest.mark.external
def test_no_repository_and_no_identity_are_said(tmp_path, repository, monkeypatch):
    with pytest.raises(ReferenceNotFoundError, match="no git repository"):
        gto.read(tmp_path)
    for key in list(os.environ):
        if key.startswith("GIT_"):
            monkeypatch.delenv(key)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.useConfigOnly")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    with pytest.raises(StoreError, match="could not make the tag"):
        gto.write(repository, GtoEvent("churn", "register", version="v1.0.0"), "x")


@pytest.mark.external
def test_the_repository_of_a_git_that_called_us_is_not_taken(repository, tmp_path, monkeypatch):
    other = tmp_path / "other"
    subprocess.run(["git", "init", "--quiet", other], check=True)
    gto.write(repository, GtoEvent("churn", "register", version="v1.0.0"), "x")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert list(gto.read(repository)) == ["churn"]
