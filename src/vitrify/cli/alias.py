"""``vitrify alias``: a free name for a version."""

from __future__ import annotations

import click

from vitrify.cli._registry import common, opened, show_version, split


@click.command("alias")
@click.argument("reference", metavar="NAME[:VERSION]")
@click.argument("alias")
@click.option("--remove", is_flag=True, help="Take the alias away.")
@common
def command(reference: str, alias: str, remove: bool, place: str | None, as_json: bool) -> None:
    """Give a version a name of its own within its model: alias churn:1.2.0 champion."""
    name, which = split(reference)
    with opened(place) as registry:
        if remove:
            registry.remove_alias(name, alias)
        else:
            show_version(registry.set_alias(name, alias, which), as_json=as_json)
