"""An ONNX model, walked: every operator and every tensor in it, wherever they stand.

Nodes stand in the graph, in the graphs inside nodes (the branches of If, the bodies of Loop and Scan), in functions and
in the training graphs; tensors are initialisers or values of attributes. Nothing here is ever run or loaded.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from vitrify.formats._protos.onnx import BITS, EXTERNAL, SCHEMA, TYPES
from vitrify.reading.malformed import exceed, refuse
from vitrify.reading.protobuf import peek

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEPTH = 100
MAX_RANK = 64
MAX_PEEKED = 4096
MAX_ELEMENTS = 2**62

_GRAPH, _OPSETS, _IR = 7, 8, 1
_GRAPH_FIELDS = frozenset({1, 2, 5, 10, 11, 12, 13, 14, 15, 16})


class Operator(NamedTuple):
    """A node and where it stands."""

    place: str
    node: Any
    attributes: list[Any]

    @property
    def domain(self) -> str:
        """Its domain; the standard's own is empty."""
        return "" if self.node.domain == "ai.onnx" else str(self.node.domain)

    @property
    def type(self) -> str:
        """Its type, with its domain before it where that is not the standard's."""
        return f"{self.domain}.{self.node.op_type}" if self.domain else str(self.node.op_type)


class Stored(NamedTuple):
    """A tensor in the model: its name, where it stands, and whether it is a weight or only an attribute's value."""

    name: str
    place: str
    tensor: Any
    weight: bool


class Model:
    """A model file, as it is looked at."""

    def __init__(self, view: memoryview, where: str) -> None:
        """Parse its skeleton.

        Raises:
            MalformedError: It is no ONNX model.
            LimitExceededError: It is larger or deeper than what is read from a stranger.
        """
        self.where = where
        self.document = SCHEMA.parse(view, "Model", where=where)
        self.root = self.document.root
        if not self.root.HasField("graph"):
            refuse(where, "not an ONNX model (no graph)")

    def opsets(self) -> dict[str, int]:
        """Return the version of each domain's operators; the standard's domain is ``ai.onnx``."""
        listed = self.document.each(self.root, "opset_import")
        return {opset.domain or "ai.onnx": opset.version for opset in listed}

    def functions(self) -> Iterator[Any]:
        """Yield the functions that the model brings with it."""
        yield from self.document.each(self.root, "functions")

    def walk(self) -> Iterator[Operator | Stored]:
        """Yield every operator and tensor, in the order of the file.

        Raises:
            MalformedError: A part of it is not what it should be.
            LimitExceededError: There are more or deeper parts than in an honest model.
        """
        yield from self.graph(self.root.graph, "graph")
        for function in self.functions():
            place = f"function {function.domain}.{function.name}"
            for node in self.document.each(function, "node"):
                yield from self.node(node, place, MAX_DEPTH)
            for attribute in self.document.each(function, "attribute_proto"):
                yield from self._values(attribute, place, "", MAX_DEPTH)
        for training in self.document.each(self.root, "training_info"):
            yield from self.graph(training.initialization, "training initialization")
            yield from self.graph(training.algorithm, "training algorithm")

    def graph(self, graph: Any, place: str, depth: int = MAX_DEPTH) -> Iterator[Operator | Stored]:
        """Yield what is in a graph."""
        if depth == 0:
            exceed(self.where, f"graphs nested more than {MAX_DEPTH} levels deep")
        for tensor in self.document.each(graph, "initializer"):
            yield Stored(tensor.name, place, tensor, weight=True)
        for sparse in self.document.each(graph, "sparse_initializer"):
            yield from _sparse(sparse, place)
        for node in self.document.each(graph, "node"):
            yield from self.node(node, place, depth)

    def node(self, node: Any, place: str, depth: int) -> Iterator[Operator | Stored]:
        """Yield a node, and what is in its attributes."""
        attributes = list(self.document.each(node, "attribute"))
        yield Operator(place, node, attributes)
        constant = node.op_type == "Constant" and len(node.output) > 0
        for attribute in attributes:
            yield from self._values(attribute, f"{place}, {title(node)}", node.output[0] if constant else "", depth)

    def _values(self, attribute: Any, place: str, constant: str, depth: int) -> Iterator[Operator | Stored]:
        here = f"{place}, attribute {attribute.name!r}"
        single = [attribute.t] if attribute.HasField("t") else []
        for tensor in (*single, *self.document.each(attribute, "tensors")):
            yield Stored(constant or tensor.name, here, tensor, bool(constant))
        lone = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
        for sparse in (*lone, *self.document.each(attribute, "sparse_tensors")):
            yield from _sparse(sparse, here)
        for graph in self.inner(attribute):
            yield from self.graph(graph, here, depth - 1)

    def inner(self, attribute: Any) -> Iterator[Any]:
        """Yield the graphs in an attribute."""
        if attribute.HasField("g"):
            yield attribute.g
        yield from self.document.each(attribute, "graphs")

    def shape(self, stored: Stored) -> tuple[int, ...]:
        """Return a tensor's shape.

        Raises:
            MalformedError: It is none that a tensor in memory could have.
        """
        sizes = tuple(stored.tensor.dims[: MAX_RANK + 1])
        if len(sizes) > MAX_RANK or any(size < 0 for size in sizes) or math.prod(sizes) > MAX_ELEMENTS:
            refuse(self.where, f"{stored.place}: tensor {stored.name!r} is said to be of shape {list(sizes)}")
        return sizes

    def bytes(self, stored: Stored) -> int:
        """Return how many bytes a tensor's elements take; for text only what its raw data says."""
        bits = BITS.get(element(stored.tensor.data_type), 0)
        if not bits:
            return self.document.size(stored.tensor.raw_data)
        return -(-math.prod(self.shape(stored)) * bits // 8)

    def place(self, stored: Stored) -> dict[str, str]:
        """Return what an external tensor says about where it lies; empty for one that is in the model.

        Raises:
            MalformedError: A key stands twice: readers would differ in which they take.
        """
        if stored.tensor.data_location != EXTERNAL:
            return {}
        found = {"location": ""}
        pairs = [(pair.key, pair.value) for pair in self.document.each(stored.tensor, "external_data")]
        if len({key for key, _ in pairs}) < len(pairs):
            refuse(self.where, f"{stored.place}: tensor {stored.name!r} says twice where it lies")
        return found | dict(pairs)


def is_model(view: memoryview) -> bool:
    """Say whether bytes begin and end as an ONNX model does, whatever the order of its fields."""
    found = peek(view, most=MAX_PEEKED)
    if not found or not isinstance(graph := found.get(_GRAPH), memoryview):
        return False
    ir, opset, inside = found.get(_IR), found.get(_OPSETS), peek(graph)
    if not isinstance(ir, int | None) or not isinstance(opset, memoryview | None) or (ir is None and opset is None):
        return False
    return inside is not None and set(inside) <= _GRAPH_FIELDS


def element(number: int) -> str:
    """Return the name of an element type; of one that the standard does not have, its number."""
    return TYPES[number] if 0 <= number < len(TYPES) else str(number)


def title(node: Any) -> str:
    """Return what a node is called in a message."""
    return f"{node.op_type} {node.name!r}" if node.name else str(node.op_type)


def offset_and_length(facts: dict[str, str]) -> tuple[int, int | None] | None:
    """Return where an external tensor starts and how long it is (None: to the end); None where that is no number."""
    try:
        start, length = (int(facts[key]) if key in facts else None for key in ("offset", "length"))
    except ValueError:
        return None
    return start or 0, length


def _sparse(sparse: Any, place: str) -> Iterator[Stored]:
    yield Stored(sparse.values.name, place, sparse.values, weight=True)
    yield Stored(f"{sparse.values.name} (indices)", place, sparse.indices, weight=True)
