"""What a TFLite model says about itself: its metadata buffers, its ports, its quantisation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import VitrifyError
from vitrify.formats import _facts
from vitrify.reading.flatbuffer import root

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.formats._tflite.model import Model, SubGraph, Tensor

_RUNTIME, _CONVERSION, _PACKED = "min_runtime_version", "CONVERSION_METADATA", "TFLITE_METADATA"
_TEXT_FIELDS = {"name": 0, "description": 1, "version": 2, "author": 4, "license": 5, "min_parser_version": 7}
"""Text of ``ModelMetadata``, the root of ``metadata_schema.fbs``."""
_ENVIRONMENT, _TENSORFLOW = 0, 0
_FLOATS = frozenset({"FLOAT32", "FLOAT16", "BFLOAT16", "FLOAT64"})
_MOST_TEXT = 4096


def describe(model: Model) -> dict[str, Any]:
    """Return the facts of a model, by the keys that all formats share and its own."""
    main = model.graphs[0] if model.graphs else None
    metadata = dict(_metadata(model))
    used = (operator.code for graph in model.graphs for operator in graph.operators)
    stored = {tensor.buffer: tensor for graph in model.graphs for tensor in graph.tensors if len(tensor.data)}
    found: dict[str, Any] = {
        "producer": model.description,
        "versions": {"schema": model.version, **_versions(model)},
        "inputs": _ports(main, main.inputs) if main else [],
        "outputs": _ports(main, main.outputs) if main else [],
        **_facts.weights(_stored(tensor) for tensor in stored.values()),
        "operators": _facts.counts(_title(code.name, custom=code.custom) for code in used),
        "operator_versions": {_title(code.name, custom=code.custom): code.version for code in model.codes},
        "graphs": [
            {"name": one.name, "operators": len(one.operators), "tensors": len(one.tensors)} for one in model.graphs
        ],
        "signatures": {
            one.key: {"graph": one.graph, "inputs": sorted(one.inputs), "outputs": sorted(one.outputs)}
            for one in model.signatures
        },
    }
    custom = sorted({code.name for code in model.codes if code.custom})
    needs = [f"the custom operator {name}" for name in custom]
    found |= {"needs": needs} if needs else {}
    found |= {"quantisation": quantised} if (quantised := _quantisation(model)) else {}
    found |= {"license": text} if (text := metadata.pop("license", "")) else {}
    return {**found, "metadata": metadata}


def _title(name: str, *, custom: bool) -> str:
    return f"custom.{name}" if custom else name


def _ports(graph: SubGraph, indices: Iterable[int]) -> list[dict[str, Any]]:
    return [_port(graph.tensors[index]) for index in indices if index >= 0]


def _port(tensor: Tensor) -> dict[str, Any]:
    found = _facts.port(tensor.name, tensor.type, tensor.shape)
    return {**found, **_scales(tensor)}


def _stored(tensor: Tensor) -> dict[str, Any]:
    shape = [size or 0 for size in tensor.shape]
    return {**_facts.tensor(tensor.name, tensor.type, shape, len(tensor.data)), **_scales(tensor)}


def _scales(tensor: Tensor) -> dict[str, Any]:
    """Return how the tensor is quantised: one scale in full; of many how many, and along which axis."""
    form = tensor.quantisation
    if form is None:
        return {}
    if len(form.scales) == 1:
        return {"scale": _number(form.scales[0]), "zero_point": form.zeros[0] if form.zeros else 0}
    known = [scale for scale in form.scales if math.isfinite(scale)]
    span = [min(known), max(known)] if known else []
    return {
        "scales": len(form.scales),
        "axis": form.axis,
        "scale_range": span,
        "zero_points": sorted(set(form.zeros))[:8],
    }


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _quantisation(model: Model) -> dict[str, Any]:
    """Return a summary: which types have scales, and whether it computes in whole numbers or only stores them."""
    tensors = [tensor for graph in model.graphs for tensor in graph.tensors]
    scaled = [tensor for tensor in tensors if tensor.quantisation]
    halved = any(tensor.type in {"FLOAT16", "BFLOAT16"} and len(tensor.data) for tensor in tensors)
    if not scaled and not halved:
        return {}
    if any(not len(tensor.data) for tensor in scaled):
        computed = {tensor.type for tensor in tensors if not len(tensor.data)}
        scheme = "partly whole numbers" if computed & _FLOATS else "whole numbers"
    else:
        scheme = "dynamic range" if scaled else "half precision weights"
    per_channel = sum(len(tensor.quantisation.scales) > 1 for tensor in scaled if tensor.quantisation)
    types = _facts.counts(_facts.element(tensor.type) for tensor in scaled)
    return {"scheme": scheme, "tensors": len(scaled), "per_channel": per_channel, "types": types}


def _versions(model: Model) -> dict[str, str]:
    found = {}
    if runtime := _text(model.metadata.get(_RUNTIME)):
        found["min_runtime"] = runtime
    if (packed := model.metadata.get(_CONVERSION)) is not None:
        try:
            environment = root(packed, where=_CONVERSION).maybe(_ENVIRONMENT)
            found["tensorflow"] = environment.text(_TENSORFLOW) if environment else ""
        except VitrifyError:  # not the model's to refuse: no interpreter reads it
            found["tensorflow"] = "not readable"
    return found


def _metadata(model: Model) -> Iterable[tuple[str, str]]:
    """Yield the texts of the packed metadata, and of every other buffer its text or its size."""
    for name, content in model.metadata.items():
        if name == _PACKED:
            try:
                table = root(content, where=_PACKED)
                yield from ((key, text) for key, field in _TEXT_FIELDS.items() if (text := table.text(field)))
            except VitrifyError:
                yield name, "not readable"
        elif name not in {_RUNTIME, _CONVERSION}:
            yield name, _text(content) or f"{len(content)} bytes"


def _text(content: memoryview | None) -> str:
    """Return a short printable text that is padded with zeros; empty where it is none."""
    if content is None or len(content) > _MOST_TEXT:
        return ""
    text = bytes(content).rstrip(b"\0").decode("utf-8", "replace")
    return text if text.isprintable() and "\ufffd" not in text else ""
