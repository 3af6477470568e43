"""``vitrify lineage``: what a version was made from, and what was made from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vitrify.cli._registry import common, opened

if TYPE_CHECKING:
    from vitrify.registry.values import Lineage


@click.command("lineage")
@click.argument("node", metavar="NAME[:VERSION]|DIGEST|NODE")
@click.option("--direction", type=click.Choice(("both", "up", "down")), default="both", help="Where to look.")
@click.option("--depth", type=click.IntRange(0, 100), default=20, help="Steps in each direction.  [default: 20]")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Draw it: a .svg, .html or .txt file.")
@common
def command(node: str, direction: str, depth: int, output: str | None, place: str | None, as_json: bool) -> None:
    """Follow a model from its data and code to where it runs, in both directions: lineage churn:1.2.0 -o churn.svg."""
    from vitrify.cli._plain import plain_lines
    from vitrify.cli._render import show_json
    from vitrify.core.wire import to_builtins
    from vitrify.inspection.drawing.rails import text
    from vitrify.registry.drawing import graph_of

    with opened(place) as registry:
        found = registry.lineage(node, direction, depth)
    if as_json:
        show_json(to_builtins(found))
    elif output:
        _write(Path(output), found)
    else:
        click.echo(plain_lines(text(graph_of(found))))


def _write(path: Path, found: Lineage) -> None:
    from vitrify.cli.view import write
    from vitrify.registry.drawing import graph_of

    write(path, graph_of(found), found.root, what="node")
