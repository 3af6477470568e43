"""The graph of an ONNX model, for drawing: branches, bodies and functions are graphs inside their node.

A function is drawn inside the first node that calls it, so that circles and towers of functions are as small as their
file.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from vitrify.core.graph import Graph, Node, Tensor
from vitrify.formats._onnx.describe import sizes, type_name
from vitrify.formats._onnx.model import MAX_DEPTH, Operator, element
from vitrify.reading.malformed import exceed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.formats._onnx.model import Model

MAX_NODES = 100_000
_SHOWN = 16


class Drawing:
    """One model on its way to a graph."""

    def __init__(self, model: Model) -> None:
        """Take the model."""
        self._model = model
        self._document = model.document
        self._left = MAX_NODES
        self._functions = {(function.domain, function.name): function for function in model.functions()}

    def graph(self) -> Graph:
        """Return the main graph.

        Raises:
            MalformedError: A part of the model is not what it should be.
            LimitExceededError: It has more, or more deeply nested, parts than can be drawn.
        """
        return self._graph(self._model.root.graph, MAX_DEPTH)

    def _graph(self, graph: Any, depth: int) -> Graph:
        each = self._document.each
        tensors: dict[str, Tensor] = {}
        ports = {field: [self._port(value, tensors) for value in each(graph, field)] for field in ("input", "output")}
        for value in each(graph, "value_info"):
            self._port(value, tensors)
        for tensor in each(graph, "initializer"):
            shape = tuple(islice(tensor.dims, _SHOWN))
            tensors[tensor.name] = Tensor(type=element(tensor.data_type), shape=shape, weight=True)
        if len(tensors) > MAX_NODES:
            exceed(self._model.where, f"more than {MAX_NODES} tensors, too many to draw")
        return Graph(
            name=graph.name,
            inputs=tuple(name for name in ports["input"] if not tensors[name].weight),
            outputs=tuple(ports["output"]),
            nodes=self._nodes(each(graph, "node"), depth),
            tensors=tensors,
        )

    def _port(self, value: Any, tensors: dict[str, Tensor]) -> str:
        shape = sizes(self._document, value.type)
        tensors[value.name] = Tensor(type=type_name(value.type), shape=None if shape is None else tuple(shape))
        return str(value.name)

    def _nodes(self, nodes: Iterable[Any], depth: int) -> tuple[Node, ...]:
        if depth == 0:
            exceed(self._model.where, f"graphs nested more than {MAX_DEPTH} levels deep")
        return tuple(self._node(node, depth - 1) for node in nodes)

    def _node(self, node: Any, depth: int) -> Node:
        self._left -= 1
        if self._left < 0:
            exceed(self._model.where, f"more than {MAX_NODES} operators, too many to draw")
        attributes = list(self._document.each(node, "attribute"))
        graphs: dict[str, Graph] = {}
        for attribute in attributes:
            for index, graph in enumerate(self._model.inner(attribute)):
                graphs[f"{attribute.name}{index or ''}"] = self._graph(graph, depth)
        if function := self._functions.pop((node.domain, node.op_type), None):
            inner = self._nodes(self._document.each(function, "node"), depth)
            graphs["function"] = Graph(
                name=function.name, inputs=tuple(function.input), outputs=tuple(function.output), nodes=inner
            )
        return Node(
            operator=Operator("", node, []).type,
            name=node.name,
            inputs=tuple(node.input),
            outputs=tuple(node.output),
            attributes={one.name: self._text(one) for one in attributes if one.name not in graphs},
            graphs=graphs,
        )

    def _text(self, attribute: Any) -> str:
        for field in ("i", "f"):
            if attribute.HasField(field):
                return f"{getattr(attribute, field):g}" if field == "f" else str(getattr(attribute, field))
        if attribute.HasField("t"):
            return f"{element(attribute.t.data_type)}{list(attribute.t.dims[:_SHOWN])}"
        for values in (attribute.ints, attribute.floats, attribute.strings):
            if values:
                shown = ", ".join(_short(value) for value in values[:_SHOWN])
                return f"[{shown}{', ...' if len(values) > _SHOWN else ''}]"
        return _short(bytes(self._document.whole(attribute.s)[:64]))


def _short(value: Any) -> str:
    return value[:64].decode("utf-8", "replace") if isinstance(value, bytes) else f"{value:g}"
