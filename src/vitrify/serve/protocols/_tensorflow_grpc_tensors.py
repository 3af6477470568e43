"""``tensorflow.TensorProto``: to an array, and back.

A tensor's elements are in ``tensor_content``, raw, or in the list of its type, where the last value stands for all that
follow: one value may so be a whole tensor. Answers have lists, as TensorFlow Serving's have: clients read them.

Source: https://github.com/tensorflow/tensorflow, ``tensorflow/core/framework/tensor.proto``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vitrify.core.errors import LimitExceededError, SignatureError
from vitrify.serve.ports import BYTES, to_wire
from vitrify.serve.protocols._binary import to_binary

if TYPE_CHECKING:
    from vitrify.serve.ports import Port

    Array = np.ndarray[Any, Any]

MAX_RANK = 32
MAX_BYTES = 64 * 1024 * 1024
"""Of an array that is longer than its message, because one value stands for many."""


class _Type(NamedTuple):
    """One element type: the list that has its elements, their type there, and their type in the array."""

    list: str
    listed: str
    dtype: str


_TYPES: dict[str, _Type] = {
    "DT_FLOAT": _Type("float_val", "float32", "float32"),
    "DT_DOUBLE": _Type("double_val", "float64", "float64"),
    "DT_INT32": _Type("int_val", "int32", "int32"),
    "DT_INT16": _Type("int_val", "int32", "int16"),
    "DT_INT8": _Type("int_val", "int32", "int8"),
    "DT_UINT8": _Type("int_val", "int32", "uint8"),
    "DT_UINT16": _Type("int_val", "int32", "uint16"),
    "DT_UINT32": _Type("uint32_val", "uint32", "uint32"),
    "DT_UINT64": _Type("uint64_val", "uint64", "uint64"),
    "DT_INT64": _Type("int64_val", "int64", "int64"),
    "DT_BOOL": _Type("bool_val", "bool", "bool"),
    "DT_HALF": _Type("half_val", "int32", "float16"),
    "DT_BFLOAT16": _Type("half_val", "int32", "bfloat16"),
    "DT_STRING": _Type("string_val", "object", "object"),
    "DT_COMPLEX64": _Type("scomplex_val", "float32", "complex64"),
    "DT_COMPLEX128": _Type("dcomplex_val", "float64", "complex128"),
}
_LISTS = {one.list for one in _TYPES.values()}
_NAMES = {one.dtype: name for name, one in _TYPES.items()}
_HALVES = {"float16", "bfloat16"}


def type_of(port: Port) -> str:
    """Return the name of a port's element type: what is neither a number nor complex is a string."""
    return _NAMES["object"] if port.datatype == BYTES and not _is_complex(port) else _NAMES[port.field.dtype]


def array_of(tensor: Any, types: Any, where: str) -> Array:
    """Return a tensor's array; bfloat16 as float32, strings as bytes.

    Args:
        tensor: The message.
        types: The enumeration ``DataType``.
        where: What an error calls it.

    Raises:
        SignatureError: Type, shape and elements do not agree.
        LimitExceededError: One value stands for more than is taken.
    """
    name = types.Name(tensor.dtype) if tensor.dtype in types.values() else str(tensor.dtype)
    if name not in _TYPES:
        msg = f"{where}.dtype: found {name}, expected one of {', '.join(_TYPES)}"
        raise SignatureError(msg)
    kind = _TYPES[name]
    shape = _shape(tensor.tensor_shape, where)
    given = [field.name for field, _ in tensor.ListFields() if field.name in _LISTS or field.name == "tensor_content"]
    allowed = {kind.list} if name == "DT_STRING" else {kind.list, "tensor_content"}
    if len(given) > 1 or not allowed.issuperset(given):
        msg = f"{where}: found {' and '.join(given)}, expected one of {' or '.join(sorted(allowed))} ({name})"
        raise SignatureError(msg)
    if given == ["tensor_content"]:
        return _from_content(tensor.tensor_content, kind, shape, f"{where}.tensor_content")
    return _from_list(getattr(tensor, kind.list), kind, shape, f"{where}.{kind.list}")


def write(tensor: Any, array: Array, port: Port | None, types: Any) -> None:
    """Write an array into a tensor.

    Args:
        tensor: An empty message.
        array: An output, in the session's form.
        port: What it is on the wire; None where nothing is known of it but itself.
        types: The enumeration ``DataType``.
    """
    plain = np.asarray(array) if port is None or _is_complex(port) else to_wire(array, port)
    name = _NAMES.get(plain.dtype.name, "DT_STRING") if port is None else type_of(port)
    tensor.dtype = types.Value(name)
    tensor.tensor_shape.SetInParent()
    for size in plain.shape:
        tensor.tensor_shape.dim.add(size=size)
    kind = _TYPES[name]
    flat = plain.ravel()
    if kind.dtype in _HALVES:
        datatype = "BF16" if kind.dtype == "bfloat16" else "FP16"
        flat = np.frombuffer(to_binary(flat, datatype), "<u2")
    elif kind.dtype.startswith("complex"):
        flat = np.ascontiguousarray(flat, kind.dtype).view(kind.listed)
    values = flat.tolist()
    if kind.dtype == "object":
        values = [value if isinstance(value, bytes) else str(value).encode() for value in values]
    getattr(tensor, kind.list).extend(values)


def _is_complex(port: Port) -> bool:
    return port.field.dtype.startswith("complex")


def _shape(described: Any, where: str) -> tuple[int, ...]:
    if described.unknown_rank:
        msg = f"{where}.tensor_shape: the rank is unknown, expected sizes"
        raise SignatureError(msg)
    if len(described.dim) > MAX_RANK:
        msg = f"{where}.tensor_shape: {len(described.dim)} dimensions, more than {MAX_RANK}"
        raise SignatureError(msg)
    shape = tuple(dim.size for dim in described.dim)
    if min(shape, default=0) < 0 or math.prod(size or 1 for size in shape) > 2**40:
        msg = f"{where}.tensor_shape: found {list(shape)}, expected sizes from 0 that a request can have"
        raise SignatureError(msg)
    return shape


def _from_content(content: bytes, kind: _Type, shape: tuple[int, ...], where: str) -> Array:
    wide = np.dtype("uint16" if kind.dtype in _HALVES else kind.dtype).newbyteorder("<")
    if len(content) != (expected := math.prod(shape) * wide.itemsize):
        msg = f"{where}: {len(content)} bytes, expected {expected} (shape {list(shape)})"
        raise SignatureError(msg)
    if kind.dtype == "bool":
        return np.asarray(np.frombuffer(content, np.uint8) != 0).reshape(shape)
    found: Array = np.frombuffer(content, wide)
    return (_from_halves(found, kind) if kind.dtype in _HALVES else found).reshape(shape)


def _from_list(values: Any, kind: _Type, shape: tuple[int, ...], where: str) -> Array:
    each = 2 if kind.dtype.startswith("complex") else 1
    count = math.prod(shape)
    held, rest = divmod(len(values), each)
    if rest or held > count or (held == 0 and count):
        expected = f"1 to {count * each} (shape {list(shape)}; the last repeats)"
        msg = f"{where}: {len(values)} values, expected {expected}"
        raise SignatureError(msg)
    if kind.dtype == "object":
        found: Array = np.empty(held, dtype=object)
        found[:] = list(values)
    else:
        found = _typed(np.fromiter(values, np.dtype(kind.listed), len(values)), kind, where)
    if held == count:
        return found.reshape(shape)
    if count * found.itemsize > MAX_BYTES:
        msg = f"{where}: {held} values for {count} elements, more than the last may stand for"
        raise LimitExceededError(msg, remedy="send every value, or fewer rows at a time")
    full = np.full(count, found[-1], found.dtype)
    full[:held] = found
    return full.reshape(shape)


def _typed(found: Array, kind: _Type, where: str) -> Array:
    """Return a list's values as elements."""
    if kind.dtype.startswith("complex"):
        return found.view(kind.dtype)
    wanted = np.dtype("uint16" if kind.dtype in _HALVES else kind.dtype)
    if wanted.kind in "iu" and wanted != found.dtype:
        low, high = np.iinfo(wanted).min, np.iinfo(wanted).max
        outside = (found < low) | (found > high)
        if outside.any():
            at = int(outside.argmax())
            msg = f"{where}[{at}]: found {found[at]}, expected {low} to {high}"
            raise SignatureError(msg)
        found = found.astype(wanted)
    return _from_halves(found, kind) if kind.dtype in _HALVES else found


def _from_halves(bits: Array, kind: _Type) -> Array:
    """Return the numbers of sixteen bits each; bfloat16 is the upper half of a float32."""
    if kind.dtype == "bfloat16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return bits.astype(np.uint16).view(np.float16)
