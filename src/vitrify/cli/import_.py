"""``vitrify import``: take an exported file, or another tool's directory, into the store."""

from __future__ import annotations

import click

from vitrify.cli._options import allow_option, common, open_store


@click.command("import")
@click.argument("path")
@click.argument("name", required=False)
@click.option(
    "--example",
    type=click.Path(),
    metavar="DATA",
    help="CSV, JSON, Parquet, .npy or .npz: what the model is called with.",
)
@allow_option
@common
def command(
    path: str, name: str | None, example: str | None, allow: tuple[str, ...], store: str | None, as_json: bool
) -> None:
    """Take a model into the store, whatever layout it is in; every digest is checked, nothing in it runs.

    PATH is an OCI archive or layout, a directory of MLflow, Hugging Face or KitOps, one that vitrify export wrote, or
    hf://org/name@revision in the cache on this machine. NAME replaces the name that it has.
    """
    from vitrify import package
    from vitrify.cli import _data
    from vitrify.cli._render import progress_bars, show_json

    shown = _data.read(example) if example else None
    with progress_bars():
        artifact = package.import_(path, name, example=shown, allow=allow, store=open_store(store))
    if as_json:
        show_json({"digest": str(artifact.digest), "format": artifact.document.format, "name": artifact.name})
    else:
        click.echo(str(artifact.digest))
