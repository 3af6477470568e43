"""``vitrify formats``: the map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from vitrify.cli._options import FORMAT, json_option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.core.plan import Plan
    from vitrify.core.row import Kind, Row

_KINDS: tuple[Kind, ...] = ("format", "runtime", "transform", "check", "container", "store")


@click.command("formats")
@click.argument("name", type=FORMAT, required=False, metavar="[FORMAT]")
@click.option("--markdown", is_flag=True, help="Print the table of formats for a page of documentation.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Draw the map of roads as a .svg file.")
@json_option
def command(name: str | None, markdown: bool, output: str | None, as_json: bool) -> None:
    """Show what can be done with each format, what runs it, and which formats a road leads to.

    With a FORMAT: the roads from it and to it, step by step. A name in brackets is the extra of a missing library.
    """
    from vitrify.cli._render import show_json
    from vitrify.core.catalog import catalog
    from vitrify.inspection import abilities

    row = catalog().row("format", name) if name else None
    if output:
        _draw(output)
    elif markdown:
        click.echo(abilities.markdown(catalog().rows("format")), nl=False)
    elif as_json:
        show_json(_one_known(row) if row else {kind: [_known(row) for row in catalog().rows(kind)] for kind in _KINDS})
    elif row:
        _show_one(row)
    else:
        _show_all()


def _show_all() -> None:
    from vitrify.cli._render import missing, show_table
    from vitrify.core.catalog import catalog
    from vitrify.inspection.abilities import ABILITIES
    from vitrify.transforms import atlas

    rows = [(row.name, *_marks(row), _runtime(row), row.summary) for row in catalog().rows("format")]
    show_table(("format", *ABILITIES, "runs on", "what"), rows, title="")
    runtimes = [(row.name, ", ".join(row.formats), row.summary, missing(row)) for row in catalog().rows("runtime")]
    show_table(("runtime", "opens", "what", "missing"), runtimes, title="")
    lines = [(source, *_reach(plans.values())) for source, plans in atlas.roads().items()]
    show_table(("from", "to, in one step", "to, in more"), lines, title="")
    click.echo(
        "\nA road may change rounding, where nothing else is said. Step by step: vitrify formats FORMAT;"
        "\nof one model: vitrify convert NAME --to FORMAT --dry-run; tried and timed: vitrify matrix NAME"
    )


def _reach(plans: Iterable[Plan]) -> tuple[str, str]:
    """Return the ends of the roads of one step and of the longer ones, by name."""
    from vitrify.transforms import atlas

    def shown(plan: Plan) -> str:
        kind = atlas.fidelity_of(plan)
        said = [str(len(plan.steps))] if len(plan.steps) > 1 else []
        said += [kind] if kind != "numeric" else []
        text = f"{plan.target} ({', '.join(said)})" if said else plan.target
        return text if atlas.installed(plan) else f"[{text}]"

    ways = list(plans)
    short = [shown(plan) for plan in ways if len(plan.steps) == 1]
    return ", ".join(short), ", ".join(shown(plan) for plan in ways if len(plan.steps) > 1)


def _show_one(row: Row) -> None:
    """Show one format: what can be done with it, the roads from it, and the last steps to it."""
    from vitrify.cli._render import missing, show_facts, show_table
    from vitrify.core.catalog import catalog
    from vitrify.inspection.abilities import ABILITIES
    from vitrify.transforms import atlas

    facts = [("format", row.name), ("what", row.summary), ("written down", row.specification)]
    facts += [(ability, mark) for ability, mark in zip(ABILITIES, _marks(row), strict=True) if mark != "-"]
    show_facts([*facts, ("runs on", _runtime(row) or "nothing here")])
    roads = [(name, atlas.cell(plan), _way(plan)) for name, plan in atlas.roads().get(row.name, {}).items()]
    if roads:
        show_table((f"from {row.name} to", "may change", "road"), roads, title="")
    steps = [one for one in catalog().rows("transform") if one.destination == row.name != one.source]
    if steps:
        lines = [(one.source, one.fidelity, one.summary, missing(one)) for one in steps]
        show_table((f"to {row.name} from", "may change", "how", "missing"), lines, title="")


def _way(plan: Plan) -> str:
    return " -> ".join((plan.source, *(step.target for step in plan.steps)))


def _one_known(row: Row) -> dict[str, Any]:
    from vitrify.core.wire import to_builtins
    from vitrify.transforms import atlas

    return {**_known(row), "roads": [to_builtins(plan) for plan in atlas.roads().get(row.name, {}).values()]}


def _draw(path: str) -> None:
    from pathlib import Path

    from vitrify.core.errors import UsageError
    from vitrify.transforms import atlas

    if Path(path).suffix != ".svg":
        msg = f"{path}: the map is drawn as a .svg file"
        raise UsageError(msg)
    Path(path).write_text(atlas.svg(), encoding="utf-8")
    click.echo(path)


def _known(row: Row) -> dict[str, Any]:
    """Return a row as JSON; marks of files are hexadecimal."""
    from dataclasses import asdict

    from vitrify.inspection.abilities import abilities

    known = {**asdict(row), "magic": [(offset, mark.hex()) for offset, mark in row.magic], "installed": row.installed()}
    return {**known, "abilities": abilities(row)} if row.kind == "format" else known


def _marks(row: Row) -> list[str]:
    """Return a mark for each ability; where only a library is missing, the extra that brings it."""
    from vitrify.cli._render import missing
    from vitrify.inspection.abilities import ABILITIES, abilities

    able = abilities(row)
    live = missing(row) or "yes"
    marks = {"load": live, "write": live}
    return [marks.get(ability, "yes") if ability in able else "-" for ability in ABILITIES]


def _runtime(row: Row) -> str:
    """Return the runtime that opens a format, in brackets where its library is missing."""
    from vitrify.core.catalog import catalog

    runtime = catalog().runtime_of(row.name)
    if runtime is None:
        return ""
    return runtime.name if runtime.installed() else f"[{runtime.name}]"
