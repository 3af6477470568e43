"""GTO's convention: versions and stages of models as git tags.

========================  ===========================================================
``churn@v1.2.3``          version 1.2.3 of ``churn`` is this commit
``churn@v1.2.3!``         and no longer counts
``churn#prod#4``          the version at this commit is in the stage ``prod``
``churn#prod!#5``         and no longer is
``churn@deprecated#6``    ``churn`` is no longer used
``churn@created#1``       ``churn`` is announced
========================  ===========================================================

The number at the end counts the events of one name, because git has each tag once. Names of models may have a folder,
written ``folder=name`` in a tag and ``folder:name`` by people. Tags are events, and the state follows from them in the
order of their times.

Source: https://dvc.org/doc/gto/user-guide (the grammar is that of GTO 1.x, ``gto/constants.py``).
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from vitrify.core.errors import (
    ConflictError,
    LimitExceededError,
    MissingDependencyError,
    ReferenceNotFoundError,
    StoreError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Action = Literal["register", "deregister", "assign", "unassign", "deprecate", "create"]

_NAME = r"[a-z0-9](?:[a-z0-9/-]*[a-z0-9])?"
_FOLDER = r"[a-z0-9_./-]+="
_NUMBER = r"(?:0|[1-9][0-9]*)"
_PRE = rf"(?:{_NUMBER}|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMVER = rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PRE}(?:\.{_PRE})*)?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?"
_TAG = re.compile(
    rf"(?P<name>(?:{_FOLDER})?{_NAME})"
    rf"(?:(?:#(?P<stage>{_NAME})|@(?P<version>v{_SEMVER}))(?P<cancel>!?)|@(?P<word>deprecated|created))"
    r"(?:#(?P<count>[0-9]{1,9}))?",
    re.ASCII,
)
_REFUSED = re.compile(r"\.\.|\.lock(?:/|$)|//|/\.|^[./-]|/$|\.$")
"""What git allows in no tag (git-check-ref-format), or would take for an option."""
_MAX_TAG, _MAX_TAGS, _MAX_OUTPUT, _MAX_MESSAGE = 400, 100_000, 64 * 1024 * 1024, 64 * 1024
_SECONDS = 60
_ELSEWHERE = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE"})
_REF = re.compile(r"(?!-)[A-Za-z0-9][A-Za-z0-9._/@#=!^~+-]{0,399}", re.ASCII)
_WORDS: dict[str, Action] = {"deprecated": "deprecate", "created": "create"}
_FIELDS = "%(objecttype)%00%(*objectname)%00%(objectname)%00%(taggerdate:unix)%00%(refname:strip=2)"


@dataclass(frozen=True)
class GtoEvent:
    """What one tag says.

    Attributes:
        name: The model, ``churn`` or ``folder:churn``.
        action: What happened to it.
        version: ``v1.2.3``, of a register or a deregister.
        stage: Of an assign or an unassign.
        count: The number at the end; None where the tag has none.
    """

    name: str
    action: Action
    version: str | None = None
    stage: str | None = None
    count: int | None = None


@dataclass(frozen=True)
class GtoVersion:
    """One version: its name, the commit it is, and when it was registered, in seconds since 1970."""

    version: str
    commit: str
    when: int


@dataclass(frozen=True)
class GtoModel:
    """The state of one name.

    Attributes:
        versions: Those that count, in the order of semantic versioning.
        stages: Stage to the version that is in it; to the commit, where no version is at that commit.
        deprecated: Whether it is no longer used.
        events: How many tags are about it.
    """

    versions: tuple[GtoVersion, ...] = ()
    stages: dict[str, str] = field(default_factory=dict)
    deprecated: bool = False
    events: int = 0

    @property
    def latest(self) -> str | None:
        """The greatest version; None where there is none."""
        return self.versions[-1].version if self.versions else None


def parse(tag: str) -> GtoEvent | None:
    """Return what a tag says; None where it is no tag of GTO's."""
    found = _TAG.fullmatch(tag) if len(tag) <= _MAX_TAG and not _REFUSED.search(tag) else None
    if found is None:
        return None
    name, count = found["name"].replace("=", ":"), int(found["count"]) if found["count"] else None
    if found["word"]:
        return GtoEvent(name, _WORDS[found["word"]], count=count)
    if found["stage"]:
        return GtoEvent(name, "unassign" if found["cancel"] else "assign", stage=found["stage"], count=count)
    return GtoEvent(name, "deregister" if found["cancel"] else "register", version=found["version"], count=count)


def render(event: GtoEvent) -> str:
    """Return the tag that says this; :func:`parse` gives the event back.

    Raises:
        UsageError: A name, a stage or a version is not what a tag can hold.
    """
    cancel = "!" if event.action in {"deregister", "unassign"} else ""
    what = {
        "register": f"@{event.version}",
        "deregister": f"@{event.version}",
        "assign": f"#{event.stage}",
        "unassign": f"#{event.stage}",
        "deprecate": "@deprecated",
        "create": "@created",
    }[event.action]
    count = "" if event.count is None else f"#{event.count}"
    tag = f"{event.name.replace(':', '=')}{what}{cancel}{count}"
    if parse(tag) != event:
        msg = f"git tags in GTO's convention cannot say {event}"
        remedy = "names and stages have lower-case letters, digits, - and /; versions are v1.2.3"
        raise UsageError(msg, remedy=remedy)
    return tag


def read(repository: Path) -> dict[str, GtoModel]:
    """Return the state of every model that a repository's tags are about, by name.

    Raises:
        ReferenceNotFoundError: It is no git repository.
        LimitExceededError: It has more than 100,000 tags.
        MissingDependencyError: git is not installed.
    """
    return replay(_events(repository))


def replay(events: Iterable[tuple[GtoEvent, str, int]]) -> dict[str, GtoModel]:
    """Return the state that follows from events, each with its commit and its time, in their order."""
    state: dict[str, GtoModel] = {}
    for event, commit, when in events:
        model = state.get(event.name, GtoModel())
        state[event.name] = replace(_after(model, event, commit, when), events=model.events + 1)
    return state


def write(repository: Path, event: GtoEvent, message: str, *, commit: str = "HEAD") -> str:
    """Make an annotated tag and return its name; nothing is pushed.

    An event that needs a number and has none gets the next one.

    Args:
        repository: The working tree or the bare repository.
        event: What to say.
        message: The tag's message; it may not be empty.
        commit: What it is about: a commit, a branch or a tag.

    Raises:
        UsageError: The event cannot be said, or the message is empty or too long.
        ReferenceNotFoundError: There is no such repository or commit.
        ConflictError: There is such a tag already.
        StoreError: git could not do it.
    """
    if not message.strip() or len(message) > _MAX_MESSAGE or "\0" in message:
        msg = f"a tag's message has 1 to {_MAX_MESSAGE} characters, and no zero byte"
        raise UsageError(msg)
    if not _REF.fullmatch(commit):
        msg = f"not a commit, a branch or a tag: {commit!r:.200}"
        raise UsageError(msg)
    render(event)  # a name that is none is said before git is asked
    if event.count is None and event.action not in {"register", "deregister"}:
        event = replace(event, count=_next(repository, event.name))
    tag = render(event)
    found = _git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    if found.returncode:
        msg = f"{repository}: there is no commit {commit!r}"
        raise ReferenceNotFoundError(msg, remedy="see what there is: git log")
    target = found.stdout.decode().strip()
    done = _git(
        repository, "tag", "--annotate", "--no-sign", "--cleanup=verbatim", f"--message={message}", "--", tag, target
    )
    if done.returncode:
        text = done.stderr.decode(errors="replace").strip()[:300]
        if "already exists" in text:
            msg = f"{repository}: there is a tag {tag} already"
            raise ConflictError(msg, remedy="choose the next version or number; a tag says the same for ever")
        msg = f"{repository}: git could not make the tag {tag}: {text}"
        raise StoreError(msg)
    return tag


def _after(model: GtoModel, event: GtoEvent, commit: str, when: int) -> GtoModel:
    versions = {one.version: one for one in model.versions}
    stages = dict(model.stages)
    match event.action:
        case "register":
            versions[str(event.version)] = GtoVersion(str(event.version), commit, when)
        case "deregister":
            versions.pop(str(event.version), None)
            stages = {stage: version for stage, version in stages.items() if version != event.version}
        case "assign":
            here = [one.version for one in model.versions if one.commit == commit]
            stages[str(event.stage)] = here[-1] if here else commit
        case "unassign":
            stages.pop(str(event.stage), None)
        case "deprecate":
            return replace(model, deprecated=True)
        case "create":
            return replace(model, deprecated=False)
    ordered = sorted(versions.values(), key=lambda one: _order(one.version))
    return replace(model, versions=tuple(ordered), stages=stages)


def _order(version: str) -> tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]:
    """Return what versions sort by: semver.org, clause 11. Build metadata does not count."""
    core, _, before = version.removeprefix("v").partition("+")[0].partition("-")
    parts = tuple((not one.isdigit(), int(one) if one.isdigit() else 0, one) for one in before.split(".") if before)
    return tuple(map(int, core.split("."))), not before, parts


def _events(repository: Path) -> list[tuple[GtoEvent, str, int]]:
    done = _git(repository, "for-each-ref", f"--count={_MAX_TAGS + 1}", f"--format={_FIELDS}", "refs/tags")
    if done.returncode:
        msg = f"{repository} is no git repository ({done.stderr.decode(errors='replace').strip()[:200]})"
        raise ReferenceNotFoundError(msg, remedy="name a directory that git knows")
    lines = done.stdout.split(b"\n")[:-1]
    if len(lines) > _MAX_TAGS or len(done.stdout) > _MAX_OUTPUT:
        msg = f"{repository} has more than {_MAX_TAGS} tags"
        raise LimitExceededError(msg)
    found = []
    for line in lines:
        kind, target, own, when, tag = line.decode(errors="replace").split("\0")
        event = parse(tag)
        if event is not None and kind in {"tag", "commit"}:
            # GTO writes annotated tags; one without a time of its own counts as older than all others.
            found.append((event, target if kind == "tag" else own, int(when) if when.lstrip("-").isdigit() else 0))
    return sorted(found, key=lambda one: (one[2], one[0].count or 0))


def _next(repository: Path, name: str) -> int:
    counts = [event.count or 0 for event, _, _ in _events(repository) if event.name == name]
    return max(counts, default=0) + 1


def _git(repository: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = ["git", "-C", str(repository.absolute()), *arguments]
    # Variables of a git that called us would lead to its own repository; messages are compared in English.
    known = {key: value for key, value in os.environ.items() if key not in _ELSEWHERE}
    environment = {**known, "LC_ALL": "C"}
    try:
        # git, without a shell; every word of the command was checked.
        return subprocess.run(  # noqa: S603 (see above)
            command, capture_output=True, check=False, timeout=_SECONDS, stdin=subprocess.DEVNULL, env=environment
        )
    except FileNotFoundError as error:
        raise MissingDependencyError("git is not installed", remedy="install git") from error
    except subprocess.TimeoutExpired as error:
        msg = f"{repository}: git did not answer within {_SECONDS} seconds"
        raise StoreError(msg) from error
