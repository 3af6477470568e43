"""``vitrify matrix``: one model in every form that it can have, to choose by looking."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import click

from vitrify.cli._options import REFERENCE, TARGET, allow_option, common, open_store

if TYPE_CHECKING:
    from vitrify.transforms.matrix import Form


@click.command("matrix")
@click.argument("reference", type=REFERENCE)
@click.option(
    "--to", "targets", type=TARGET, multiple=True, metavar="FORMAT", help="Try this target only; repeat for more."
)
@click.option("--samples", metavar="DATA", help="Rows to compare on instead of the golden samples.")
@click.option("--rows", type=int, help="Rows to compare, about.")
@click.option("--lossy", is_flag=True, help="Try steps that lose something, too.")
@allow_option
@common
def command(
    reference: str,
    targets: tuple[str, ...],
    samples: str | None,
    rows: int | None,
    lossy: bool,
    allow: tuple[str, ...],
    store: str | None,
    as_json: bool,
) -> None:
    """Convert a model to every target within reach, prove each, and show size, parity, latency and load time.

    Nothing is kept: convert to the one that you choose.
    """
    from vitrify.checks.parity import Parity
    from vitrify.checks.parity.compare import ROWS
    from vitrify.cli import _data
    from vitrify.cli._render import progress_bars, show_json
    from vitrify.core.wire import to_builtins
    from vitrify.transforms.matrix import matrix

    with progress_bars():
        forms = matrix(
            reference,
            targets=targets,
            fidelity="lossy" if lossy else "numeric",
            samples=_data.read(samples) if samples else None,
            checks=[Parity(rows=ROWS if rows is None else rows)],
            allow=allow,
            store=open_store(store),
        )
    if as_json:
        show_json([to_builtins(form) for form in forms])
        return
    _show(forms, reference)


def _show(forms: tuple[Form, ...], name: str) -> None:
    from vitrify.cli._plain import plain
    from vitrify.cli._render import show_facts, show_table
    from vitrify.transforms.matrix import BATCH

    columns = ("form", "verdict", "size", "rows", "largest error", "1 row", f"{BATCH} rows", "load")
    show_table(columns, [_cells(form) for form in forms], title="")
    if reasons := [(form.target, plain(form.why)) for form in forms if form.why]:
        click.echo()
        show_facts(reasons)
    if proven := [form for form in forms if form.verdict == "proven"]:
        fastest = min(proven, key=lambda form: form.one_ms or inf)
        click.echo(f"\nnothing of it was kept; to keep the fastest: vitrify convert {name} --to {fastest.target}")


def _cells(form: Form) -> tuple[str, ...]:
    from vitrify.cli._render import size

    def shown(value: Any, pattern: str) -> str:
        return "" if value is None else pattern.format(value)

    return (
        form.target,
        form.verdict,
        "" if form.size is None else size(form.size),
        shown(form.rows, "{:,}"),
        "0" if form.error == 0 else shown(form.error, "{:.1e}"),
        shown(form.one_ms, "{:.3f} ms"),
        shown(form.batch_ms, "{:.3f} ms"),
        shown(form.load_ms, "{:.1f} ms"),
    )
