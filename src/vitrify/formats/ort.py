"""ORT: ONNX models as ONNX Runtime writes them for small builds, optimised and as a FlatBuffer.

Entry: ``file``, and what :mod:`.onnx` says of ``inputs``, ``outputs``, ``casts`` and ``missing_text``.

Specification: https://onnxruntime.ai/docs/performance/model-optimizations/ort-format-models.html.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.formats import _graph_names, _tail
from vitrify.reading.files import head, only
from vitrify.reading.flatbuffer import identifier
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.graph import Graph
    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.core.report import Finding
    from vitrify.formats._ort.model import Graph as Held
    from vitrify.formats._ort.model import Model, Node

FILE = "model.ort"
MAGIC = b"ORTM"
_NCHWC = "com.microsoft.nchwc"
_CPU = frozenset({"", "CPUExecutionProvider"})
_READ = "find out what it does; allow it by its exact name if it is yours"


@dataclass(frozen=True)
class OrtModel:
    """A model as ONNX Runtime takes it: its bytes. There is no object of one that could be looked into or changed."""

    content: bytes = field(repr=False)


class Ort:
    """The format of ORT models: the same graph as in ONNX, for one version of ONNX Runtime and later ones."""

    def detect(self, files: Files) -> bool:
        """Say whether it has the identifier."""
        return identifier(head(files, 8)) == MAGIC

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return versions, producer, inputs, outputs, weights and operators.

        Raises:
            MalformedError: It is no ORT model, or cut off.
        """
        from vitrify.formats import _facts

        model = _parse(files, entry)
        graph, nodes = model.graph, list(model.graph.walk())
        held = {one.name for one in graph.stored}
        found: dict[str, Any] = {
            "producer": model.producer,
            "versions": {"ort": model.version, "ir": model.ir, **model.opsets},
            "inputs": [_port(graph, name) for name in graph.inputs if name not in held],
            "outputs": [_port(graph, name) for name in graph.outputs],
            **_facts.weights(_facts.tensor(one.name, one.type, one.shape, one.size) for one in graph.tensors()),
            "operators": _facts.counts(node.title for node in nodes),
            "metadata": model.metadata,
        }
        found |= {"description": model.description} if model.description else {}
        if quantised := _facts.counts(node.title for node in nodes if _whole(node.operator)):
            found["quantisation"] = {"operators": quantised}
        needs = [f"the execution provider {one}" for one in sorted({node.provider for node in nodes} - _CPU)]
        if any(node.domain == _NCHWC for node in nodes):
            needs.append("a processor like the one it was optimised on: weights are laid out in its blocks (NCHWc)")
        return {**found, "needs": needs} if needs else found

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield operators of native libraries, data in other files, and bytes that belong to nothing.

        Raises:
            MalformedError: It is no ORT model, or cut off.
        """
        from vitrify.core.report import Finding

        model, name = _parse(files, entry), _name(files, entry)
        for title, node in sorted({node.title: node for node in model.graph.walk()}.items()):
            if message := _foreign(node):
                yield Finding(place=name, message=message, rule="custom-operator", subject=title, remedy=_READ)
        if outside := sum(one.external for one in model.graph.tensors()):
            message = f"{outside} tensors lie in another file, which ONNX Runtime opens beside this one"
            remedy = "look at that file too, or save the model with its weights inside"
            yield Finding(place=name, message=message, rule="external-data", verdict="not checked", remedy=remedy)
        yield from _tail.hidden(files.map(name), model.end, name)

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterator[tuple[str, Files]]:
        """Yield what stands behind the model."""
        return _tail.parts(files.map(_name(files, entry)), _parse(files, entry).end)

    def graph(self, files: Files, entry: Mapping[str, Any]) -> Graph:
        """Return the graph, those of If, Loop and Scan folded.

        Raises:
            MalformedError: It is no ORT model, or cut off.
        """
        return _drawn(_parse(files, entry).graph, "main")

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:
        """Write a model that was read.

        Raises:
            UnsupportedModelError: It is none: ONNX Runtime makes them, from ONNX.
        """
        if not isinstance(model, OrtModel):
            msg = f"a {type(model).__qualname__} is no ORT model"
            raise UnsupportedModelError(msg, remedy="save it as ONNX, then: vitrify convert NAME --to ort")
        entry: dict[str, Any] = {"file": FILE}
        if example is not None:
            entry |= _names(model.content, example)
        with sink.open(FILE, "weight") as stream:
            stream.write(model.content)
        return Written(entry=entry)

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> OrtModel:  # noqa: ARG002 (the protocol's)
        """Return the model.

        Raises:
            MalformedError: It is no ORT model, or cut off.
        """
        _parse(files, entry)
        return OrtModel(files.read(_name(files, entry)))


def _names(content: bytes, example: Example) -> dict[str, dict[str, str]]:
    from vitrify.formats._ort.model import parse

    graph = parse(memoryview(content), where=FILE).graph
    held = {one.name for one in graph.stored}
    return _graph_names.match([name for name in graph.inputs if name not in held], graph.outputs, example)


def _name(files: Files, entry: Mapping[str, Any]) -> str:
    return str(entry.get("file") or only(files) or refuse("this directory", "is not one ORT model"))


def _parse(files: Files, entry: Mapping[str, Any]) -> Model:
    from vitrify.formats._ort.model import parse

    name = _name(files, entry)
    view = files.map(name)
    if identifier(view[:8]) != MAGIC:
        refuse(name, f"is no ORT model: it has not the identifier {MAGIC.decode()}")
    return parse(view, where=name)


def _port(graph: Held, name: str) -> dict[str, Any]:
    from vitrify.formats import _facts

    value = graph.values.get(name)
    return _facts.port(name, value.type if value else "", value.shape if value else None)


def _whole(operator: str) -> bool:
    """Say whether an operator works with quantised numbers, by the names that ONNX and ONNX Runtime give these."""
    return operator.startswith(("Q", "Quantize", "Dequantize", "DynamicQuantize")) or operator.endswith(
        ("Integer", "NBits")
    )


def _foreign(node: Node) -> str:
    """Say what an operator that is not ONNX's or ONNX Runtime's own would do; nothing where it is one of these."""
    from vitrify.formats._onnx.operators import NATIVE, known

    if node.title in NATIVE:
        return f"the operator {node.title} {NATIVE[node.title]}"
    if node.fused:
        return f"the operator {node.title} is a part of the graph that was compiled for {node.provider or 'a provider'}"
    if node.domain == _NCHWC or known(node.domain, node.operator):
        return ""
    return f"the operator {node.title} is native code that is not in this file: somebody has to load its library"


def _drawn(graph: Held, name: str) -> Graph:
    from vitrify.core.graph import Graph, Node, Tensor

    tensors = {key: Tensor(type=one.type, shape=one.shape) for key, one in graph.values.items()}
    tensors |= {one.name: Tensor(type=one.type, shape=one.shape, weight=True) for one in graph.stored}
    nodes = tuple(
        Node(
            operator=node.title,
            name=node.name,
            inputs=node.inputs,
            outputs=node.outputs,
            attributes=node.attributes,
            graphs={key: _drawn(inner, key) for key, inner in node.graphs.items()},
        )
        for node in graph.nodes
    )
    return Graph(name=name, inputs=graph.inputs, outputs=graph.outputs, nodes=nodes, tensors=tensors)
