"""``vitrify rm``: take a name away."""

from __future__ import annotations

import click

from vitrify.cli._options import REFERENCE, common, open_store


@click.command("rm")
@click.argument("names", type=REFERENCE, nargs=-1, required=True)
@common
def command(names: tuple[str, ...], store: str | None, as_json: bool) -> None:
    """Take names away; the bytes stay until ``vitrify gc``."""
    from vitrify.cli._render import show_json
    from vitrify.core import reference

    where = open_store(store)
    tags = [reference.name(name) for name in names]
    for tag in tags:
        where.names.get(tag)
    for tag in tags:
        where.names.unset(tag)
    if as_json:
        show_json({"removed": tags})
    else:
        click.echo("\n".join(tags))
