"""A TFLite model as a graph to draw: the graphs of IF, WHILE and the like folded into their operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.graph import Graph, Node, Tensor

if TYPE_CHECKING:
    from vitrify.formats._tflite.model import Model, Operator, SubGraph


def draw(model: Model) -> Graph:
    """Return the graph; where a model has several that can be called, one with a node for each of them.

    Each graph is drawn where it is first used. Later uses name it, since they may go round in a circle, or double at
    each step.
    """
    inner = {index for graph in model.graphs for operator in graph.operators for index in operator.graphs.values()}
    roots = sorted({0, *range(len(model.graphs))} - inner or {0}) if model.graphs else []
    pen = _Pen(model)
    drawn = [pen.graph(index) for index in roots]
    if len(drawn) == 1:
        return drawn[0]
    nodes = tuple(Node(operator="graph", name=one.name, graphs={one.name: one}) for one in drawn)
    return Graph(name="graphs", nodes=nodes)


class _Pen:
    def __init__(self, model: Model) -> None:
        self.model, self.drawn = model, set[int]()

    def graph(self, index: int, depth: int = 0) -> Graph:
        self.drawn.add(index)
        graph = self.model.graphs[index]
        names = _names(graph)
        return Graph(
            name=graph.name or f"graph {index}",
            inputs=tuple(names[one] for one in graph.inputs if one >= 0),
            outputs=tuple(names[one] for one in graph.outputs if one >= 0),
            nodes=tuple(self.node(operator, names, depth) for operator in graph.operators),
            tensors={
                name: Tensor(type=one.type, shape=one.shape, weight=bool(len(one.data)))
                for name, one in zip(names, graph.tensors, strict=True)
            },
        )

    def node(self, operator: Operator, names: list[str], depth: int) -> Node:
        graphs, notes = {}, {"target": operator.target} if operator.target else {}
        for name, index in operator.graphs.items():
            if index in self.drawn or depth > _DEEPEST:
                notes[name] = self.model.graphs[index].name or f"graph {index}"
            else:
                graphs[name] = self.graph(index, depth + 1)
        return Node(
            operator=f"custom.{operator.code.name}" if operator.code.custom else operator.code.name,
            inputs=tuple(names[one] if one >= 0 else "" for one in operator.inputs),
            outputs=tuple(names[one] if one >= 0 else "" for one in operator.outputs),
            attributes=notes,
            graphs=graphs,
        )


_DEEPEST = 50


def _names(graph: SubGraph) -> list[str]:
    """Return a name for each tensor: its own where no earlier one has it."""
    taken: set[str] = set()
    names = []
    for index, tensor in enumerate(graph.tensors):
        name = tensor.name if tensor.name and tensor.name not in taken else f"{tensor.name}#{index}"
        taken.add(name)
        names.append(name)
    return names
