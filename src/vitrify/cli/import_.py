"""``vitrify import``: take an exported file into the store."""

from __future__ import annotations

from pathlib import Path

import click

from vitrify.cli._options import common, open_store


@click.command("import")
@click.argument("path", type=click.Path(exists=True))
@click.argument("name", required=False)
@common
def command(path: str, name: str | None, store: str | None, as_json: bool) -> None:
    """Verify every digest in an OCI archive and commit what it holds; NAME replaces the name it has."""
    from vitrify import stores
    from vitrify.cli._render import progress_bars, show_json
    from vitrify.core import reference

    where = open_store(store)
    with progress_bars():
        digest = stores.import_(where, Path(path), name=reference.name(name) if name else None)
    if as_json:
        show_json({"digest": str(digest)})
    else:
        click.echo(str(digest))
