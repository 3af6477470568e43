"""Ports: what a signature's fields are on the wire, in the terms of the Open Inference Protocol.

A port is a name, a datatype and a shape, with -1 where a dimension may change. Every element type of a signature has
exactly one datatype; times travel as the text of ISO 8601 in BYTES, and what may be missing is missing (``null``) in
JSON only: :func:`to_session` and :func:`to_wire` go between the two forms of an array.

Source: https://github.com/kserve/open-inference-protocol, ``specification/protocol``; BF16 is Triton's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import SignatureError

if TYPE_CHECKING:
    from vitrify.core.signature import Field, Signature

    Array = np.ndarray[Any, Any]

DATATYPES: dict[str, str] = {
    "bool": "BOOL",
    **{f"uint{bits}": f"UINT{bits}" for bits in (8, 16, 32, 64)},
    **{f"int{bits}": f"INT{bits}" for bits in (8, 16, 32, 64)},
    "float16": "FP16",
    "bfloat16": "BF16",
    "float32": "FP32",
    "float64": "FP64",
}
"""From the element types that are numbers to their datatypes; everything else is BYTES."""
BYTES = "BYTES"
DTYPES: dict[str, str] = {datatype: dtype for dtype, datatype in DATATYPES.items()}


@dataclass(frozen=True)
class Port:
    """One input or output on the wire.

    Attributes:
        name: The field's.
        datatype: ``FP32``, ``BYTES`` ...
        shape: With the batch dimension; -1 where it may change.
        field: What it is in the signature.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    field: Field


def ports(signature: Signature) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """Return the inputs and the outputs of a signature."""
    inputs, outputs = (tuple(port(field) for field in side) for side in (signature.inputs, signature.outputs))
    return inputs, outputs


def port(field: Field) -> Port:
    """Return what a field is on the wire."""
    shape = tuple(size if isinstance(size, int) else -1 for size in field.shape)
    return Port(field.name, DATATYPES.get(field.dtype, BYTES), shape, field)


def to_session(array: Array, one: Port) -> Array:
    """Return an array from the wire as a session takes it: BYTES as text, bytes or times, as the field says.

    Args:
        array: Of the datatype's own dtype; for BYTES an object array of bytes (or of text, from JSON).
        one: Where it goes.

    Raises:
        SignatureError: A text is no UTF-8, or no time.
    """
    if one.datatype != BYTES or array.dtype != object:
        return array
    kind = one.field.dtype
    if kind == "bytes":
        return _each(array, lambda value: value.encode() if isinstance(value, str) else value)
    try:
        text = _each(array, lambda value: value.decode() if isinstance(value, bytes) else value)
        return text.astype(kind) if kind.startswith(("datetime64", "timedelta64")) else text
    except (UnicodeDecodeError, ValueError) as error:
        msg = f"input {one.name!r} takes {kind}; a value is neither that nor UTF-8 text: {error}"
        raise SignatureError(msg) from error


def to_wire(array: Array, one: Port) -> Array:
    """Return an output as it travels: numbers as they are, everything else as an object array of bytes.

    Missing values, which no protocol but JSON has, are empty bytes.
    """
    if one.datatype != BYTES:
        wanted = DTYPES[one.datatype]
        plain = np.ma.filled(array) if isinstance(array, np.ma.MaskedArray) else np.asarray(array)
        return plain if wanted == "bfloat16" else np.ascontiguousarray(plain, np.dtype(wanted))
    return _each(np.asarray(array), _encoded)


def _encoded(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if value is None or value != value:  # noqa: PLR0124 (NaN and NaT are not equal to themselves)
        return b""
    return str(value).encode()


def _each(array: Array, function: Any) -> Array:
    out = np.empty(array.shape, dtype=object)
    out.ravel()[:] = [function(value) for value in array.ravel()]
    return out
