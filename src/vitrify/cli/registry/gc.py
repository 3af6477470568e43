"""``vitrify registry gc``: delete content that nothing leads to any more."""

from __future__ import annotations

from datetime import timedelta

import click

from vitrify.cli._registry import common
from vitrify.cli._registry_local import opened_here


@click.command("gc")
@click.option("--grace", type=click.FloatRange(0), default=24, help="Hours since something was touched.  [default: 24]")
@click.option("--dry-run", is_flag=True, help="Say what would go; delete nothing.")
@common
def command(grace: float, dry_run: bool, place: str | None, as_json: bool) -> None:
    """Delete content that no version, no file of a run and no upload in flight needs.

    Safe while others use the registry: what was uploaded within the grace stays. Run it once a day.
    """
    from vitrify.cli._render import show_json, size
    from vitrify.core.wire import to_builtins
    from vitrify.registry.garbage import collect

    with opened_here(place, "content is collected") as backend:
        done = collect(backend.database, backend.blobs, timedelta(hours=grace), dry_run=dry_run)
    if as_json:
        show_json({**to_builtins(done), "dryRun": dry_run})
        return
    click.echo(f"{'would delete' if dry_run else 'deleted'} {done.blobs} blobs, {size(done.bytes)}")
    if done.adopted:
        click.echo(f"found {done.adopted} blobs that nothing knew; they go a grace later")
    if done.uploads:
        click.echo(f"gave up {done.uploads} uploads to which nothing was added for a week")
