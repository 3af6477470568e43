"""Who we are to a registry: from the file that ``docker login``, ``skopeo login`` and ``oras login`` write.

Source: the ``auths`` of Docker's ``config.json`` and of ``containers-auth.json(5)``.
"""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from vitrify.core.errors import MalformedError
from vitrify.core.nesting import shallow
from vitrify.stores._index import read_bounded

_MAX_BYTES = 1024 * 1024
_HUB = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})


@dataclass(frozen=True)
class Credentials:
    """A user and a password, or a token that the token server takes in their place. Never shown."""

    user: str
    password: str
    refresh_token: str = ""

    def __repr__(self) -> str:
        return f"Credentials({self.user!r}, ...)"

    @property
    def basic(self) -> str:
        """The value of an ``Authorization`` header."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def credentials(host: str) -> Credentials | None:
    """Return what the user's file says about a host, or None.

    Raises:
        MalformedError: The file is not what it should be; the message shows nothing of it.
    """
    path = _place()
    data = read_bounded(path, _MAX_BYTES) if path else None
    if data is None:
        return None
    try:
        raw = msgspec.json.decode(shallow(data))
        auths = raw.get("auths") or {} if isinstance(raw, dict) else None
        found = {_host(key): entry for key, entry in auths.items()} if isinstance(auths, dict) else None
    except (msgspec.DecodeError, RecursionError):
        found = None
    if found is None:
        msg = f"{path}: no file of credentials (expected a JSON object with auths)"
        raise MalformedError(msg, remedy=f"log in again: skopeo login {host}")
    entry = next((found[name] for name in _names(host) if name in found), None)
    return _read(entry, host, path) if entry else None


def _read(entry: Any, host: str, path: Path | None) -> Credentials:
    try:
        token = entry.get("identitytoken") or ""
        if coded := entry.get("auth"):
            user, colon, password = base64.b64decode(coded, validate=True).decode().partition(":")
        else:
            user, colon, password = entry.get("username", ""), ":", entry.get("password", "")
        good = colon and all(isinstance(part, str) for part in (user, password, token))
    except (AttributeError, TypeError, ValueError, binascii.Error):
        good = False
    if not good:
        msg = f"{path}: the entry of {host} has no user and password"
        raise MalformedError(msg, remedy=f"log in again: skopeo login {host}")
    return Credentials(user, password.rstrip("\0"), token)


def _place() -> Path | None:
    if named := os.environ.get("REGISTRY_AUTH_FILE"):
        return Path(named)
    if folder := os.environ.get("DOCKER_CONFIG"):
        return Path(folder) / "config.json"
    try:
        return Path.home() / ".docker" / "config.json"
    except RuntimeError:
        return None


def _host(key: str) -> str:
    """Return the host of an entry, which old files write as a URL."""
    return key.removeprefix("https://").removeprefix("http://").partition("/")[0]


def _names(host: str) -> tuple[str, ...]:
    return (host, *sorted(_HUB)) if host in _HUB else (host,)
