"""``vitrify export``: an artifact and its attestations in one file."""

from __future__ import annotations

from pathlib import Path

import click

from vitrify.cli._options import REFERENCE, common, open_store


@click.command("export")
@click.argument("reference", type=REFERENCE)
@click.argument("path", type=click.Path(dir_okay=False))
@common
def command(reference: str, path: str, store: str | None, as_json: bool) -> None:
    """Write an OCI archive; the same artifact gives the same bytes."""
    from vitrify import stores
    from vitrify.artifacts import open_artifact
    from vitrify.cli._render import progress_bars, show_json, size

    artifact = open_artifact(reference, store=open_store(store))
    with progress_bars():
        stores.export(artifact.store, artifact.digest, Path(path))
    count = Path(path).stat().st_size
    if as_json:
        show_json({"path": path, "digest": str(artifact.digest), "size": count})
    else:
        click.echo(f"{path}: {artifact}, {size(count)}")
