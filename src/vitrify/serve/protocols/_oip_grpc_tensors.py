"""Tensors of the Open Inference Protocol over gRPC: from typed or raw contents to arrays, and back to raw ones.

Raw contents are the elements in row-major order, little-endian; each of BYTES is preceded by its length in four bytes.
BF16, which NumPy does not have, is float32 here, as in every session; it and FP16 travel raw only.

Source: ``open_inference_grpc.proto``; Triton's ``extension_binary_data.md`` for raw contents.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import SignatureError
from vitrify.serve.ports import BYTES, DATATYPES, DTYPES, to_wire
from vitrify.serve.protocols._binary import from_binary, to_binary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.serve.ports import Port

    Array = np.ndarray[Any, Any]

MAX_RANK = 32
MAX_ELEMENTS = 2**40
"""Beyond it no request is honest; the product of all sizes that are not 0."""

_TYPED: dict[str, tuple[str, str]] = {
    "BOOL": ("bool_contents", "bool"),
    **{f"INT{bits}": ("int_contents", "int32") for bits in (8, 16, 32)},
    "INT64": ("int64_contents", "int64"),
    **{f"UINT{bits}": ("uint_contents", "uint32") for bits in (8, 16, 32)},
    "UINT64": ("uint64_contents", "uint64"),
    "FP32": ("fp32_contents", "float32"),
    "FP64": ("fp64_contents", "float64"),
    BYTES: ("bytes_contents", "object"),
}
"""From the datatype to the field of ``InferTensorContents`` that has its elements, and their type there."""


def array_of(tensor: Any, raw: bytes | None, where: str) -> Array:
    """Return the array of an ``InferInputTensor``.

    Args:
        tensor: The message.
        raw: Its entry of ``raw_input_contents``; None where the contents are typed.
        where: What an error calls it.

    Raises:
        SignatureError: Datatype, shape and contents do not agree.
    """
    datatype = tensor.datatype
    if datatype not in DTYPES and datatype != BYTES:
        msg = f"{where}.datatype: found {datatype[:40]!r}, expected one of {', '.join((*DTYPES, BYTES))}"
        raise SignatureError(msg)
    shape = _shape(tensor.shape, where)
    if raw is not None:
        return from_binary(memoryview(raw), datatype, shape, where=where)
    return _from_typed(datatype, shape, tensor.contents, where)


def datatype_of(name: str, array: Array, ports: dict[str, Port]) -> tuple[str, Array]:
    """Return an output's datatype, and the array as it travels: as its port says, or as itself where it has none."""
    if (port := ports.get(name)) is not None:
        return port.datatype, to_wire(array, port)
    plain = np.ma.filled(array) if isinstance(array, np.ma.MaskedArray) else np.asarray(array)
    return DATATYPES.get(plain.dtype.name, BYTES), plain


def raw_of(datatype: str, array: Array) -> bytes:
    """Return an array's raw contents."""
    if datatype == BYTES:
        array = _put(
            [one if isinstance(one, bytes) else str(one).encode() for one in array.ravel().tolist()], array.shape
        )
    return to_binary(array, datatype)


def _shape(sizes: Sequence[int], where: str) -> tuple[int, ...]:
    if len(sizes) > MAX_RANK:
        msg = f"{where}.shape: {len(sizes)} dimensions, more than {MAX_RANK}"
        raise SignatureError(msg)
    shape = tuple(sizes)
    if min(shape, default=0) < 0:
        msg = f"{where}.shape: found {list(shape)}, expected sizes from 0"
        raise SignatureError(msg)
    if math.prod(size or 1 for size in shape) > MAX_ELEMENTS:
        msg = f"{where}.shape: {list(shape)} is beyond any request's size"
        raise SignatureError(msg)
    return shape


def _from_typed(datatype: str, shape: tuple[int, ...], contents: Any, where: str) -> Array:
    count = math.prod(shape)
    if datatype not in _TYPED:
        if count == 0 and not contents.ListFields():
            return from_binary(memoryview(b""), datatype, shape, where=where)
        msg = f"{where}.contents: {datatype} has no typed contents"
        raise SignatureError(msg, remedy="send it in raw_input_contents")
    name, dtype = _TYPED[datatype]
    for field, _ in contents.ListFields():
        if field.name != name:
            msg = f"{where}.contents: found {field.name}, expected {name} ({datatype})"
            raise SignatureError(msg)
    values = getattr(contents, name)
    if len(values) != count:
        msg = f"{where}.contents.{name}: {len(values)} elements, expected {count} (shape {list(shape)})"
        raise SignatureError(msg)
    if datatype == BYTES:
        return _put(list(values), shape)
    found: Array = np.fromiter(values, np.dtype(dtype), len(values))
    if (narrow := DTYPES[datatype]) != dtype:
        found = _narrowed(found, np.dtype(narrow), f"{where}.contents.{name}")
    return found.reshape(shape)


def _narrowed(found: Array, dtype: np.dtype[Any], where: str) -> Array:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    outside = (found < low) | (found > high)
    if outside.any():
        at = int(outside.argmax())
        msg = f"{where}[{at}]: found {found[at]}, expected {low} to {high} ({DATATYPES[dtype.name]})"
        raise SignatureError(msg)
    return found.astype(dtype)


def _put(values: list[bytes], shape: tuple[int, ...]) -> Array:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out.reshape(shape)
