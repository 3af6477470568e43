"""``vitrify search``: versions by a query."""

from __future__ import annotations

import click

from vitrify.cli._registry import common, opened, show_versions


@click.command("search")
@click.argument("query", nargs=-1)
@click.option("-n", "--limit", type=click.IntRange(min=1), default=100, help="At most so many.  [default: 100]")
@common
def command(query: tuple[str, ...], limit: int, place: str | None, as_json: bool) -> None:
    """Find versions: search "stage = production and metrics.auc >= 0.9 order by created desc".

    Fields: name, version, number, stage, status, author, owner, licence, description, digest, commit, run, format,
    alias, created, updated, tags.KEY, metrics.KEY, parameters.KEY, datasets.KEY. Operators: = != < <= > >=, ~ and !~
    for globs, in (...), and, or, not. A word alone is looked for in names and descriptions.
    """
    with opened(place) as registry:
        show_versions(registry.search(" ".join(query), limit), as_json=as_json)
