"""What the commands share that need the registry's database itself, and not a server in front of it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from vitrify.cli._registry import opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.registry.local import LocalBackend


@contextmanager
def opened_here(place: str | None, what: str, *, create: bool = False) -> Iterator[LocalBackend]:
    """Open a registry by its database.

    Raises:
        UsageError: The place is a server.
    """
    from vitrify.core.errors import UsageError
    from vitrify.registry.local import LocalBackend

    with opened(place, create=create) as registry:
        if not isinstance(registry.backend, LocalBackend):
            msg = f"{what} where the database is, and {place} is a server"
            raise UsageError(msg, remedy="name the database: --registry postgresql://user@host/name")
        yield registry.backend
