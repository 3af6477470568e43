"""``vitrify predict``: predictions for a data file."""

from __future__ import annotations

import click

from vitrify.cli._options import REFERENCE, allow_option, common, open_store


@click.command("predict")
@click.argument("reference", type=REFERENCE)
@click.argument("data", metavar="DATA|-")
@click.option("--runtime", help="Catalog name; by default the artifact's own.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write .npz instead of printing.")
@allow_option
@common
def command(
    reference: str,
    data: str,
    runtime: str | None,
    output: str | None,
    allow: tuple[str, ...],
    store: str | None,
    as_json: bool,
) -> None:
    """Predict from CSV, JSON records, Parquet, .npy or .npz; - reads JSON records from standard input."""
    from vitrify.artifacts import load
    from vitrify.cli import _data
    from vitrify.cli._render import show_json, show_table

    rows = _data.read(data)
    session = load(reference, runtime=runtime, allow=allow, store=open_store(store))
    arrays = session.predict(rows)
    if output:
        _data.write(output, arrays)
        click.echo(output)
        return
    records = _data.to_records(arrays)
    if as_json:
        show_json(records)
    else:
        show_table(tuple(arrays), [tuple(record.values()) for record in records])
