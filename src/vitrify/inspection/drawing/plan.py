"""What is drawn of a graph: its operators, inputs and outputs as boxes, the tensors between them as arrows.

Weights are no boxes of their own but stand in the box of the operator that uses them, as most viewers of the field show
them: a picture of what computes is not one of what is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vitrify.core.graph import Graph, Node, Tensor

MAX_BOXES = 20_000
"""A larger graph is drawn up to here, and says so."""


@dataclass
class Box:
    """One thing in the picture.

    Attributes:
        kind: ``input``, ``output`` or ``operator``.
        title: Operator type, or name of the input or output.
        lines: What stands below: weights with their shapes, or the type.
        node: The operator.
    """

    kind: str
    title: str
    lines: list[str] = field(default_factory=list)
    node: Node | None = None


@dataclass(frozen=True)
class Arrow:
    """A tensor on its way from one box to another, by their positions in the list."""

    source: int
    target: int
    name: str
    label: str


@dataclass(frozen=True)
class Picture:
    """Boxes in an order in which no arrow but those of a cycle goes back, and their arrows."""

    boxes: list[Box]
    arrows: list[Arrow]
    left_out: int = 0


def picture(graph: Graph) -> Picture:
    """Return what is to be drawn of a graph; its inner graphs are pictures of their own."""
    constants = {node.outputs[0] for node in graph.nodes if _is_constant(node)} - set(graph.outputs)
    drawn = [node for node in graph.nodes if not (_is_constant(node) and node.outputs[0] in constants)]
    nodes = drawn[:MAX_BOXES]
    boxes = [Box("input", name, [shown(graph.tensors.get(name))]) for name in graph.inputs]
    makers = {name: index for index, name in enumerate(graph.inputs)}
    for node in nodes:
        makers |= {name: len(boxes) for name in node.outputs if name}
        boxes.append(Box("operator", node.operator, node=node))
    arrows: dict[tuple[int, int, str], Arrow] = {}
    for index, box in enumerate(boxes):
        if box.node is None:
            continue
        for name in (*box.node.inputs, *_outer(box.node)):
            tensor = graph.tensors.get(name)
            if name in makers:
                arrows[makers[name], index, name] = Arrow(makers[name], index, name, shown(tensor))
            elif name in box.node.inputs and (name in constants or (tensor is not None and tensor.weight)):
                box.lines.append(f"{short(name)} {shown(tensor)}".strip())
    for name in graph.outputs:
        boxes.append(Box("output", name, [shown(graph.tensors.get(name))]))
        if name in makers:
            arrows[makers[name], len(boxes) - 1, name] = Arrow(makers[name], len(boxes) - 1, name, "")
    return Picture(boxes, list(arrows.values()), len(drawn) - len(nodes))


def shown(tensor: Tensor | None) -> str:
    """Return type and shape: ``float32[N, 3, 224, 224]``; empty where nothing is known."""
    if tensor is None or (tensor.shape is None and not tensor.type):
        return ""
    if tensor.shape is None:
        return tensor.type
    return f"{tensor.type}[{', '.join('?' if size is None else str(size) for size in tensor.shape)}]"


def _is_constant(node: Node) -> bool:
    """Say whether an operator is a weight in disguise."""
    return (
        len(node.outputs) == 1 and not node.inputs and node.operator.rpartition(".")[2].lower() in {"constant", "const"}
    )


def _outer(node: Node) -> list[str]:
    """Return the tensors that the graphs inside an operator take from outside."""
    found: list[str] = []
    waiting = list(node.graphs.values())
    while waiting:
        graph = waiting.pop()
        own = {*graph.inputs, *(name for inner in graph.nodes for name in inner.outputs)}
        own |= {name for name, tensor in graph.tensors.items() if tensor.weight}
        for inner in graph.nodes:
            found += [name for name in inner.inputs if name and name not in own]
            waiting += inner.graphs.values()
    return list(dict.fromkeys(found))


def short(name: str, most: int = 28) -> str:
    """Return a long name by its end, where the names of one model differ."""
    return name if len(name) <= most else f"...{name[3 - most :]}"
