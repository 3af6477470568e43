"""``vitrify show``: one version, and what is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vitrify.cli._registry import common, opened, show_version, split

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.registry.values import Attested


@click.command("show")
@click.argument("reference", metavar="NAME[:VERSION|@ALIAS]")
@common
def command(reference: str, place: str | None, as_json: bool) -> None:
    """Show a version of the registry: what it pins, where it stands, and the evidence about it."""
    with opened(place) as registry:
        version = registry.version(*split(reference))
        show_version(version, as_json=as_json)
        if not as_json:
            _evidence(registry.attestations(version.digest))
            if version.card:
                click.echo(f"\n{version.card}")


def _evidence(attestations: Iterable[Attested]) -> None:
    from vitrify.cli._render import show_table

    rows = [(one.predicate_type, f"{one.created:%Y-%m-%d %H:%M}", one.by, one.digest[7:19]) for one in attestations]
    if rows:
        click.echo()
        show_table(("evidence", "attached", "by", "digest"), rows)
