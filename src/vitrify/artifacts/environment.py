"""Environment and provenance: what a model needs, and where it came from."""

from __future__ import annotations

import getpass
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    providers = metadata.packages_distributions()
    names = {name for top in tops for name in providers.get(top, ())}
    return Environment(
        python=platform.python_version(),
        platform=f"{sys.platform}-{platform.machine()}",
        distributions={name: metadata.version(name) for name in sorted(names, key=str.lower) if name not in _OURS},
    )


def provenance() -> dict[str, Any]:
    """Return who saved, when, and from which git commit (where the training code lies in a repository)."""
    known: dict[str, Any] = {"when": now(), "who": user()}
    if git := _git(_training_directory()):
        known["git"] = git
    return known


def now() -> str:
    """Return the time in UTC, to the second, as RFC 3339 has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def user() -> str:
    """Return who runs this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def _training_directory() -> Path:
    """Return the directory of the running script, or the working directory of a notebook or shell."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(script).resolve().parent if script else Path.cwd()


def _git(directory: Path) -> dict[str, Any] | None:
    def ask(*arguments: str) -> str:
        command = ["git", "-C", str(directory), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_GIT_SECONDS)  # noqa: S603 (git, with arguments of ours)
        return done.stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return None
