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
from vitrify.trust.policy import default_policy

FILE = "registry.db"


def local_backend(place: str = "", blobs: str | None = None) -> LocalBackend:
    """Return the backend of a database and its content, for the user of this machine.

    Args:
        place: The URL of a database, or a directory that has or gets one; by default the user's.
        blobs: Where the content lies; by default ``$VITRIFY_REGISTRY_BLOBS``, else ``content`` in the directory.

    Raises:
        UsageError: A database on a server is named, and no place for the content.
    """
    content = blobs or os.environ.get("VITRIFY_REGISTRY_BLOBS")
    if "://" in place and not place.startswith("sqlite"):
        if content is None:
            msg = "a database on a server holds the rows; where the content lies was not said"
            raise UsageError(msg, remedy="name it: VITRIFY_REGISTRY_BLOBS=s3://bucket/prefix, or a directory")
        database = Database(place)
    else:
        root = Path(place.removeprefix("sqlite:///")).expanduser() if place else default_root().parent / "registry"
        path = root if root.suffix == ".db" else root / FILE
        database = Database(path)
        content = content or str(path.with_name("content"))
    return LocalBackend(database, open_blobs(content), everyone(who.user()), default_policy())
