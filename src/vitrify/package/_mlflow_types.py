"""MLflow's signatures and ours: columns by name and type, or tensors with their shapes.

MLflow converts what it is given to the types of the signature before the model sees it. So a signature is only written
where that conversion changes nothing: a column whose type MLflow has no word for (categories, integers that may be
missing, 8-bit numbers) leaves the whole signature out, and Vitrify's own, which travels along, checks the call.

Source: https://mlflow.org/docs/latest/ml/model/signatures/ and ``mlflow/types/schema.py``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from vitrify.core.errors import MalformedError
from vitrify.core.signature import DTYPES
from vitrify.reading import json as strict

if TYPE_CHECKING:
    from vitrify.core.signature import Field, Signature

COLUMNS = {
    "bool": "boolean",
    "int32": "integer",
    "int64": "long",
    "float32": "float",
    "float64": "double",
    "string": "string",
    "bytes": "binary",
}
_TYPES = {name: dtype for dtype, name in COLUMNS.items()} | {"datetime": "datetime64[ns]"}
_TENSORS = frozenset({"bool", "float16", "float32", "float64"}) | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
_PLAIN = frozenset({"bool", "int32", "int64", "float32", "float64", "object", "str", "string"})
"""Container types of pandas that say no more than the element type."""
_MAX_FIELDS, _MAX_TEXT = 100_000, 16 * 1024 * 1024


class Port(NamedTuple):
    """One input or output as MLflow describes it.

    Attributes:
        name: Its name; None where MLflow has none.
        dtype: Our element type.
        shape: For a tensor its sizes, -1 where one may change; None for a column.
        required: Whether it has to be given.
    """

    name: str | None
    dtype: str
    shape: tuple[int, ...] | None
    required: bool


def written(signature: Signature) -> dict[str, str | None] | None:
    """Return what stands under ``signature`` in an MLmodel file; None where MLflow has no words for the inputs."""
    inputs = _columns(signature.inputs) if signature.is_table else _tensors(signature.inputs, signature.container)
    if inputs is None:
        return None
    outputs = _tensors(signature.outputs, "dict")
    return {"inputs": _text(inputs), "outputs": _text(outputs) if outputs else None, "params": None}


def read(model: dict[str, Any], side: str) -> tuple[Port, ...] | None:
    """Return one side of the signature in an MLmodel file; None where there is none, or one that we have no words for.

    Args:
        model: The file, parsed.
        side: ``inputs`` or ``outputs``.

    Raises:
        MalformedError: It is no signature.
    """
    signature = model.get("signature")
    text = signature.get(side) if isinstance(signature, dict) else None
    if text is None:
        return None
    where = f"MLmodel: signature.{side}"
    listed = strict.parse(text.encode(), where=where, most=_MAX_TEXT) if isinstance(text, str) else text
    if not isinstance(listed, list) or len(listed) > _MAX_FIELDS:
        msg = f"{where}: expected a list of at most {_MAX_FIELDS} fields"
        raise MalformedError(msg)
    ports = [_port(one, where) for one in listed]
    known = [port for port in ports if port is not None]
    return tuple(known) if known and len(known) == len(ports) else None


def _port(one: Any, where: str) -> Port | None:
    if not isinstance(one, dict):
        msg = f"{where}: expected an object a field, not {str(one)[:80]!r}"
        raise MalformedError(msg)
    name, kind, required = one.get("name"), one.get("type"), one.get("required", True)
    if not (name is None or isinstance(name, str)) or not isinstance(kind, str) or not isinstance(required, bool):
        msg = f"{where}: a field whose name, type or required is of the wrong type: {str(one)[:80]!r}"
        raise MalformedError(msg)
    if kind != "tensor":
        dtype = _TYPES.get(kind)
        return Port(name, dtype, None, required) if dtype else None  # arrays, objects and maps are no columns of ours
    spec = one.get("tensor-spec")
    shape = spec.get("shape") if isinstance(spec, dict) else None
    dtype = spec.get("dtype") if isinstance(spec, dict) else None
    if not isinstance(shape, list) or not isinstance(dtype, str) or not all(type(size) is int for size in shape):
        msg = f"{where}: a tensor without an element type or sizes: {str(one)[:80]!r}"
        raise MalformedError(msg)
    if any(size < -1 for size in shape):
        msg = f"{where}: a tensor of the sizes {shape}; a size is a number from 0, or -1"
        raise MalformedError(msg)
    dtype = "string" if dtype in {"str", "object"} or dtype.startswith(("<U", "U")) else dtype
    return Port(name, dtype, tuple(shape), required) if dtype in DTYPES else None


def _columns(fields: tuple[Field, ...]) -> list[dict[str, Any]] | None:
    listed = []
    for field in fields:
        native = (field.container_dtype or "str").removeprefix("series:")
        times = field.dtype.startswith("datetime64") and native.startswith("datetime64") and "," not in native
        whole = field.nullable and field.dtype in {"bool", "int32", "int64"}
        said = native in _PLAIN and field.dtype in COLUMNS and field.key is None and not whole
        if not (said or times) or field.categories is not None or field.shape != ("batch",):
            return None
        kind = "datetime" if times else COLUMNS[field.dtype]
        listed.append({"type": kind, "name": field.name, "required": True})
    return listed


def _tensors(fields: tuple[Field, ...], container: str) -> list[dict[str, Any]] | None:
    if container == "tuple" or any(field.dtype not in _TENSORS or field.nullable for field in fields):
        return None
    named = container == "dict"
    return [
        {
            "type": "tensor",
            **({"name": field.name} if named else {}),
            "tensor-spec": {
                "dtype": field.dtype,
                "shape": [size if isinstance(size, int) else -1 for size in field.shape],
            },
        }
        for field in fields
    ]


def _text(listed: list[dict[str, Any]]) -> str:
    return json.dumps(listed, ensure_ascii=False)
