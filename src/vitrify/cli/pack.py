"""``vitrify pack``: seal a model file."""

from __future__ import annotations

import click

from vitrify.cli._options import allow_option, common, open_store


@click.command("pack")
@click.argument("file", type=click.Path(exists=True))
@click.argument("name")
@click.option(
    "--example", type=click.Path(), metavar="DATA", help="CSV, JSON, Parquet, .npy or .npz: what it is called with."
)
@click.option("--format", "format_", help="Catalog name; by default found from the content.")
@click.option("--to", help="Format to keep a pickled model in; by default the safest for its kind.")
@click.option("--runtime", help="Catalog name of what predicts, here and later; by default the format's own.")
@click.option("--description", default="", help="Free text.")
@allow_option
@common
def command(
    file: str,
    name: str,
    example: str | None,
    format_: str | None,
    to: str | None,
    runtime: str | None,
    description: str,
    allow: tuple[str, ...],
    store: str | None,
    as_json: bool,
) -> None:
    """Seal a model file or directory, recognised by its content; nothing in it runs.

    A pickle becomes an artifact in its model's own safe format.
    """
    from vitrify.artifacts.pack import pack
    from vitrify.cli import _data
    from vitrify.cli._render import progress_bars, show_sealed

    shown = _data.read(example) if example else None
    with progress_bars():
        artifact = pack(
            file,
            name,
            example=shown,
            format=format_,
            to=to,
            runtime=runtime,
            description=description,
            allow=allow,
            store=open_store(store),
        )
    show_sealed(artifact, as_json=as_json)
