"""``vitrify rename``: another name for a model of the registry."""

from __future__ import annotations

import click

from vitrify.cli._registry import common, opened, show_model


@click.command("rename")
@click.argument("name")
@click.argument("new", metavar="NEW-NAME")
@common
def command(name: str, new: str, place: str | None, as_json: bool) -> None:
    """Give a model of the registry another name; its versions, aliases and history come along."""
    with opened(place) as registry:
        show_model(registry.rename_model(name, new), as_json=as_json)
