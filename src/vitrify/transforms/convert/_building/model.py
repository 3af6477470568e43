"""From a graph to the model that is written: what nobody uses is taken out, versions are declared as they are used."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any

import onnx
from onnx import helper

from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.transforms.convert._building.graph import ML, MS
from vitrify.transforms.convert._clean.cleaning import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from onnx import NodeProto

    from vitrify.transforms.convert._building.graph import Graph

OPSET = 21
"""What ONNX Runtime reads since 1.20; with it comes IR 10."""

OPSETS = range(18, 24)
"""The versions that the converters' nodes are the same in: reductions take their axes as an input from 18 on."""

_IR = {18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}
_DOMAINS = {ML: 5, MS: 1}
"""``ai.onnx.ml`` 5 brings TreeEnsemble, the one tree operator that computes in double."""


def opset_of(options: Mapping[str, Any]) -> int:
    """Return the opset that a step's options ask for.

    Raises:
        UsageError: It is out of range.
    """
    asked = options.get("opset")
    if asked is None:
        return OPSET
    if asked not in OPSETS:
        msg = f"opset {asked!r} cannot be written (from {OPSETS.start} to {OPSETS.stop - 1})"
        raise UsageError(msg, remedy=f"leave it out to get {OPSET}")
    return int(asked)


def to_model(graph: Graph, *, name: str, properties: Mapping[str, str]) -> onnx.ModelProto:
    """Return the model, checked.

    Raises:
        UnsupportedModelError: ONNX's own checker refuses it.
    """
    nodes = _live(_without_identities(graph), {value.name for value in graph.outputs})
    used = {name for node in nodes for name in _reads(node)}
    inputs = [value for value in graph.inputs if value.name in used]
    constants = [value for key, value in graph.constants.items() if key in used]
    declared = [value for value in graph.declared if value.name in used]
    proto = helper.make_graph(nodes, name, inputs, graph.outputs, constants, value_info=declared)
    domains = {node.domain for node in nodes} | {""}
    versions = {"": graph.opset, **_DOMAINS}
    model = helper.make_model(
        proto,
        producer_name="vitrify",
        producer_version=metadata.version("vitrify"),
        ir_version=_IR[graph.opset],
        opset_imports=[helper.make_opsetid(domain, versions[domain]) for domain in sorted(domains)],
    )
    result = clean(model, properties)
    _check(result)
    return result


def used_inputs(graph: Graph) -> set[str]:
    """Return the inputs that the outputs depend on; while there are no outputs, all of them."""
    inputs = {value.name for value in graph.inputs}
    if not graph.outputs:
        return inputs
    nodes = _live(graph.nodes, {value.name for value in graph.outputs})
    return inputs & {name for node in nodes for name in _reads(node)}


def _without_identities(graph: Graph) -> list[NodeProto]:
    """Let each reader of an Identity read what it copies; a graph output's own name goes to its producer."""
    outputs = {value.name for value in graph.outputs}
    kept_inputs = {value.name for value in graph.inputs} | set(graph.constants)
    alias: dict[str, str] = {}
    kept: list[NodeProto] = []
    for node in graph.nodes:
        _reread(node, alias)
        if node.op_type == "Identity" and node.output[0] not in outputs:
            alias[node.output[0]] = node.input[0]
        else:
            kept.append(node)
    rename: dict[str, str] = {}
    final: list[NodeProto] = []
    for node in kept:
        source = node.input[0] if node.op_type == "Identity" else ""
        if source and source not in kept_inputs and source not in rename and source not in outputs:
            rename[source] = node.output[0]
        else:
            final.append(node)
    for node in final:
        _reread(node, rename)
        node.output[:] = [rename.get(name, name) for name in node.output]
    return final


def _inner(node: NodeProto) -> Iterator[NodeProto]:
    """Yield the nodes of the graphs inside a node, such as the body of a loop."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from attribute.g.node


def _reread(node: NodeProto, names: Mapping[str, str]) -> None:
    """Let a node, and those inside it, read other values; no name stands for two values."""
    node.input[:] = [names.get(name, name) for name in node.input]
    for inner in _inner(node):
        _reread(inner, names)


def _reads(node: NodeProto) -> set[str]:
    """Return the names that a node reads, and those inside it."""
    return {*node.input, *(name for inner in _inner(node) for name in _reads(inner))}


def _live(nodes: list[NodeProto], wanted: set[str]) -> list[NodeProto]:
    """Return the nodes that an output depends on, in order."""
    live: list[NodeProto] = []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            wanted.update(_reads(node))
            live.append(node)
    return live[::-1]


def _check(model: onnx.ModelProto) -> None:
    if sum(len(tensor.raw_data) for tensor in model.graph.initializer) >= onnx.checker.MAXIMUM_PROTOBUF // 2:
        return  # beyond 2 GiB a model cannot be one message, which is what the checker takes; this is well below
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        msg = f"the graph that was built is not valid ONNX: {error}"
        raise UnsupportedModelError(msg, remedy="please report this: it is a fault of the converter") from error
