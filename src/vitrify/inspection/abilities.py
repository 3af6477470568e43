"""What can be done with files of each format, as its protocols and its row say: for people, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.protocols import Drawn, Live

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.core.row import Row

ABILITIES = ("inspect", "scan", "view", "load", "write")
"""Every format has the first two. ``view`` draws a graph, ``load`` makes a live model, ``write`` keeps one."""


def abilities(row: Row) -> tuple[str, ...]:
    """Return what can be done with files of a format; no library is asked for."""
    form = row.look()
    live = isinstance(form, Live)
    can = {"view": isinstance(form, Drawn), "load": live, "write": live and not row.read_only}
    return tuple(name for name in ABILITIES if can.get(name, True))


def markdown(rows: Iterable[Row]) -> str:
    """Return the table of the documentation, a line a format, by name."""
    lines = [
        f"| format | what | {' | '.join(ABILITIES)} |",
        f"| --- | --- |{' :-: |' * len(ABILITIES)}",
    ]
    for row in rows:
        able = abilities(row)
        name = f"[`{row.name}`]({row.specification})" if row.specification else f"`{row.name}`"
        marks = " | ".join("✓" if ability in able else "" for ability in ABILITIES)
        lines.append(f"| {name} | {row.summary} | {marks} |")
    return "\n".join(lines) + "\n"
