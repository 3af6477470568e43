"""``vitrify view``: the graph of a model, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vitrify.cli._options import REFERENCE, common

if TYPE_CHECKING:
    from vitrify.core.graph import Graph
    from vitrify.inspection.identify import Identity

_MOST_LINES = 400


@click.command("view")
@click.argument("reference", type=REFERENCE)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write a .svg, .html or .txt file.")
@click.option("--open", "in_browser", is_flag=True, help="Open the drawing in a browser.")
@click.option("--netron", is_flag=True, help="Hand the file over to Netron, which has to be installed.")
@click.option("--format", "format_", metavar="NAME", help="Read a file as this; by default as what its content is.")
@click.option("--all", "whole", is_flag=True, help=f"Print all lines in the terminal, not the first {_MOST_LINES}.")
@common
def command(
    reference: str,
    output: str | None,
    in_browser: bool,
    netron: bool,
    format_: str | None,
    whole: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Draw the compute graph of a model file or an artifact: in the terminal, as SVG, or as a page.

    Boxes are operators, arrows are tensors with their shapes; nothing in the file runs.
    """
    from vitrify.cli._plain import plain_lines
    from vitrify.cli._render import show_json
    from vitrify.core.wire import to_builtins
    from vitrify.inspection.drawing.rails import text
    from vitrify.inspection.view import graph

    one = _identify(reference, store, format_)
    if netron:
        _netron(one)
        return
    drawn = graph(one)
    if as_json:
        show_json(to_builtins(drawn))
    elif in_browser:
        _browse(drawn, reference, output)
    elif output:
        write(Path(output), drawn, reference)
    else:
        click.echo(plain_lines(text(drawn, most=None if whole else _MOST_LINES)))


def _identify(reference: str, store: str | None, form: str | None) -> Identity:
    from vitrify.cli._subject import find
    from vitrify.core.catalog import catalog
    from vitrify.inspection.identify import Identity, files_at, identify_one

    found = find(reference, store)
    if isinstance(found, Path):
        return identify_one(files_at(found), where=reference, name=form)
    return Identity(catalog().row("format", found.document.format), found.files, found.document.entry)


def write(path: Path, drawn: Graph, title: str, what: str = "operator") -> None:
    """Draw a graph into a file, as its ending says.

    Raises:
        UsageError: It is an ending of nothing that can be drawn.
    """
    from vitrify.core.errors import UsageError
    from vitrify.inspection.drawing import page, rails, svg

    match path.suffix:
        case ".svg":
            content = svg.svg(drawn)
        case ".html":
            content = page.page(drawn, title)
        case ".txt":
            content = rails.text(drawn) + "\n"
        case _:
            msg = f"cannot draw into {path}: its ending is none of .svg, .html, .txt"
            raise UsageError(msg)
    path.write_text(content, encoding="utf-8")
    count = len(drawn.nodes)
    click.echo(f"{path}: {count} {what}{'' if count == 1 else 's'}")


def _browse(drawn: Graph, title: str, output: str | None) -> None:
    import tempfile
    import webbrowser

    path = Path(output) if output else Path(tempfile.mkdtemp(prefix="vitrify-")) / "graph.html"
    write(path, drawn, title)
    webbrowser.open(path.resolve().as_uri())


def _netron(one: Identity) -> None:
    """Start Netron on the one file that holds the graph; it looks for weights beside it by itself."""
    from vitrify.core.errors import MissingDependencyError

    try:
        import netron
    except ImportError as error:
        msg = "Netron is not installed"
        raise MissingDependencyError(msg, remedy="pip install 'vitrify[view]'") from error
    name = str(one.entry.get("file") or one.files.names()[0])
    netron.start(str(one.files.path(name)))
    netron.wait()
