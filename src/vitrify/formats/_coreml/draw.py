"""The graph of a Core ML model, for drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.graph import Graph, Node, Tensor
from vitrify.formats._coreml.describe import MAX_PORTS, feature_type
from vitrify.formats._coreml.model import CONSTANT, MAX_DEPTH, inner_networks, kind, layer_kind
from vitrify.reading.malformed import exceed

if TYPE_CHECKING:
    from vitrify.formats._coreml.model import Model

MAX_NODES = 30_000
"""The largest honest programs have ten thousand."""


class Drawing:
    """One model on its way to a picture."""

    def __init__(self, model: Model) -> None:
        """Take the model."""
        self._model = model
        self._left = MAX_NODES

    def graph(self) -> Graph:
        """Return the graph: of layers, of operations, or of the models of a pipeline with their graphs inside.

        Raises:
            MalformedError: A part of the model is not what it should be.
            LimitExceededError: It has more, or more deeply nested, parts than can be drawn.
        """
        return self._of(self._model.root, MAX_DEPTH)

    def _of(self, model: Any, depth: int) -> Graph:
        if depth == 0:
            exceed(self._model.where, f"models nested more than {MAX_DEPTH} levels deep")
        each = self._model.document.each
        features = [list(each(model.description, field, most=MAX_PORTS)) for field in ("input", "output")]
        types = {one.name: feature_type(one.type) for side in features for one in side}
        tensors = {
            name: Tensor(type=element, shape=None if shape is None else tuple(shape))
            for name, (element, shape) in types.items()
        }
        inputs, outputs = (tuple(one.name for one in side) for side in features)
        if kind(model).startswith("neuralNetwork"):
            nodes = self._layers(getattr(model, kind(model)), depth)
        elif kind(model) == "mlProgram":
            blocks = dict(self._model.blocks(model))
            nodes = (
                self._operations(blocks.get("main") or next(iter(blocks.values())), tensors, depth) if blocks else ()
            )
        else:
            inner = [(name, one, self._of(one, depth - 1)) for name, one in self._model.pipeline(model)]
            nodes = tuple(
                self._node(kind(one), name, graph.inputs, graph.outputs, {"model": graph}) for name, one, graph in inner
            ) or (self._node(kind(model), "", inputs, outputs, {}),)
        return Graph(name=kind(model), inputs=inputs, outputs=outputs, nodes=nodes, tensors=tensors)

    def _node(
        self, operator: str, name: str, inputs: tuple[str, ...], outputs: tuple[str, ...], graphs: dict[str, Graph]
    ) -> Node:
        self._left -= 1
        if self._left < 0:
            exceed(self._model.where, f"more than {MAX_NODES} operators, too many to draw")
        return Node(operator=operator or "unknown", name=name, inputs=inputs, outputs=outputs, graphs=graphs)

    def _layers(self, network: Any, depth: int) -> tuple[Node, ...]:
        if depth == 0:
            exceed(self._model.where, f"networks nested more than {MAX_DEPTH} levels deep")
        return tuple(
            self._node(
                layer_kind(layer),
                layer.name,
                tuple(layer.input),
                tuple(layer.output),
                {name: Graph(name=name, nodes=self._layers(inner, depth - 1)) for name, inner in inner_networks(layer)},
            )
            for layer in self._model.document.each(network, "layers")
        )

    def _operations(self, block: Any, tensors: dict[str, Tensor], depth: int) -> tuple[Node, ...]:
        if depth == 0:
            exceed(self._model.where, f"blocks nested more than {MAX_DEPTH} levels deep")
        each, nodes = self._model.document.each, []
        for operation in each(block, "operations"):
            outputs = list(each(operation, "outputs"))
            for one in outputs:
                element, shape = self._model.type(one.type)
                constant = operation.type == CONSTANT
                tensors[one.name] = Tensor(type=element, shape=None if shape is None else tuple(shape), weight=constant)
            if operation.type == CONSTANT:
                continue
            bound = [one.name for pair in each(operation, "inputs") for one in each(pair.value, "arguments")]
            graphs = {
                f"block {index}": Graph(nodes=self._operations(inner, tensors, depth - 1), outputs=tuple(inner.outputs))
                for index, inner in enumerate(each(operation, "blocks"))
            }
            names = tuple(one.name for one in outputs)
            nodes.append(self._node(operation.type, names[0] if names else "", tuple(bound), names, graphs))
        return tuple(nodes)
