"""The graph of a TensorFlow model, for drawing: functions are graphs inside the nodes that call them.

A function is drawn inside the first node that calls it, so that circles and towers of functions are as small as their
file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.graph import Graph, Node, Tensor
from vitrify.formats._protos.tensorflow import type_name
from vitrify.formats._tensorflow.graph import shape
from vitrify.reading.malformed import exceed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.formats._tensorflow.graph import Walked

MAX_NODES = 100_000
MAX_DEPTH = 50


class Drawing:
    """One graph with its functions, on its way to a picture."""

    def __init__(self, walked: Walked) -> None:
        """Take the graph."""
        self._walked = walked
        self._left = MAX_NODES
        self._waiting = set(walked.functions)

    def graph(self, inputs: Iterable[str] = (), outputs: Iterable[str] = ()) -> Graph:
        """Return the main graph, between these tensors where they are known.

        Raises:
            MalformedError: A part of the graph is not what it should be.
            LimitExceededError: It has more, or more deeply nested, parts than can be drawn.
        """
        return self._graph("", "", (tuple(inputs), tuple(outputs)), MAX_DEPTH)

    def _graph(self, name: str, function: str, ports: tuple[tuple[str, ...], tuple[str, ...]], depth: int) -> Graph:
        if depth == 0:
            exceed(self._walked.document.where, f"functions nested more than {MAX_DEPTH} levels deep")
        tensors: dict[str, Tensor] = {}
        nodes = tuple(self._node(node, tensors, depth) for node in self._walked.nodes(function))
        inputs, outputs = ports
        if function:
            declared = self._walked.functions[function]
            inputs = self._walked.scope(function).arguments
            outputs = tuple(pair.value for pair in self._walked.document.each(declared, "ret"))
        return Graph(name=name, inputs=inputs, outputs=outputs, nodes=nodes, tensors=tensors)

    def _node(self, node: Any, tensors: dict[str, Tensor], depth: int) -> Node:
        self._left -= 1
        if self._left < 0:
            exceed(self._walked.document.where, f"more than {MAX_NODES} operators, too many to draw")
        attributes = self._walked.attributes(node)
        called = {}
        for key, name in self._walked.called(node).items():
            if name in self._waiting:
                self._waiting.discard(name)
                called[key] = name
        value = attributes.get("value")
        if value is not None and value.HasField("tensor"):
            sizes = shape(self._walked.document, value.tensor.tensor_shape)
            tensors[node.name] = Tensor(
                type=type_name(value.tensor.dtype), shape=None if sizes is None else tuple(sizes), weight=True
            )
        return Node(
            operator=node.op,
            name=node.name,
            inputs=tuple(_tensor(one) for one in node.input if not one.startswith("^")),
            outputs=(node.name,),
            attributes={key: text for key, one in attributes.items() if (text := _text(one)) and key[:1] != "_"},
            graphs={key: self._graph(name, name, ((), ()), depth - 1) for key, name in called.items()},
        )


def _tensor(name: str) -> str:
    """Return the node that a tensor comes from: its first output goes by the node's own name."""
    node, _, output = name.partition(":")
    return node if output in {"", "0"} else name


def _text(attribute: Any) -> str:
    if attribute.HasField("type"):
        return type_name(attribute.type)
    for field in ("i", "b"):
        if attribute.HasField(field):
            return str(getattr(attribute, field)).lower()
    if attribute.HasField("f"):
        return f"{attribute.f:g}"
    if attribute.HasField("s"):
        return str(attribute.s[:64].decode("utf-8", "replace"))
    return str(list(attribute.list.i[:16])) if attribute.HasField("list") and attribute.list.i else ""
