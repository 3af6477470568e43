"""The clean-up after every conversion to ONNX: what comes out is what an expert would have written.

Every transform that writes ONNX ends with :func:`clean`, and gives it what :func:`provenance` says of its source. The
graph computes the same, to the bit:

* constants are initialisers, and equal ones are one;
* what computes nothing goes: Identity, and casts, transpositions and shapes that change nothing;
* what depends on constants alone is computed, where that is exact and not larger;
* what is computed twice is computed once; what no output depends on goes, with its functions and operator sets;
* types and shapes are inferred again, and sizes that may change keep their names;
* the exporter's notes go (they name files and lines of somebody's disk), and the model says what it was made from.

Inputs and outputs keep their names, and so does every value that stays.

Source: ONNX IR, https://onnx.ai/onnx/repo-docs/IR.html.
"""

from __future__ import annotations

import json
from importlib import metadata
from typing import TYPE_CHECKING, Any

import onnx

from vitrify.core.digest import Digest
from vitrify.formats import _onnx_external
from vitrify.transforms.convert._clean.graph import Cleaner, inner_graphs, shadows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vitrify.core.protocols import Subject

_PREFIX = "vitrify."
_UNKNOWN = "unk__"
"""How ONNX's shape inference begins the names that it makes up for sizes."""


def clean(model: onnx.ModelProto, properties: Mapping[str, str] | None = None) -> onnx.ModelProto:
    """Return a model that computes the same, cleaned up.

    Args:
        model: It is not changed.
        properties: The model's metadata; by default those of ours that it has are kept. All others go.
    """
    result = _inferred(model)
    kept = {item.key: item.value for item in model.metadata_props if item.key.startswith(_PREFIX)}
    local = {(function.domain, function.name) for function in result.functions}
    if not shadows(result.graph):
        Cleaner(local, opset(result)).graph(result.graph)
    _drop_unused_functions(result)
    _drop_unused_opsets(result)
    _drop_notes(result)
    result = _inferred(result)
    for value in (*result.graph.value_info, *result.graph.output):
        _forget_made_up_names(value)
    onnx.helper.set_model_props(result, dict(sorted((kept if properties is None else properties).items())))
    return result


def provenance(source: Subject, precision: str = "source", **more: str) -> dict[str, str]:
    """Return what a model says about where it comes from.

    Args:
        source: What it was converted from.
        precision: What the conversion was asked to compute in.
        more: Further facts, as text: ``source_class``.
    """
    document = source.document
    facts = {
        "source_format": document.format,
        "precision": precision,
        "version": metadata.version("vitrify"),
        **more,
    }
    if source.files:  # a live model that was never written has none
        facts["source_digest"] = _digest(source)
    labels = {field.name: field.classes for field in (document.signature.outputs if document.signature else ())}
    if known := {name: list(classes) for name, classes in labels.items() if classes}:
        facts["classes"] = json.dumps(known, ensure_ascii=False, sort_keys=True)
    if document.lineage:
        facts["lineage"] = json.dumps(document.lineage, ensure_ascii=False, sort_keys=True)
    return {f"{_PREFIX}{key}": value for key, value in facts.items()}


def opset(model: onnx.ModelProto) -> int:
    """Return the version of the standard's operators."""
    return next((int(entry.version) for entry in model.opset_import if entry.domain in {"", "ai.onnx"}), 1)


def nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield every node, those of graphs inside too."""
    for node in graph.node:
        yield node
        for inner in inner_graphs(node):
            yield from nodes(inner)


def _digest(source: Subject) -> str:
    """Return one digest of the source's files: of the list of their names and digests."""
    listed = [f"{Digest.of(source.files.map(name))} {name}" for name in source.files.names()]
    return str(Digest.of("\n".join(listed).encode()))


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy with types and shapes; where inference fails, or takes no model of this size, a plain one."""
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    if _onnx_external.size(model) >= _onnx_external.LIMIT // 2:
        return plain
    try:
        return onnx.shape_inference.infer_shapes(plain)
    except onnx.shape_inference.InferenceError:
        return plain


def _drop_unused_functions(model: onnx.ModelProto) -> None:
    held = {(function.domain, function.name): function for function in model.functions}
    waiting, used = [model.graph.node], set()
    while waiting:
        for node in _nodes_of(waiting.pop()):
            key = node.domain, node.op_type
            if key in held and key not in used:
                used.add(key)
                waiting.append(held[key].node)
    kept = [function for key, function in held.items() if key in used]
    del model.functions[:]
    model.functions.extend(kept)


def _drop_unused_opsets(model: onnx.ModelProto) -> None:
    listed = [model.graph.node, *(function.node for function in model.functions)]
    used = {"" if node.domain == "ai.onnx" else node.domain for each in listed for node in _nodes_of(each)} | {""}
    kept = [entry for entry in model.opset_import if ("" if entry.domain == "ai.onnx" else entry.domain) in used]
    kept.sort(key=lambda entry: entry.domain)
    del model.opset_import[:]
    model.opset_import.extend(kept)


def _nodes_of(listed: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in listed:
        yield node
        for inner in inner_graphs(node):
            yield from nodes(inner)


def _drop_notes(model: onnx.ModelProto) -> None:
    model.ClearField("doc_string")
    for function in model.functions:
        _clear((function, *function.node, *function.value_info))
        for inner in (graph for node in function.node for graph in inner_graphs(node)):
            _drop_notes_of_graph(inner)
    _drop_notes_of_graph(model.graph)


def _drop_notes_of_graph(graph: onnx.GraphProto) -> None:
    _clear((graph, *graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer))
    for inner in (inner for node in graph.node for inner in inner_graphs(node)):
        _drop_notes_of_graph(inner)


def _clear(parts: Iterable[Any]) -> None:
    for part in parts:
        for field in ("doc_string", "metadata_props"):
            if field in part.DESCRIPTOR.fields_by_name:
                part.ClearField(field)


def _forget_made_up_names(value: onnx.ValueInfoProto) -> None:
    for dimension in value.type.tensor_type.shape.dim:
        if dimension.dim_param.startswith(_UNKNOWN):
            dimension.ClearField("dim_param")
