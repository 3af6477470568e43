"""``vitrify registry migrate``: the database as this version of Vitrify needs it."""

from __future__ import annotations

import click

from vitrify.cli._registry import common, opened


@click.command("migrate")
@common
def command(place: str | None, as_json: bool) -> None:
    """Bring the database to this version of Vitrify.

    Every command does so when it opens an older database; this one does it at a time of your choice, before the
    servers are started. Back the registry up first.
    """
    from vitrify.cli._render import show_json
    from vitrify.core.errors import UsageError
    from vitrify.registry.database.schema import REVISION
    from vitrify.registry.local import LocalBackend

    with opened(place, create=True) as registry:
        if not isinstance(registry.backend, LocalBackend):
            msg = f"{place} is a server; its database is its own"
            raise UsageError(msg, remedy="name the database: vitrify registry migrate --registry PLACE")
    if as_json:
        show_json({"revision": REVISION})
    else:
        click.echo(f"the database is at {REVISION}")
