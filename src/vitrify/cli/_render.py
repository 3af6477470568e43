"""How things are shown: tables and text on a terminal, one JSON document otherwise asked for."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from vitrify.cli._plain import plain_json, plain_lines
from vitrify.core import progress
from vitrify.core.attestation import TRIAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.progress import Progress, TaskID

    from vitrify.core.errors import VitrifyError
    from vitrify.core.plan import Plan
    from vitrify.core.row import Row

_KIBI = 1024
_UNBOUNDED = 10_000


def show_json(value: object) -> None:
    """Print one JSON document."""
    click.echo(plain_json(json.dumps(value, indent=2, ensure_ascii=False, default=str)))


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Print a table; numbers of bytes and the like are already text."""
    table = Table(*columns, title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    if sys.stdout.isatty():
        Console().print(table)
        return
    # A program that reads the output wants whole names, and no blanks behind them; only a screen has a width.
    output = StringIO()
    console = Console(width=_UNBOUNDED, file=output)
    console.print(table)
    for line in output.getvalue().splitlines():
        click.echo(line.rstrip())


def show_facts(facts: Iterable[tuple[str, object]], *, err: bool = False) -> None:
    """Print names and values, a line each; to the standard error where they only go with what is printed."""
    rows = list(facts)
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        click.echo(f"{click.style(name.ljust(width), bold=True)}  {value}", err=err)


def missing(row: Row) -> str:
    """Return the extra that brings a plugin's libraries, in brackets, where they are not there."""
    return "" if row.installed() else f"[{row.extra or ', '.join(row.requires)}]"


def show_steps(road: Plan) -> None:
    """Print a plan, a line a step: what it may change, what it does, and the extra of a library that is missing."""
    from vitrify.core.catalog import catalog

    if not road.steps:
        click.echo(str(road))
        return
    rows = [catalog().row("transform", step.transform) for step in road.steps]
    lines = [
        (number, f"{row.source} -> {row.destination}", row.fidelity, row.summary, missing(row))
        for number, row in enumerate(rows, start=1)
    ]
    show_table(("step", "road", "may change", "how", "missing"), lines, title="")


def show_error(error: VitrifyError, *, as_json: bool) -> None:
    """Print an error without a traceback: what was found and expected, then what to do."""
    if as_json:
        kind = type(error).__name__
        click.echo(json.dumps({"error": kind, "message": error.message, "remedy": error.remedy}), err=True)
        return
    click.echo(f"{click.style('error:', fg='red', bold=True)} {plain_lines(error.message)}", err=True)
    if error.remedy:
        click.echo(f"{click.style('->', fg='cyan', bold=True)} {plain_lines(error.remedy)}", err=True)


def size(count: int) -> str:
    """Return a number of bytes for people: ``12 B``, ``3.4 MiB``."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < _KIBI or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= _KIBI
    raise AssertionError


@contextmanager
def progress_bars() -> Iterator[None]:
    """Show progress on standard error while the block runs, where that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    # On a descriptor of its own, so that the bars are seen also while a noisy library's is closed.
    with (
        os.fdopen(os.dup(sys.stderr.fileno()), "w") as screen,
        Progress(*columns, console=Console(file=screen), transient=True) as bars,
        progress.show(_Rich(bars)),
    ):
        yield


class _Rich:
    """Renders :mod:`vitrify.core.progress` with rich."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars

    def start(self, label: str, total: int | None) -> _RichBar:
        return _RichBar(self._bars, self._bars.add_task(label, total=total))

    def finish(self, bar: progress.Bar) -> None:
        assert isinstance(bar, _RichBar)
        self._bars.remove_task(bar.task)


class _RichBar:
    def __init__(self, bars: Progress, task: TaskID) -> None:
        self._bars = bars
        self.task = task

    def advance(self, amount: int = 1) -> None:
        self._bars.advance(self.task, amount)


def artifact_json(artifact: Any) -> dict[str, Any]:
    """Return an artifact as JSON: what every command that makes one prints."""
    from vitrify.core.wire import to_builtins

    return {
        "name": artifact.name,
        "digest": str(artifact.digest),
        "format": artifact.document.format,
        "size": artifact.size,
        "files": {path: layer.size for path, layer in artifact.manifest.files.items()},
        "document": to_builtins(artifact.document),
    }


def show_sealed(artifact: Any, *, as_json: bool) -> None:
    """Print an artifact that was just made."""
    if as_json:
        show_json(artifact_json(artifact))
        return
    document = artifact.document
    trials = [item.predicate for item in artifact.attestations if item.predicate_type == TRIAL]
    seconds = trials[0]["seconds"] if trials else "?"
    facts: list[tuple[str, object]] = [
        ("sealed", artifact.name or ""),
        ("digest", artifact.digest),
        ("format", f"{document.format}, {len(artifact.manifest.files)} files, {size(artifact.size)}"),
        ("tried", f"in a clean process, {seconds} s, {document.golden} golden samples"),
        *(("note", note) for note in document.notes),
    ]
    if document.code.names:
        facts.append(("code", f"loading it runs: {', '.join(document.code.names)}"))
    show_facts(facts)
