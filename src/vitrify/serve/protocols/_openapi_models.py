"""What one model takes and gives, as JSON Schema: the real names, types and sizes of its columns and tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.serve.ports import BYTES, DTYPES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vitrify.core.signature import Field
    from vitrify.serve.models import Served
    from vitrify.serve.ports import Port

    Schema = dict[str, Any]

_SHOWN = 50
_CONSTANTS = ["NaN", "Infinity", "-Infinity"]


def value(port: Port) -> Schema:
    """Return the schema of one element."""
    found = _element(port)
    if port.field.categories:
        found["examples"] = list(port.field.categories[:_SHOWN])
    return {"anyOf": [found, {"type": "null"}]} if port.field.nullable else found


def nested(port: Port, shape: Sequence[int]) -> Schema:
    """Return the schema of an array of elements, nested as a shape is."""
    found = value(port)
    for size in reversed(shape):
        found = {"type": "array", "items": found}
        if size >= 0:
            found |= {"minItems": size, "maxItems": size}
    return found


def row(ports: Sequence[Port]) -> Schema:
    """Return the schema of one row by name."""
    return {
        "type": "object",
        "properties": {port.name: nested(port, port.shape[1:]) for port in ports},
        "required": [port.name for port in ports if not port.field.nullable],
    }


def tensors(ports: Sequence[Port]) -> Schema:
    """Return the schema of the tensors of the Open Inference Protocol."""
    return {"type": "array", "items": {"oneOf": [_tensor(port) for port in ports]}}


def infer_request(served: Served) -> Schema:
    """Return the schema of ``infer``'s body."""
    return {"type": "object", "properties": {"inputs": tensors(served.inputs)}, "required": ["inputs"]}


def infer_response(served: Served) -> Schema:
    """Return the schema of ``infer``'s answer."""
    return {
        "type": "object",
        "properties": {
            "model_name": {"const": served.name},
            "model_version": {"type": "string"},
            "outputs": tensors(served.outputs),
        },
        "required": ["model_name", "model_version", "outputs"],
    }


def predict_request(served: Served) -> Schema:
    """Return the schema of TensorFlow Serving's ``predict``, by rows."""
    return {
        "type": "object",
        "properties": {"instances": {"type": "array", "items": row(served.inputs)}},
        "required": ["instances"],
    }


def invocation(served: Served) -> Schema:
    """Return the schema of MLflow's ``invocations``, as records."""
    return {
        "type": "object",
        "properties": {"dataframe_records": {"type": "array", "items": row(served.inputs)}},
        "required": ["dataframe_records"],
    }


def example(served: Served) -> Mapping[str, Any]:
    """Return a body of ``infer`` with one row of zeros, empty texts, or the first categories."""
    return {"inputs": [_example(port) for port in served.inputs]}


def _example(port: Port) -> dict[str, Any]:
    shape = [max(size, 1) if size else 0 for size in port.shape]
    count = int(np.prod(shape, dtype=np.int64)) if shape else 1
    data = [first(port)] * min(count, 1 << 12)
    return {"name": port.name, "shape": shape, "datatype": port.datatype, "data": data}


def first(port: Port) -> Any:
    """Return a value that an input takes."""
    field: Field = port.field
    if field.categories:
        return field.categories[0]
    if port.datatype == BYTES:
        return "1970-01-01" if field.dtype.startswith("datetime") else ""
    return False if port.datatype == "BOOL" else 0.0 if port.datatype.startswith(("FP", "BF")) else 0


def _element(port: Port) -> Schema:
    if port.datatype == BYTES:
        if port.field.dtype == "object":
            return {"type": ["string", "number", "boolean"]}
        time = {"description": "a time as in ISO 8601"} if port.field.dtype.startswith("datetime") else {}
        return {"type": "string", **time}
    if port.datatype == "BOOL":
        return {"type": "boolean"}
    if "INT" in port.datatype:
        limits = np.iinfo(DTYPES[port.datatype])
        return {"type": "integer", "minimum": int(limits.min), "maximum": int(limits.max)}
    return {"anyOf": [{"type": "number"}, {"enum": _CONSTANTS}]}


def _tensor(port: Port) -> Schema:
    shape: Schema = {
        "type": "array",
        "items": {"type": "integer", "minimum": 0},
        "minItems": len(port.shape),
        "maxItems": len(port.shape),
        "description": f"[{', '.join(map(str, port.field.shape))}]",
    }
    return {
        "type": "object",
        "title": str(port.field),
        "properties": {
            "name": {"const": port.name},
            "datatype": {"const": port.datatype},
            "shape": shape,
            "data": {"type": "array", "items": value(port), "description": "flat, in row-major order"},
        },
        "required": ["name", "datatype", "shape", "data"],
    }
