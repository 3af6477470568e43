"""``vitrify formats``: the map."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vitrify.cli._options import json_option

if TYPE_CHECKING:
    from vitrify.core.row import Kind


@click.command("formats")
@json_option
def command(as_json: bool) -> None:
    """Show formats, runtimes and the roads between formats, and what is installed."""
    from dataclasses import asdict

    from vitrify.cli._render import show_json, show_table
    from vitrify.core.catalog import catalog

    kinds: tuple[Kind, ...] = ("format", "runtime", "transform", "check", "container", "store")
    if as_json:
        show_json(
            {kind: [{**asdict(row), "installed": row.installed()} for row in catalog().rows(kind)] for kind in kinds}
        )
        return
    for kind in kinds[:3]:
        rows = [(row.name, _where(row), "yes" if row.installed() else f"[{row.extra}]") for row in catalog().rows(kind)]
        show_table((kind, "what", "installed"), rows, title="")


def _where(row: object) -> str:
    from vitrify.core.row import Row

    assert isinstance(row, Row)
    if row.source:
        return f"{row.source} -> {row.destination}, {row.fidelity}: {row.summary}"
    return row.summary
