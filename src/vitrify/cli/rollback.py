"""``vitrify rollback``: the last good version back into production."""

from __future__ import annotations

import click

from vitrify.cli._registry import comment_option, common, opened, show_version


@click.command("rollback")
@click.argument("name")
@comment_option
@common
def command(name: str, comment: str, place: str | None, as_json: bool) -> None:
    """Put the version back into production that was last there before, and is in good standing."""
    with opened(place) as registry:
        show_version(registry.rollback(name, comment), as_json=as_json)
