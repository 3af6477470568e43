"""``vitrify formats``: the map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from vitrify.cli._options import json_option

if TYPE_CHECKING:
    from vitrify.core.row import Kind, Row


@click.command("formats")
@click.option("--markdown", is_flag=True, help="Print the table of formats for a page of documentation.")
@json_option
def command(as_json: bool, markdown: bool) -> None:
    """Show what can be done with each format, the runtimes, the roads between formats, and what is installed."""
    from vitrify.cli._render import show_json, show_table
    from vitrify.core.catalog import catalog
    from vitrify.inspection import abilities

    if markdown:
        click.echo(abilities.markdown(catalog().rows("format")), nl=False)
        return
    kinds: tuple[Kind, ...] = ("format", "runtime", "transform", "check", "container", "store")
    if as_json:
        show_json({kind: [_known(row) for row in catalog().rows(kind)] for kind in kinds})
        return
    rows = [(row.name, *_marks(row), row.summary) for row in catalog().rows("format")]
    show_table(("format", *abilities.ABILITIES, "what"), rows, title="")
    for kind in kinds[1:3]:
        roads = [(row.name, _where(row), _installed(row)) for row in catalog().rows(kind)]
        show_table((kind, "what", "installed"), roads, title="")


def _known(row: Row) -> dict[str, Any]:
    """Return a row as JSON; marks of files are hexadecimal."""
    from dataclasses import asdict

    from vitrify.inspection.abilities import abilities

    known = {**asdict(row), "magic": [(offset, mark.hex()) for offset, mark in row.magic], "installed": row.installed()}
    return {**known, "abilities": abilities(row)} if row.kind == "format" else known


def _marks(row: Row) -> list[str]:
    """Return a mark for each ability; where only a library is missing, the extra that brings it."""
    from vitrify.inspection.abilities import ABILITIES, abilities

    able = abilities(row)
    live = _installed(row)
    marks = {"load": live, "write": live}
    return [marks.get(ability, "yes") if ability in able else "-" for ability in ABILITIES]


def _installed(row: Row) -> str:
    return "yes" if row.installed() else f"[{row.extra}]"


def _where(row: Row) -> str:
    if row.source:
        return f"{row.source} -> {row.destination}, {row.fidelity}: {row.summary}"
    return row.summary
