"""Nodes whose inputs are constants, computed: only where every runtime computes the same bits.

That is what moves values without computing, whole numbers that do not overflow, comparisons and logic of these, and
the casts that are exact. Sums and products of floating-point numbers stay: they are the model's.

Source: ONNX operators, https://onnx.ai/onnx/operators/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx import NodeProto, ValueInfoProto

    Array = np.ndarray[Any, Any]

_MOVES = frozenset(
    {
        *("Reshape", "Transpose", "Concat", "Gather", "GatherElements", "GatherND", "Slice", "Squeeze", "Unsqueeze"),
        *("Flatten", "Expand", "Tile", "ConstantOfShape", "Where", "Size", "Identity", "Not", "And", "Or", "Xor"),
    }
)
_WHOLE = frozenset(
    {
        *("Add", "Sub", "Mul", "Neg", "Abs", "Range", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
        *("ReduceMax", "ReduceMin", "Max", "Min", "Cast"),
    }
)
_WIDEST = {"int64": 2**31, "int32": 2**15}
"""Whole numbers of a type below it: their sums and products do not overflow."""

_SMALL = 4096
"""Bytes that a result may have even if it is larger than what it is made from."""

_MOST = 1 << 16
"""Elements of a result whose size is one of its inputs' values, before it is computed at all."""


def folded(
    node: NodeProto, constants: Mapping[str, TensorProto], values: Mapping[str, ValueInfoProto], opset: int
) -> TensorProto | None:
    """Return what a node gives, or None where it is not computed here.

    Args:
        node: Any node.
        constants: What is known by name; the input of ``Shape`` need not be.
        values: Types and shapes by name.
        opset: The version of the standard's operators.
    """
    if node.domain not in {"", "ai.onnx"} or len([name for name in node.output if name]) != 1:
        return None
    if node.op_type == "Shape":
        return _shape(node, values)
    if node.op_type not in _MOVES | _WHOLE or any(name and name not in constants for name in node.input):
        return None
    held = [constants[name] for name in node.input if name]
    if any(tensor.external_data for tensor in held):
        return None
    result = _exact(node, {tensor.name: numpy_helper.to_array(tensor) for tensor in held}, opset)
    return None if result is None else numpy_helper.from_array(np.ascontiguousarray(result).reshape(result.shape))


def _exact(node: NodeProto, given: Mapping[str, Array], opset: int) -> Array | None:
    """Return the result where every runtime has the same bits, and it is not larger than what it is made from."""
    whole = node.op_type in _WHOLE
    if (whole and not all(map(_is_small_and_whole, given.values()))) or _is_large(node, given):
        return None
    result = _computed(node, given, opset)
    if result is None or result.nbytes > max(_SMALL, sum(array.nbytes for array in given.values())):
        return None
    if node.op_type == "Cast" and not _is_exact(result, given[node.input[0]]):
        return None
    return result


def _is_large(node: NodeProto, given: Mapping[str, Array]) -> bool:
    arrays = [given[name] for name in node.input if name]
    match node.op_type:
        case "ConstantOfShape":
            count = np.prod(arrays[0], dtype=float)
        case "Expand" | "Tile":
            count = np.prod(arrays[1], dtype=float) * arrays[0].size
        case "Range":
            start, stop, step = (float(array) for array in arrays)
            count = abs(stop - start) / abs(step) if step else np.inf
        case _:
            return False
    return bool(count > _MOST)


def _is_exact(result: Array, given: Array) -> bool:
    """Say whether a cast changed no value, to a type that has room for it."""
    return result.dtype.name in {"bool", "int32", "int64", "float32", "float64"} and bool((result == given).all())


def _shape(node: NodeProto, values: Mapping[str, ValueInfoProto]) -> TensorProto | None:
    value = values.get(node.input[0])
    if value is None or not value.type.tensor_type.HasField("shape"):
        return None
    asked = {attribute.name: attribute.i for attribute in node.attribute}
    sizes = list(value.type.tensor_type.shape.dim)[slice(asked.get("start", 0), asked.get("end"))]
    if not all(size.HasField("dim_value") for size in sizes):
        return None
    return numpy_helper.from_array(np.array([size.dim_value for size in sizes], np.int64))


def _is_small_and_whole(array: Array) -> bool:
    widest = _WIDEST.get(array.dtype.name, 0)
    return array.dtype.kind == "b" or bool(widest and (np.abs(array.astype(np.float64)) < widest).all())


def _computed(node: NodeProto, given: Mapping[str, Array], opset: int) -> Array | None:
    """Return what ONNX's reference computes; None where it has no answer."""
    from onnx.reference import ReferenceEvaluator

    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    output = onnx.ValueInfoProto(name=node.output[0])
    graph = helper.make_graph([node], "fold", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    try:
        (result,) = ReferenceEvaluator(model).run(None, dict(given))
    except Exception:  # noqa: BLE001 (a node that the reference cannot compute is left to the runtime)
        return None
    return np.asarray(result) if np.asarray(result).dtype.kind in "biufO" else None
