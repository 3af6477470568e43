"""Where a registry without a server lies, and who its user is."""

from __future__ import annotations

import os
from pathlib import Path

from vitrify.core import who
from vitrify.core.errors import UsageError
from vitrify.registry.actor import everyone
from vitrify.registry.blobs import open_blobs
from vitrify.registry.database import Database
from vitrify.registry.local import LocalBackend
from vitrify.stores import default_root
from vitrify.trust.policy import Policy, default_policy

FILE = "registry.db"
_DATABASES = frozenset({"sqlite", "postgres", "postgresql"})


def local_backend(place: str = "", blobs: str | None = None, *, create: bool = True) -> LocalBackend:
    """Return the backend of a database and its content, for the user of this machine.

    Args:
        place: The URL of a database, or a directory that has or gets one; by default the user's.
        blobs: Where the content lies; by default ``$VITRIFY_REGISTRY_BLOBS``, else ``content`` in the directory.
        create: Whether a place without a registry gets one.

    Raises:
        ReferenceNotFoundError: There is no registry, and none is to be made.
        UsageError: It is no such place, or a database on a server without a place for the content.
    """
    scheme, url, _ = place.partition("://")
    if url and scheme.partition("+")[0] not in _DATABASES:
        msg = f"no registry is reached by {scheme}://"
        raise UsageError(msg, remedy="name a directory, a server (https://host) or postgresql://user@host/name")
    content = blobs or os.environ.get("VITRIFY_REGISTRY_BLOBS")
    if url and not place.startswith("sqlite"):
        if content is None:
            msg = "a database on a server holds the rows; where the content lies was not said"
            raise UsageError(msg, remedy="name it: VITRIFY_REGISTRY_BLOBS=s3://bucket/prefix, or a directory")
        database = Database(place, create=create)
    else:
        root = Path(place.removeprefix("sqlite:///")).expanduser() if place else default_root().parent / "registry"
        path = root if root.suffix == ".db" else root / FILE
        database = Database(path, create=create)
        content = content or str(path.with_name("content"))
    return LocalBackend(database, open_blobs(content), everyone(who.user()), _policy())


def _policy() -> Policy | None:
    """Return this machine's policy; its answers reach people who need not know where it lies, and stay in the log."""
    policy = default_policy()
    return policy and policy.called(f"{Path(policy.place).name} (sha256:{policy.sha256[:12]})")
