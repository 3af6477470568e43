"""Environment and provenance: what a model needs, and where it came from."""

from __future__ import annotations

import inspect
import platform
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify.core import who
from vitrify.core.document import Environment

if TYPE_CHECKING:
    from collections.abc import Iterable

_GIT_SECONDS = 10
_OURS = {"vitrify", "msgspec"}
"""What every Vitrify process imports; a model needs none of it."""


def capture(modules: Iterable[str]) -> Environment:
    """Return the environment in which ``modules`` were imported.

    Args:
        modules: Names of imported modules; each installed distribution that provides one is listed.
    """
    tops = {module.partition(".")[0] for module in modules}
    names = {one.metadata["Name"] for one in metadata.distributions() if not tops.isdisjoint(_tops(one))}
    return Environment(
        python=platform.python_version(),
        platform=f"{sys.platform}-{platform.machine()}",
        distributions={name: metadata.version(name) for name in sorted(names, key=str.lower) if name not in _OURS},
    )


def _tops(distribution: metadata.Distribution) -> set[str]:
    """Return what can be imported of a distribution, as ``importlib.metadata.packages_distributions`` finds it.

    That one makes a path of every installed file, of which there may be a hundred thousand, for their first parts.
    """
    if declared := (distribution.read_text("top_level.txt") or "").split():
        return set(declared)
    if (record := distribution.read_text("RECORD")) is None:
        return {file.parts[0] if len(file.parts) > 1 else _module(file.name) for file in distribution.files or ()}
    paths = {line.lstrip('"').partition(",")[0] for line in record.splitlines()}
    return {folder if deeper else _module(folder) for folder, deeper, _ in (path.partition("/") for path in paths)}


def _module(file: str) -> str:
    return inspect.getmodulename(file) or ""


def provenance() -> dict[str, Any]:
    """Return who saved, when, and from which git commit (where the training code lies in a repository)."""
    known: dict[str, Any] = {"when": who.now(), "who": who.user()}
    if git := _git(_training_directory()):
        known["git"] = git
    return known


def _training_directory() -> Path:
    """Return the directory of the running script, or the working directory of a notebook or shell.

    An installed program (``vitrify save train.py:model``, say) is nobody's training code: what it was given is, and
    stands first in the path of imports.
    """
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    for place in (str(Path(script).parent), *sys.path[:1]) if script else ():
        if place and not _installed(Path(place).resolve()):
            return Path(place).resolve()
    return Path.cwd()


def _installed(directory: Path) -> bool:
    """Say whether a directory belongs to this Python, or to Vitrify, rather than to whoever uses them."""
    paths = (sysconfig.get_path(name) for name in ("scripts", "stdlib", "purelib", "platlib"))
    own = (Path(__file__).parents[1], *map(Path, paths))
    return any(directory.is_relative_to(one.resolve()) for one in own)


def _git(directory: Path) -> dict[str, Any] | None:
    def ask(*arguments: str) -> str:
        command = ["git", "-C", str(directory), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_GIT_SECONDS)  # noqa: S603 (git, with arguments of ours)
        return done.stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return None
