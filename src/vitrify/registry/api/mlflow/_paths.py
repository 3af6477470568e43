"""Where artifacts lie: paths that clients choose, and the folders of versions, which nobody can write to.

A version's files are at ``vitrify-versions/<model>/@<number>/``: what stands there is what the version pins. A model's
name may hold ``/`` and never ``@``, so the first ``/@`` ends it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from vitrify.core.errors import DeniedError, UsageError
from vitrify.core.manifest import check_filepath

SCHEME = "mlflow-artifacts"
VERSIONS = "vitrify-versions"
MAX_BYTES = 1000
"""Of a path: what a database's index takes, with room to spare."""
_MAX_PART = 255
_MAX_ENCODED = 5
_PINNED = re.compile(rf"{VERSIONS}/(?P<model>[^@]+)/@(?P<number>[1-9]\d{{0,8}})(?:/(?P<inner>.+))?", re.DOTALL)


@dataclass(frozen=True)
class Pinned:
    """A place inside a version.

    Attributes:
        number: The version's counter.
        inner: The path inside it; empty for its root.
    """

    model: str
    number: str
    inner: str = ""

    @property
    def uri(self) -> str:
        """Where MLflow's clients find it."""
        inner = f"/{self.inner}" if self.inner else ""
        return f"{SCHEME}:/{VERSIONS}/{self.model}/@{self.number}{inner}"


def pinned(path: str) -> Pinned | None:
    """Return the place inside a version that a path names; None for every other path."""
    found = _PINNED.fullmatch(path)
    return Pinned(found["model"], found["number"], found["inner"] or "") if found else None


def check_path(path: str, *, writing: bool = False) -> str:
    """Accept a path of an artifact.

    Raises:
        UsageError: It leaves its folder, is too long, or has a character that some system reads otherwise.
        DeniedError: It lies in a version, and somebody wants to write there.
    """
    read = path
    for _ in range(_MAX_ENCODED):  # MLflow's clients decode a name again before they look at it
        check_filepath(read)
        if (decoded := unquote(read)) == read:
            break
        read = decoded
    else:
        msg = f"a path that is percent-encoded more than {_MAX_ENCODED} times: {path[:200]!r}"
        raise UsageError(msg)
    if len(path.encode()) > MAX_BYTES or any(len(part.encode()) > _MAX_PART for part in path.split("/")):
        msg = (
            f"a path of {len(path.encode())} bytes (expected at most {MAX_BYTES}, and {_MAX_PART} between two slashes)"
        )
        raise UsageError(msg)
    if writing and (path == VERSIONS or path.startswith(f"{VERSIONS}/")):
        msg = f"{path[:200]!r} lies in a registered version, and what a version pins can never change"
        raise DeniedError(msg, remedy="log it somewhere else, and register a new version")
    return path


def below(folder: str) -> tuple[str, str]:
    """Return the bounds of all paths below a folder: from the first, up to but without the second."""
    return f"{folder}/", f"{folder}0"  # "0" follows "/"


def from_uri(uri: str, host: str) -> str:
    """Return the path that an artifact's URI names on this server.

    Raises:
        UsageError: It lies on another server, or is no such URI.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme != SCHEME or parts.query or parts.fragment or parts.netloc not in {"", host}:
        msg = f"{uri[:300]!r} is nothing that this server keeps"
        raise UsageError(
            msg, remedy="log the model here first (mlflow.<flavour>.log_model), then register models:/<model id>"
        )
    return check_path(parts.path.strip("/"))
