"""Targets: what is scanned where a person names files and folders, each with a report of its own.

A folder that some format knows is one target; any other is its files and folders, one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vitrify.inspection.identify import files_at, survey
from vitrify.inspection.watched import branches
from vitrify.reading.files import only

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from vitrify.checks.scan.policy import Policy
    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding


@dataclass(frozen=True)
class Target:
    """A file or folder.

    Attributes:
        path: As the user reaches it.
        skipped: Whether the policy says not to open it.
        left_out: Why it is not opened, where it is a link out of its folder or no file at all.
    """

    path: Path
    skipped: bool = False
    left_out: Finding | None = None


def targets(paths: Iterable[Path], policy: Policy) -> Iterator[Target]:
    """Yield what is to be scanned, in the order in which it is named; of a folder, first its files.

    Raises:
        UsageError: A folder cannot be listed.
    """
    for path in paths:
        if not path.is_dir():
            yield Target(path, skipped=policy.skips(path.as_posix()))
            continue
        if policy.skips(path.as_posix()):
            yield Target(path, skipped=True)
            continue
        files = files_at(path)
        found = list(_branch(path, files, policy, 0))
        yield from found
        whole = {one.path for one in found}  # a folder that is one target tells of its links itself
        for finding in files.left_out:
            place = path / finding.place
            if not whole & {place, *place.parents}:
                yield Target(place, skipped=policy.skips(place.as_posix()), left_out=finding)


def _branch(path: Path, files: Files, policy: Policy, level: int) -> Iterator[Target]:
    """Yield a folder, or what is in it. A folder of one file is that file."""
    if only(files) is None and survey(files).found:
        yield Target(path)
        return
    for folder, branch in branches(files, files.names(), level):
        place, name = path / folder, only(branch)
        if folder and policy.skips(place.as_posix()):
            yield Target(place, skipped=True)
        elif name is None:
            yield from _branch(place, branch, policy, level + 1)
        else:
            yield Target(place / name, skipped=policy.skips((place / name).as_posix()))
