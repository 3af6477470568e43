"""A graph as text: one operator a line in the order of the file, beside it a rail for each tensor still needed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from vitrify.inspection.drawing.plan import Box, picture, short

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.graph import Graph

MAX_RAILS = 24
"""More rails than this are drawn as an ellipsis."""


def text(graph: Graph, *, most: int | None = None) -> str:
    """Return the drawing.

    Args:
        graph: The graph; graphs inside it stand indented below their operator.
        most: Lines at most; the rest is counted. None for all.
    """
    lines = list(_graph(graph, ""))
    if most is not None and len(lines) > most:
        lines[most:] = [f"... {len(lines) - most} more lines"]
    return "\n".join(lines)


def _graph(graph: Graph, indent: str) -> Iterator[str]:
    shown = picture(graph)
    into: dict[int, list[tuple[int, str]]] = {index: [] for index in range(len(shown.boxes))}
    uses: Counter[int] = Counter()
    labels: dict[int, str] = {}
    for arrow in shown.arrows:
        if arrow.source < arrow.target:
            into[arrow.target].append((arrow.source, arrow.label))
            uses[arrow.source] += 1
            labels.setdefault(arrow.source, arrow.label)
    rails: list[int | None] = []
    for index, box in enumerate(shown.boxes):
        mine = {source for source, _ in into[index]}
        for source in mine:
            uses[source] -= 1 + sum(1 for other, _ in into[index] if other == source) - 1
        row, rails = _row(rails, mine, index, uses)
        yield f"{indent}{row} {_words(box, labels.get(index, ''))}"
        for name, inner in (box.node.graphs if box.node else {}).items():
            beside = indent + "".join("│ " if rail is not None else "  " for rail in rails[:MAX_RAILS])
            yield f"{beside}  {name}:"
            yield from _graph(inner, f"{beside}    ")
    if shown.left_out:
        yield f"{indent}... {shown.left_out} more operators"


def _row(rails: list[int | None], mine: set[int], index: int, uses: Counter[int]) -> tuple[str, list[int | None]]:
    """Return the rails' part of a box's line, and the rails below it."""
    joined = [place for place, rail in enumerate(rails) if rail in mine]
    free = [place for place in joined if uses[rails[place]] <= 0]  # type: ignore[index]  # what is joined is no gap
    empty = [place for place, rail in enumerate(rails) if rail is None]
    spot = (free or empty or [len(rails)])[0]
    after = [None if place in free else rail for place, rail in enumerate(rails)]
    after += [None] * (spot + 1 - len(after))
    after[spot] = index if uses[index] > 0 else None
    while after and after[-1] is None:
        after.pop()
    reach = [*joined, spot]
    cells = []
    for place in range(max(len(rails), spot + 1)):
        rail = rails[place] if place < len(rails) else None
        across = min(reach) <= place < max(reach)
        if place == spot:
            mark = "●"
        elif place in joined:
            ends = place in free
            mark = ("╯" if ends else "┤") if place > spot else ("╰" if ends else "├")
            if min(reach) < place < max(reach):
                mark = "┴" if ends else "┼"
        elif rail is not None:
            mark = "┼" if across else "│"
        else:
            mark = "─" if across else " "
        cells.append(mark + ("─" if across else " "))
    drawn = "".join(cells[:MAX_RAILS])
    return drawn + ("... " if len(cells) > MAX_RAILS else ""), after


def _words(box: Box, label: str) -> str:
    name = f" {short(box.node.name)!r}" if box.node and box.node.name else ""
    lines = [line for line in box.lines if line]
    if box.kind != "operator":
        return f"{box.kind} {box.title} {' '.join(lines)}".rstrip()
    weights = f" ({', '.join(lines)})" if lines else ""
    return f"{box.title}{name}{weights}{f' -> {label}' if label else ''}"
