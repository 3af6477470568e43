"""``vitrify registry restore``: a registry from a backup."""

from __future__ import annotations

from pathlib import Path

import click

from vitrify.cli._registry import common
from vitrify.cli._registry_local import opened_here


@click.command("restore")
@click.argument("source", type=click.Path(exists=True, file_okay=False))
@common
def command(source: str, place: str | None, as_json: bool) -> None:
    """Make a registry from a backup, in the empty place that --registry names.

    Nothing of it is seen before every hash was compared and the whole log verified.
    """
    from vitrify.cli._render import progress_bars, show_json, size
    from vitrify.core.wire import to_builtins
    from vitrify.registry.backup import restore

    with opened_here(place, "a registry is restored", create=True) as backend, progress_bars():
        done = restore(Path(source), backend.database, backend.blobs)
    if as_json:
        show_json(to_builtins(done))
        return
    rows = sum(table.rows for table in done.tables)
    click.echo(f"restored {rows} rows, {done.content} blobs, {size(done.bytes)}; the log ends with event {done.seq}")
