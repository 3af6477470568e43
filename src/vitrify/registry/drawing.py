"""Lineage as a graph that can be drawn: a box a node, an arrow an edge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.graph import Graph, Tensor
from vitrify.core.graph import Node as Box

if TYPE_CHECKING:
    from vitrify.registry.values import Lineage, Node


def graph_of(lineage: Lineage) -> Graph:
    """Return the graph of a lineage; sources come before what was made from them."""
    order = _ordered(lineage)
    tensors: dict[str, Tensor] = {}
    boxes = []
    for node in order:
        inputs = [f"{edge.source} {edge.kind} {edge.target}" for edge in lineage.edges if edge.target == node.id]
        outputs = [f"{edge.source} {edge.kind} {edge.target}" for edge in lineage.edges if edge.source == node.id]
        boxes.append(
            Box(
                operator=f"{node.kind} {node.label}".strip(),
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                attributes={key: str(value) for key, value in node.facts.items()},
            )
        )
    for edge in lineage.edges:
        steps = ", ".join(map(str, edge.facts.get("steps", ())))
        tensors[f"{edge.source} {edge.kind} {edge.target}"] = Tensor(type=f"{edge.kind} {steps}".strip())
    return Graph(name=lineage.root, nodes=tuple(boxes), tensors=tensors)


def _ordered(lineage: Lineage) -> list[Node]:
    """Return the nodes so that each comes after all that it was made from."""
    nodes = {node.id: node for node in lineage.nodes}
    waiting = {id_: {edge.source for edge in lineage.edges if edge.target == id_} for id_ in nodes}
    order: list[Node] = []
    while waiting:
        ready = [id_ for id_, sources in waiting.items() if not sources & waiting.keys()] or [next(iter(waiting))]
        for id_ in ready:
            del waiting[id_]
            order.append(nodes[id_])
    return order
