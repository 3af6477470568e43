"""TensorFlow's frozen graph: one GraphDef message whose constants are the weights.

Entry: ``file``.

Specification: https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/framework/graph.proto.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from vitrify.reading.files import only
from vitrify.reading.malformed import exceed, refuse
from vitrify.reading.protobuf import peek

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vitrify.core.graph import Graph
    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding
    from vitrify.formats._tensorflow.graph import Walked

MAX_TENSORS = 100_000

_GRAPH = {1: memoryview, 2: memoryview, 3: int, 4: memoryview}
_NODE = {1: memoryview, 2: memoryview, 3: memoryview, 4: memoryview, 5: memoryview, 6: memoryview, 7: memoryview}
_OPERATOR = re.compile(rb"[A-Za-z_>][A-Za-z0-9_>]*")
_MAX_NAME = 200
_MAX_ELEMENTS = 2**62


class GraphDef:
    """The format of TensorFlow's frozen graphs."""

    def detect(self, files: Files) -> bool:
        """Say whether the file begins with nodes as a graph does."""
        name = only(files)
        return name is not None and is_graph(files.map(name))

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return placeholders as inputs, nodes that nothing takes as outputs, constants as tensors, and operators."""
        from vitrify.formats import _facts
        from vitrify.formats._tensorflow.saved import operators

        walked = _walked(files, entry)
        inputs, outputs = _ports(walked)
        return {
            "producer": "TensorFlow",
            "versions": {"graph": walked.document.root.versions.producer},
            "inputs": inputs,
            "outputs": outputs,
            **_facts.weights(_constants(walked)),
            **operators(walked),
            "functions": len(walked.functions),
        }

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield operators that are not TensorFlow's, and those that reach out of the graph."""
        from vitrify.formats._tensorflow.hazards import hazards
        from vitrify.formats._tensorflow.paths import Paths

        walked = _walked(files, entry)
        return hazards(walked, Paths(walked, "", frozenset()))

    def graph(self, files: Files, entry: Mapping[str, Any]) -> Graph:
        """Return the graph; functions are inside the nodes that call them."""
        from vitrify.formats._tensorflow.draw import Drawing

        walked = _walked(files, entry)
        return Drawing(walked).graph(*([port["name"] for port in ports] for ports in _ports(walked)))


def is_graph(view: memoryview) -> bool:
    """Say whether bytes begin as a graph does: with named nodes that have an operator."""
    found = peek(view)
    if not found or any(not isinstance(value, _GRAPH.get(key, type(None))) for key, value in found.items()):
        return False
    node = found.get(1)
    inside = peek(node) if isinstance(node, memoryview) else None
    if not inside or any(not isinstance(value, _NODE.get(key, type(None))) for key, value in inside.items()):
        return False
    name, operator = inside.get(1), inside.get(2)
    if not isinstance(name, memoryview) or not isinstance(operator, memoryview):
        return False
    return bool(_OPERATOR.fullmatch(bytes(operator[:_MAX_NAME]))) and len(operator) < _MAX_NAME and len(name) > 0


def _walked(files: Files, entry: Mapping[str, Any]) -> Walked:
    from vitrify.formats._protos.tensorflow import SCHEMA
    from vitrify.formats._tensorflow.graph import Walked

    name = str(entry.get("file") or only(files) or "")
    if name not in files.names():
        refuse(name or "a graph", "expected one file")
    document = SCHEMA.parse(files.map(name), "Graph", where=name)
    if not document.root.node:
        refuse(name, "not a graph (no node in it)")
    return Walked(document, document.root)


def _ports(walked: Walked) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the placeholders, and the nodes whose output nothing takes."""
    from vitrify.formats._facts import port
    from vitrify.formats._protos.tensorflow import type_name
    from vitrify.formats._tensorflow.graph import shape

    inputs, ends = [], {}
    taken: set[str] = set()
    for node in walked.nodes(""):
        ends[node.name] = node.op
        taken.update(one.lstrip("^").partition(":")[0] for one in node.input)
        if node.op == "Placeholder":
            attributes = walked.attributes(node)
            kind = type_name(attributes["dtype"].type) if "dtype" in attributes else ""
            sizes = shape(walked.document, attributes["shape"].shape) if "shape" in attributes else None
            inputs.append(port(node.name, kind, sizes))
        if len(ends) > MAX_TENSORS:
            exceed(walked.document.where, f"more than {MAX_TENSORS} nodes")
    free = [
        name for name, operator in ends.items() if name not in taken and operator not in {"Const", "NoOp", "Assert"}
    ]
    return inputs, [port(name, "", None) for name in free if all(name != one["name"] for one in inputs)]


def _constants(walked: Walked) -> Iterator[dict[str, Any]]:
    from vitrify.formats._facts import tensor
    from vitrify.formats._protos.tensorflow import BYTES, type_name
    from vitrify.formats._tensorflow.graph import shape

    for one in walked.operators():
        if one.node.op != "Const" or (value := walked.attributes(one.node).get("value")) is None:
            continue
        sizes = shape(walked.document, value.tensor.tensor_shape)
        plain = [size for size in sizes or [] if isinstance(size, int)]
        if sizes is None or len(plain) < len(sizes) or math.prod(plain) > _MAX_ELEMENTS:
            refuse(walked.document.where, f"{one.place}: is said to be of shape {sizes}")
        kind = type_name(value.tensor.dtype)
        yield tensor(one.node.name, kind, plain, math.prod(plain) * BYTES.get(kind, 0))
