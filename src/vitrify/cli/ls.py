"""``vitrify ls``: the artifacts in the store."""

from __future__ import annotations

import click

from vitrify.cli._options import common, open_store


@click.command("ls")
@common
def command(store: str | None, as_json: bool) -> None:
    """List the artifacts that have a name."""
    from vitrify.artifacts.artifact import list_artifacts
    from vitrify.cli._render import show_json, show_table, size

    found = list_artifacts(open_store(store))
    if as_json:
        keys = ("name", "digest", "format", "size")
        show_json([dict(zip(keys, (a.name, str(a.digest), a.document.format, a.size), strict=True)) for a in found])
        return
    rows = [(a.name, a.digest.short, a.document.format, size(a.size), a.document.golden) for a in found]
    show_table(("name", "digest", "format", "size", "golden"), rows)
