"""``vitrify verify``: is it still the same model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vitrify.cli._options import REFERENCE, allow_option, common, open_store

if TYPE_CHECKING:
    from vitrify.core.report import Report


@click.command("verify")
@click.argument("reference", type=REFERENCE, required=False)
@click.option("--runtime", help="Replay on this runtime; by default the artifact's own.")
@allow_option
@common
def command(
    reference: str | None, runtime: str | None, allow: tuple[str, ...], store: str | None, as_json: bool
) -> None:
    """Hash every byte again and replay the golden samples; without a reference, hash the whole store."""
    from vitrify import stores
    from vitrify.checks.verify import verify
    from vitrify.cli._render import progress_bars, show_json
    from vitrify.core.wire import to_builtins

    where = open_store(store)
    with progress_bars():
        report = verify(reference, runtime=runtime, allow=allow, store=where) if reference else stores.fsck(where)
    if as_json:
        show_json(to_builtins(report))
    else:
        _show(report)
    sys.exit(0 if report.passed else 11)


def _show(report: Report) -> None:
    color = "green" if report.passed else "red"
    click.echo(f"{report.check}: {click.style(report.verdict, fg=color, bold=True)}")
    for finding in report.findings:
        click.echo(f"  - {finding}")
    for key, value in report.details.items():
        if not isinstance(value, dict | list):
            click.echo(f"  {key}: {value}")
