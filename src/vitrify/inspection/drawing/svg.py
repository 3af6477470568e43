"""A graph as SVG: one file, no script, readable in any browser; its colours follow the reader's light or dark."""

from __future__ import annotations

import zlib
from collections import Counter
from importlib.resources import files
from typing import TYPE_CHECKING

from vitrify.core.html import escape
from vitrify.inspection.drawing.layout import LINE, Layout, Spot, layout
from vitrify.inspection.drawing.plan import Box, Picture, picture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.core.graph import Graph

MAX_LABELS = 3_000
"""In a larger graph the arrows' shapes are shown when one points at them, and not written out."""


def text(name: str) -> str:
    """Return a style sheet or script that lies beside this file."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def svg(graph: Graph) -> str:
    """Return a whole SVG document of a graph; the graphs inside it are named in their operators' boxes."""
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{element(graph)}\n'


def element(graph: Graph, prefix: str = "") -> str:
    """Return the ``svg`` element; each operator's box has the id ``prefix`` and its number."""
    shown = picture(graph)
    placed = layout(shown)
    boxes = [
        _box(box, spot, f"{prefix}{index}")
        for index, (box, spot) in enumerate(zip(shown.boxes, placed.spots, strict=True))
    ]
    size = f"{placed.width:.0f} {placed.height:.0f}"
    width, height = size.split()
    title = f"<title>{escape(graph.name)}</title>" if graph.name else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" viewBox="0 0 {size}" width="{width}" height="{height}">'
        f"{title}<style>{text('graph.css')}</style>{_HEAD}{''.join(_arrows(shown, placed))}{''.join(boxes)}</svg>"
    )


_HEAD = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" style="fill:#8a8f98;stroke:none"/></marker></defs>'
)


def _arrows(shown: Picture, placed: Layout) -> list[str]:
    labels = len(shown.arrows) <= MAX_LABELS
    leaving = Counter(arrow.source for arrow in shown.arrows)
    found = []
    for arrow, points in zip(shown.arrows, placed.paths, strict=True):
        tip = f"{arrow.name} {arrow.label}".strip()
        found.append(f'<path d="{_curve(points)}" marker-end="url(#tip)"><title>{escape(tip)}</title></path>')
        if labels and arrow.label:
            # Near the end at which it is alone, so that labels do not lie on each other.
            x, y = points[0] if leaving[arrow.source] == 1 else points[-1]
            y += 15 if leaving[arrow.source] == 1 else -14
            found.append(f'<text class="label" x="{x:.0f}" y="{y:.0f}">{escape(arrow.label)}</text>')
    return found


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Return a smooth line that leaves and enters every point straight down."""
    (x, y), *rest = points
    parts = [f"M{x:.0f} {y:.0f}"]
    for to_x, to_y in rest:
        middle = (y + to_y) / 2
        parts.append(f"C{x:.0f} {middle:.0f} {to_x:.0f} {middle:.0f} {to_x:.0f} {to_y:.0f}")
        x, y = to_x, to_y
    return "".join(parts)


def _box(box: Box, spot: Spot, name: str) -> str:
    lines = [line for line in box.lines if line]
    top = spot.y - spot.height / 2
    fill = f' style="fill:{colour(box.title)}"' if box.kind == "operator" else ""
    title = ""
    if box.node:
        facts = [box.node.name, *(f"{key} = {value}" for key, value in box.node.attributes.items())]
        facts += [f"holds the graph {key}" for key in box.node.graphs]
        title = f"<title>{escape(chr(10).join(fact for fact in facts if fact))}</title>"
    texts = [f'<text class="title" x="{spot.x:.0f}" y="{top + LINE + 3:.0f}">{escape(box.title)}</text>']
    texts += [
        f'<text class="small" x="{spot.x:.0f}" y="{top + LINE * (index + 2) + 3:.0f}">{escape(line)}</text>'
        for index, line in enumerate(lines)
    ]
    size = f'width="{spot.width:.0f}" height="{spot.height:.0f}"'
    rect = f'<rect x="{spot.x - spot.width / 2:.0f}" y="{top:.0f}" {size}{fill}/>'
    return f'<g class="{box.kind}" id="{escape(name)}">{title}{rect}{"".join(texts)}</g>'


def colour(operator: str) -> str:
    """Return an operator type's own light colour: the same in every picture."""
    return f"hsl({zlib.crc32(operator.encode()) % 360} 62% 84%)"
