"""``vitrify gc``: delete what no name leads to."""

from __future__ import annotations

import click

from vitrify.cli._options import common, open_store


@click.command("gc")
@click.option("--dry-run", is_flag=True, help="Say what would go; delete nothing.")
@common
def command(dry_run: bool, store: str | None, as_json: bool) -> None:
    """Delete every blob that nothing in the index needs: what was removed or overwritten, and its attestations."""
    from vitrify import stores
    from vitrify.cli._render import progress_bars, show_json, size

    with progress_bars():
        collected = stores.collect(open_store(store), dry_run=dry_run)
    if as_json:
        removed = [str(digest) for digest in collected.removed]
        show_json({"removed": removed, "bytes": collected.bytes, "dryRun": dry_run})
    else:
        verb = "would delete" if dry_run else "deleted"
        click.echo(f"{verb} {len(collected.removed)} blobs, {size(collected.bytes)}")
