"""Arrays between numpy and the native plane: its memory as views, ours as pointers.

A batch's inputs are views of the library's memory: it lives as long as any view of it does.
"""

from __future__ import annotations

import ctypes
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import ModelError
from vitrify.serve.planes._library import Array, library
from vitrify.serve.ports import BYTES, DTYPES, to_session, to_wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.core.protocols import Arrays
    from vitrify.serve.planes._library import Due
    from vitrify.serve.ports import Port

    NDArray = np.ndarray[Any, Any]

_NAMES = (
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "BF16", "FP32", "FP64",
    "BYTES",
)  # fmt: skip
"""Datatypes by the library's numbers."""
NUMBERS = {name: number for number, name in enumerate(_NAMES)}
_PREFIX = 4
"""Bytes of the length before each element of BYTES."""


@cache
def _dtype(number: int) -> np.dtype[Any]:
    name = _NAMES[number]
    if name == "BF16":
        import ml_dtypes  # it takes a while, and few models need it

        dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return dtype
    return np.dtype(DTYPES[name])


class Memory:
    """The memory of a batch, given back when nobody looks at it any more."""

    def __init__(self, handle: int) -> None:
        """Keep it."""
        self._handle = handle
        self._free = library().batch_free

    def __del__(self) -> None:
        self._free(self._handle)


class _View:
    """What numpy needs to see a part of that memory, and keeps alive as long as it does."""

    __slots__ = ("__array_interface__", "_memory")

    def __init__(self, memory: Memory, address: int, size: int) -> None:
        self._memory = memory
        self.__array_interface__ = {"version": 3, "shape": (size,), "typestr": "|u1", "data": (address, False)}


def batch_inputs(due: Due, ports: Sequence[Port], memory: Memory) -> Arrays:
    """Return the inputs of a batch in the session's form: views of its memory, which they keep.

    Raises:
        SignatureError: Something is not what its field takes.
    """
    arrays: Arrays = {}
    for place in range(due.count):
        array = due.arrays[place]
        port = ports[array.index]
        shape = tuple(array.shape[: array.rank])
        if port.datatype == BYTES:
            arrays[port.name] = to_session(_elements(array, shape), port)
            continue
        dtype = _dtype(array.datatype)
        if not array.size:
            arrays[port.name] = np.empty(shape, dtype)
            continue
        arrays[port.name] = np.asarray(_View(memory, array.data, array.size)).view(dtype).reshape(shape)
    return arrays


def _elements(array: Array, shape: tuple[int, ...]) -> NDArray:
    data = ctypes.string_at(array.data, array.size)
    ends = (ctypes.c_size_t * array.count).from_address(array.offsets) if array.count else ()
    values = [data[start + _PREFIX : end] for start, end in pairwise(ends)]
    return _objects(values, shape)


def _objects(values: list[bytes], shape: tuple[int, ...]) -> NDArray:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out.reshape(shape)


def lent(place: Array, index: int, array: NDArray, port: Port) -> NDArray:
    """Describe an array in the session's form to the library; returns what has to be kept while it looks."""
    wire = to_wire(array, port)
    shape = wire.shape
    number = NUMBERS[port.datatype]
    if port.datatype == BYTES:
        wire = np.frombuffer(_packed(wire), np.uint8)
    elif not wire.flags.c_contiguous:
        wire = np.ascontiguousarray(wire)
    place.index, place.datatype, place.rank = index, number, len(shape)
    for dimension, size in enumerate(shape):
        place.shape[dimension] = size
    place.data, place.size = wire.__array_interface__["data"][0], wire.nbytes
    return wire


def _packed(array: NDArray) -> bytes:
    values: list[bytes] = array.ravel().tolist()
    return b"".join([part for value in values for part in (len(value).to_bytes(_PREFIX, "little"), value)])


def lent_outputs(places: Any, outputs: Arrays, ports: Sequence[Port]) -> list[NDArray]:
    """Describe the outputs of a batch to the library; returns what has to be kept while it looks.

    Raises:
        ModelError: The model did not give one, or gave it with too many dimensions.
    """
    kept = []
    for index, port in enumerate(ports):
        array = outputs.get(port.name)
        if array is None:
            msg = f"the model gave no output {port.name!r}; it gave {', '.join(map(repr, outputs)) or 'none'}"
            raise ModelError(msg)
        if np.ndim(array) > len(places[index].shape):
            msg = f"output {port.name!r} has {np.ndim(array)} dimensions, expected {len(port.shape)}"
            raise ModelError(msg)
        kept.append(lent(places[index], index, array, port))
    return kept


def answered(place: Array, port: Port) -> NDArray:
    """Return a copy of an output in the session's form."""
    shape = tuple(place.shape[: place.rank])
    data = ctypes.string_at(place.data, place.size) if place.size else b""
    if port.datatype != BYTES:
        return np.frombuffer(bytearray(data), _dtype(place.datatype)).reshape(shape)
    values, start = [], 0
    while start < len(data):
        end = start + _PREFIX + int.from_bytes(data[start : start + _PREFIX], "little")
        values.append(data[start + _PREFIX : end])
        start = end
    return to_session(_objects(values, shape), port)
