"""A graph as one HTML page: drag and scroll to move, search, click a box to read it; the inner graphs below."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from vitrify.core.html import escape
from vitrify.inspection.drawing.plan import picture, shown
from vitrify.inspection.drawing.svg import element, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.graph import Graph, Node

MAX_GRAPHS = 200
"""Inner graphs that one page draws; the rest are counted."""


def page(graph: Graph, title: str) -> str:
    """Return a whole HTML document; it loads nothing from anywhere."""
    graphs = list(_all(graph, graph.name or "main"))
    sections, options, facts = [], [], {}
    for index, (name, one) in enumerate(graphs[:MAX_GRAPHS]):
        prefix = f"g{index}-"
        sections.append(f'<section id="graph{index}" {"hidden" if index else ""}>{element(one, prefix)}</section>')
        options.append(f'<option value="{index}">{escape(name)} ({len(one.nodes)} operators)</option>')
        for place, box in enumerate(picture(one).boxes):
            facts[f"{prefix}{place}"] = _facts(box.title, box.node, one)
    missing = f" ({len(graphs) - MAX_GRAPHS} more graphs are not drawn)" if len(graphs) > MAX_GRAPHS else ""
    data = json.dumps(facts).replace("<", "\\u003c")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{text('page.css')}</style>"
        f'<header><strong>{escape(title)}</strong><select aria-label="graph">{"".join(options)}</select>{missing}'
        '<input type="search" placeholder="find an operator or tensor, Enter for the next"><output></output></header>'
        f"<main>{''.join(sections)}</main><aside>Drag to move, scroll to zoom, click a box to read it.</aside>"
        f'<script type="application/json" id="facts">{data}</script><script>{text("page.js")}</script></html>\n'
    )


def _all(graph: Graph, name: str) -> Iterator[tuple[str, Graph]]:
    """Yield a graph and those inside it, each with the path of names that leads to it."""
    waiting = [(name, graph)]
    while waiting:
        name, graph = waiting.pop(0)
        yield name, graph
        for index, node in enumerate(graph.nodes):
            waiting += [
                (f"{name} / {node.name or node.operator + str(index)} / {key}", inner)
                for key, inner in node.graphs.items()
            ]


def _facts(title: str, node: Node | None, graph: Graph) -> list[tuple[str, str]]:
    if node is None:
        return [("name", title), ("type", shown(graph.tensors.get(title)))]
    facts = [("operator", node.operator), ("name", node.name)]
    for side, names in (("input", node.inputs), ("output", node.outputs)):
        facts += [(side, f"{name} {shown(graph.tensors.get(name))}".strip()) for name in names if name]
    facts += [(f"attribute {key}", value) for key, value in node.attributes.items()]
    facts += [("holds the graph", key) for key in node.graphs]
    return [(key, value) for key, value in facts if value]
