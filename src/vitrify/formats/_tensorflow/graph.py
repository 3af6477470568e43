"""A TensorFlow graph, walked: the nodes of the main graph and of every function in its library."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from vitrify.formats._protos.tensorflow import type_name
from vitrify.reading.malformed import exceed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.reading.protobuf import Document

MAX_FUNCTIONS = 100_000
MAX_RANK = 254
"""TensorFlow's own limit."""

CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


class Operator(NamedTuple):
    """A node, and the function that it stands in; of the main graph, empty text."""

    function: str
    node: Any

    @property
    def place(self) -> str:
        """Where it stands, for people."""
        return f"{f'function {self.function}' if self.function else 'graph'}, {self.node.op} {self.node.name!r}"


class Scope(NamedTuple):
    """The nodes of one graph or function by name, and the names of the function's arguments."""

    nodes: dict[str, Any]
    arguments: tuple[str, ...]


class Walked:
    """A graph with its functions."""

    def __init__(self, document: Document, graph: Any) -> None:
        """Take the graph and the document that it is part of."""
        self.document = document
        self._graph = graph
        self._scopes: dict[str, Scope] = {}

    @cached_property
    def functions(self) -> dict[str, Any]:
        """The functions of the library, by name.

        Raises:
            LimitExceededError: There are more than in an honest model.
        """
        found: dict[str, Any] = {}
        for function in self.document.each(self._graph.library, "function"):
            found[function.signature.name] = function
            if len(found) > MAX_FUNCTIONS:
                exceed(self.document.where, f"more than {MAX_FUNCTIONS} functions")
        return found

    def operators(self) -> Iterator[Operator]:
        """Yield every node, also those of functions that nothing calls or whose name stands twice.

        Raises:
            MalformedError: A part of it is not what it should be.
            LimitExceededError: There are more parts than in an honest graph.
        """
        for node in self.nodes(""):
            yield Operator("", node)
        for function in self.document.each(self._graph.library, "function"):
            for node in self.document.each(function, "node_def"):
                yield Operator(function.signature.name, node)

    def nodes(self, function: str) -> Iterator[Any]:
        """Yield the nodes of a function, or of the main graph."""
        if not function:
            yield from self.document.each(self._graph, "node")
        elif function in self.functions:
            yield from self.document.each(self.functions[function], "node_def")

    def scope(self, function: str) -> Scope:
        """Return what a function, or the main graph, is made of."""
        if function not in self._scopes:
            arguments: tuple[str, ...] = ()
            if function in self.functions:
                listed = self.document.each(self.functions[function].signature, "input_arg")
                arguments = tuple(argument.name for argument in listed)
            self._scopes[function] = Scope({node.name: node for node in self.nodes(function)}, arguments)
        return self._scopes[function]

    def attributes(self, node: Any) -> dict[str, Any]:
        """Return a node's attributes by name."""
        return {pair.key: pair.value for pair in self.document.each(node, "attr")}

    def called(self, node: Any) -> dict[str, str]:
        """Return the functions that a node calls, by the name of the attribute that says so."""
        found: dict[str, str] = {"function": node.op} if node.op in self.functions else {}
        for key, value in self.attributes(node).items():
            if value.HasField("func"):
                found[key] = value.func.name
            elif value.HasField("list"):
                calls = enumerate(self.document.each(value.list, "func"))
                found |= {f"{key} {index}": call.name for index, call in calls}
        return found

    @cached_property
    def callers(self) -> dict[str, list[tuple[Operator, bool]]]:
        """Every node that calls a function, by its name, and whether its inputs are the function's arguments."""
        found: dict[str, list[tuple[Operator, bool]]] = {}
        for one in self.operators():
            for name in self.called(one.node).values():
                plain = one.node.op in CALLS or one.node.op == name
                found.setdefault(name, []).append((one, plain))
        return found


def shape(document: Document, message: Any) -> list[int | str | None] | None:
    """Return a shape: None where not even the rank is known, and for a size that is not.

    Raises:
        LimitExceededError: It has more dimensions than TensorFlow allows.
    """
    if message.unknown_rank:
        return None
    if len(message.dim) > MAX_RANK:
        exceed(document.where, f"a shape of {len(message.dim)} dimensions")
    return [None if size.size < 0 else size.size for size in document.each(message, "dim")]


def port(document: Document, name: str, info: Any) -> dict[str, Any]:
    """Return an input or output as :mod:`vitrify.formats` writes it, and the tensor that it is."""
    sizes = shape(document, info.tensor_shape) if info.HasField("tensor_shape") else None
    return {"name": name, "type": type_name(info.dtype), "shape": sizes, "tensor": info.name}
