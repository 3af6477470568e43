"""Rewrite an ONNX graph from double to single precision; inputs and outputs keep their types.

* every double constant, cast and type attribute inside becomes single, also in graphs and functions inside;
* a double input is cast once, behind the input; a double output is cast back, before it leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Iterable

_DOUBLE, _FLOAT = onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT
_TYPE_ATTRIBUTES = {"to", "dtype", "output_datatype", "stash_type"}


def to_float32(model: onnx.ModelProto) -> onnx.ModelProto:
    """Change a model in place, and return it."""
    graph = model.graph
    held = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in held and _is_double(value)]
    outputs = [value for value in graph.output if _is_double(value)]
    inner = {value.name: f"{value.name}/float32" for value in (*inputs, *outputs)}
    _rewrite_nodes(graph.node, inner)
    for function in model.functions:
        _rewrite_nodes(function.node, {})
        _rewrite_values(function.value_info)
    _rewrite_tensors(graph.initializer)
    _rewrite_values(graph.value_info)
    before = [helper.make_node("Cast", [v.name], [inner[v.name]], to=_FLOAT) for v in inputs]
    after = [helper.make_node("Cast", [inner[v.name]], [v.name], to=_DOUBLE) for v in outputs]
    nodes = [*before, *graph.node, *after]
    graph.ClearField("node")
    graph.node.extend(nodes)
    return model


def _rewrite_nodes(nodes: Iterable[Any], rename: dict[str, str]) -> None:
    for node in nodes:
        node.input[:] = [rename.get(name, name) for name in node.input]
        node.output[:] = [rename.get(name, name) for name in node.output]
        for attribute in node.attribute:
            if attribute.name in _TYPE_ATTRIBUTES and attribute.i == _DOUBLE:
                attribute.i = _FLOAT
            if attribute.HasField("t"):
                _rewrite_tensors([attribute.t])
            _rewrite_tensors(attribute.tensors)
            for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                _rewrite_nodes(graph.node, rename)
                _rewrite_tensors(graph.initializer)
                _rewrite_values((*graph.input, *graph.output, *graph.value_info))


def _rewrite_tensors(tensors: Iterable[onnx.TensorProto]) -> None:
    for tensor in tensors:
        if tensor.data_type == _DOUBLE:
            with np.errstate(over="ignore"):
                values = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def _rewrite_values(values: Iterable[onnx.ValueInfoProto]) -> None:
    for value in values:
        if _is_double(value):
            value.type.tensor_type.elem_type = _FLOAT


def _is_double(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == _DOUBLE)
