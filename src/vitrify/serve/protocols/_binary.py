"""Raw tensors: little-endian, row-major, BYTES with the length of each element before it in four bytes.

Source: ``docs/protocol/extension_binary_data.md`` of https://github.com/triton-inference-server/server.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import SignatureError
from vitrify.serve.ports import BYTES, DTYPES
from vitrify.serve.protocols._elements import narrow

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

_LENGTH = struct.Struct("<I")


def element_bytes(datatype: str) -> int:
    """Return the bytes of one element of a datatype that is not BYTES."""
    return 2 if datatype == "BF16" else np.dtype(DTYPES[datatype]).itemsize


def from_binary(data: memoryview, datatype: str, shape: tuple[int, ...], *, where: str) -> Array:
    """Return an array from its bytes; BF16 becomes float32, BYTES an array of objects.

    Raises:
        SignatureError: The bytes are not those of this datatype and shape.
    """
    count = math.prod(shape)
    if datatype == BYTES:
        out = np.empty(count if count <= len(data) // _LENGTH.size else 0, object)
        out[:] = _texts(data, count, where)
        return out.reshape(shape)
    if len(data) != count * element_bytes(datatype):
        expected = f"{count} elements of {element_bytes(datatype)} bytes by the shape {list(shape)}"
        msg = f"{where}: {len(data)} bytes of {datatype}, expected {expected}"
        raise SignatureError(msg)
    if datatype == "BF16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << np.uint32(16)).view(np.float32).reshape(shape)
    if datatype == "BOOL":
        bits = np.frombuffer(data, np.uint8)
        if len(bits) and bits.max() > 1:
            position = int(np.argmax(bits > 1))
            msg = f"{where}: byte {position} is {bits[position]}; BOOL is 0 or 1"
            raise SignatureError(msg)
    array: Array = np.frombuffer(data, np.dtype(DTYPES[datatype]).newbyteorder("<")).reshape(shape)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def to_binary(array: Array, datatype: str) -> bytes:
    """Return the bytes of an array that :func:`vitrify.serve.ports.to_wire` gave."""
    if datatype == BYTES:
        return b"".join(_LENGTH.pack(len(value)) + value for value in array.ravel())
    if datatype == "BF16":
        exact = narrow(array.astype(np.float64), "BF16")
        return (np.ascontiguousarray(exact).view(np.uint32) >> np.uint32(16)).astype("<u2").tobytes()
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _texts(data: memoryview, count: int, where: str) -> list[bytes]:
    if count > len(data) // _LENGTH.size:
        msg = f"{where}: {len(data)} bytes of BYTES, expected {count} elements with a length of 4 bytes each"
        raise SignatureError(msg)
    found, at = [], 0
    for index in range(count):
        if len(data) - at < _LENGTH.size:
            msg = f"{where}: BYTES end before the length of element {index}; {count} are expected"
            raise SignatureError(msg)
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if length > len(data) - at:
            msg = f"{where}: element {index} of BYTES has {length} bytes, but {len(data) - at} are left"
            raise SignatureError(msg)
        found.append(bytes(data[at : at + length]))
        at += length
    if at != len(data):
        msg = f"{where}: {len(data) - at} bytes are left after {count} elements of BYTES"
        raise SignatureError(msg)
    return found
