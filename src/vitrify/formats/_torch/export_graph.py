"""An exported program's JSON as ports and as a graph; the text was audited before.

Source: ``torch/_export/serde/schema.py``.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from vitrify.core.graph import Graph, Node, Tensor
from vitrify.formats import _facts
from vitrify.formats._torch.archive import SCALARS
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TEXT = 80
_SYMBOL = re.compile(r"Symbol\('(\w+)'[^()]*\)$")
_WEIGHTS = {"parameter": "parameter_name", "buffer": "buffer_name", "tensor_constant": "tensor_constant_name"}


class Program:
    """One program.

    Raises:
        MalformedError: It has not the parts that a program has.
    """

    def __init__(self, program: Mapping[str, Any], *, where: str) -> None:
        """Take what the audit returned."""
        try:
            module = program["graph_module"]
            self._graph: dict[str, Any] = module["graph"]
            self._values: dict[str, Any] = self._graph["tensor_values"]
            self._inputs: list[dict[str, Any]] = module["signature"]["input_specs"]
            self._outputs: list[dict[str, Any]] = module["signature"]["output_specs"]
            self.versions = {"torch": str(program.get("torch_version") or "")}
            self.versions["schema"] = ".".join(str(part) for part in program["schema_version"].values())
            self.weights = dict(self._weights())
            self.inputs = [self._port(name) for spec in self._inputs if "user_input" in spec for name in _tensors(spec)]
            self.outputs = [
                self._port(name) for spec in self._outputs if "user_output" in spec for name in _tensors(spec)
            ]
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            refuse(where, f"a program without the parts of one ({type(error).__name__}: {error})")
        self._where = where

    def operators(self) -> dict[str, int]:
        """Return the call targets, also of the graphs inside, with how often."""
        return dict(sorted(Counter(_targets(self._graph)).items()))

    def drawn(self) -> Graph:
        """Return the graph.

        Raises:
            MalformedError: A node has not the parts of one.
        """
        try:
            return _graph(self._graph, self.weights)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            refuse(self._where, f"a graph without the parts of one ({type(error).__name__}: {error})")

    def _weights(self) -> Iterator[tuple[str, str]]:
        """Yield the graph's name and the module's name of each stored tensor."""
        for spec in self._inputs:
            for kind, key in _WEIGHTS.items():
                if kind in spec:
                    yield str(spec[kind]["arg"]["name"]), str(spec[kind][key])

    def _port(self, name: str) -> dict[str, Any]:
        known = self._values.get(name, {})
        shape = [_size(size) for size in known["sizes"]] if known else None
        return _facts.port(name, SCALARS.get(known.get("dtype"), ""), shape)


def _graph(graph: dict[str, Any], weights: Mapping[str, str], name: str = "") -> Graph:
    values = graph.get("tensor_values", {})
    tensors = {
        weights.get(key, key): Tensor(
            type=SCALARS.get(about["dtype"], ""),
            shape=tuple(_size(size) for size in about["sizes"]),
            weight=key in weights,
        )
        for key, about in values.items()
    }
    inputs = [one for one in _tensors(graph.get("inputs", [])) if one not in weights]
    nodes = tuple(_node(node, weights) for node in graph["nodes"])
    outputs = tuple(_tensors(graph.get("outputs", [])))
    return Graph(name=name, inputs=tuple(inputs), outputs=outputs, nodes=nodes, tensors=tensors)


def _node(node: dict[str, Any], weights: Mapping[str, str]) -> Node:
    inputs: list[str] = []
    attributes: dict[str, str] = {}
    graphs: dict[str, Graph] = {}
    for argument in node["inputs"]:
        held, name = argument["arg"], str(argument.get("name") or len(attributes))
        if isinstance(held, dict) and "as_graph" in held:
            inner = held["as_graph"]
            graphs[str(inner.get("name"))] = _graph(inner["graph"], {}, str(inner.get("name")))
        elif names := list(_tensors(held)):
            inputs += [weights.get(one, one) for one in names]
        elif isinstance(held, dict):
            ((_, value),) = held.items()
            attributes[name] = str(value)[:_TEXT]
    outputs = tuple(name for output in node["outputs"] for name in _tensors(output))
    operator = str(node["target"]).removeprefix("torch.ops.")
    return Node(operator=operator, inputs=tuple(inputs), outputs=outputs, attributes=attributes, graphs=graphs)


def _tensors(value: Any) -> Iterator[str]:
    """Yield the names of the tensors that an argument is, or holds."""
    if isinstance(value, list):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == "as_graph":
                continue
            if key in {"as_tensor", "as_tensors", "as_optional_tensors"}:
                yield from _named(item)
            else:
                yield from _tensors(item)


def _named(value: Any) -> Iterator[str]:
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            inner = item.get("as_tensor", item)
            if isinstance(inner, dict) and "name" in inner:
                yield str(inner["name"])


def _size(size: dict[str, Any]) -> int | str | None:
    if "as_int" in size:
        return int(size["as_int"])
    text = str(size["as_expr"]["expr_str"])
    symbol = _SYMBOL.match(text)
    return symbol[1] if symbol else text[:_TEXT]


def _targets(value: Any) -> Iterator[str]:
    """Yield the call targets of a graph and of the graphs inside it."""
    if isinstance(value, list):
        for item in value:
            yield from _targets(item)
    elif isinstance(value, dict):
        if "target" in value and "inputs" in value:
            yield str(value["target"]).removeprefix("torch.ops.")
        for item in value.values():
            yield from _targets(item)
