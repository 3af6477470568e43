"""``vitrify registry backup``: all of a registry in one directory."""

from __future__ import annotations

from pathlib import Path

import click

from vitrify.cli._registry import common
from vitrify.cli._registry_local import opened_here


@click.command("backup")
@click.argument("target", type=click.Path(exists=False))
@click.option("--link", is_flag=True, help="Share the files of content instead of copying them (same disk only).")
@common
def command(target: str, link: bool, place: str | None, as_json: bool) -> None:
    """Write rows and content into a new directory, while the registry is used.

    It is one moment of the registry, of either kind of database, and vitrify registry restore makes either of it.
    """
    from vitrify.cli._render import progress_bars, show_json, size
    from vitrify.core.wire import to_builtins
    from vitrify.registry.backup import back_up

    with opened_here(place, "a registry is backed up") as backend, progress_bars():
        done = back_up(backend.database, backend.blobs, Path(target), link=link)
    if as_json:
        show_json(to_builtins(done))
        return
    rows = sum(table.rows for table in done.tables)
    click.echo(f"{target}: {rows} rows, {done.content} blobs, {size(done.bytes)}; the log ends with event {done.seq}")
