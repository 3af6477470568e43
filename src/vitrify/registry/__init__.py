"""The system of record: names, versions, stages, approvals, lineage, audit.

>>> from vitrify.registry import open_registry
>>> registry = open_registry()                                 # doctest: +SKIP
>>> registry.register("churn", vitrify.open("churn"), version="1.0.0", metrics={"auc": 0.93})  # doctest: +SKIP
>>> registry.promote("churn", "1.0.0", "production")           # doctest: +SKIP

One laptop needs no server: a SQLite file and a folder of content in the user's data directory. A company names a
PostgreSQL database and an object storage, or the URL of an API server in front of them; the verbs are the same.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vitrify.registry.registry import Registry

__all__ = ["open_registry"]


def open_registry(
    place: str | None = None, *, token: str | None = None, blobs: str | None = None, create: bool = True
) -> Registry:
    """Open a registry.

    Args:
        place: The ``http(s)`` URL of an API server, the URL of a database, or a directory. By default
            ``$VITRIFY_REGISTRY``, else ``registry`` in the user's data directory.
        token: For a server; by default ``$VITRIFY_TOKEN``.
        blobs: Where the content of a database lies: a directory or ``s3://bucket/prefix``. By default
            ``$VITRIFY_REGISTRY_BLOBS``, else the directory itself.
        create: Whether a directory or a database without a registry gets one.

    Raises:
        ReferenceNotFoundError: There is no registry, and none is to be made.
        UsageError: It is no such place, or a database on a server is named without a place for the content.
        UnavailableError: It cannot be reached.
    """
    from vitrify.registry.registry import Registry

    place = place or os.environ.get("VITRIFY_REGISTRY") or ""
    if place.startswith(("http://", "https://")):
        from vitrify.registry.remote import RemoteBackend

        return Registry(RemoteBackend(place, token or os.environ.get("VITRIFY_TOKEN")))
    from vitrify.registry.places import local_backend

    return Registry(local_backend(place, blobs, create=create))
