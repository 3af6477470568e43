"""The values of a graph that is replayed on PyTorch, and how its operators are registered.

A value is a tensor, NumPy's array where it is constant, or :class:`Sizes`: whole numbers of a shape, of which the
exporter keeps some symbolic. Constants and sizes stay what they are as long as operators of shapes use them only, so
that a size which may change never becomes data, and data never a size.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from onnx import TensorProto

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.replay._sizes import Sizes
from vitrify.transforms.replay.walk import Ops

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Array = np.ndarray[Any, Any]

OPS = Ops("PyTorch")

DTYPES: dict[int, torch.dtype] = {
    TensorProto.FLOAT: torch.float32,
    TensorProto.DOUBLE: torch.float64,
    TensorProto.FLOAT16: torch.float16,
    TensorProto.BFLOAT16: torch.bfloat16,
    TensorProto.BOOL: torch.bool,
    TensorProto.INT8: torch.int8,
    TensorProto.INT16: torch.int16,
    TensorProto.INT32: torch.int32,
    TensorProto.INT64: torch.int64,
    TensorProto.UINT8: torch.uint8,
    TensorProto.UINT16: torch.uint16,
    TensorProto.UINT32: torch.uint32,
    TensorProto.UINT64: torch.uint64,
}
_BY_NAME = {str(dtype).removeprefix("torch."): dtype for dtype in DTYPES.values()}
FEW_KERNELS = frozenset({torch.uint16, torch.uint32, torch.uint64})
"""Types that PyTorch can hold, but hardly computes with."""

_held: ContextVar[Mapping[int, torch.Tensor]] = ContextVar("held", default=MappingProxyType({}))


@contextmanager
def holding(tensors: Mapping[int, torch.Tensor]) -> Iterator[None]:
    """Let tensors stand for constants, by the ``id`` of the array, while the block runs."""
    token = _held.set(tensors)
    try:
        yield
    finally:
        _held.reset(token)


def tensor(value: Any) -> torch.Tensor:
    """Return any value as a tensor.

    Raises:
        UnsupportedModelError: It is text, or of a type that PyTorch does not compute with.
    """
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, Sizes):
        dtype = _BY_NAME[value.dtype.name]
        flat = [torch.ops.aten.scalar_tensor(size, dtype=dtype) for size in value.values.flat]
        return torch.stack(flat).reshape(value.values.shape) if flat else torch.zeros(0, dtype=dtype)
    if (held := _held.get().get(id(value))) is not None:
        return held
    return from_numpy(value)


def from_numpy(value: Any) -> torch.Tensor:
    """Return a constant as a tensor of its own.

    Raises:
        UnsupportedModelError: It is text, or of a type that PyTorch does not compute with.
    """
    array = np.asarray(value)
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    if array.dtype.name not in _BY_NAME:
        kind = "text" if array.dtype.kind in "OUST" else str(array.dtype)
        msg = f"a tensor of {kind}, and PyTorch has none"
        raise UnsupportedModelError(msg, remedy="keep the ONNX form, or make numbers of it before the model")
    return torch.from_numpy(array.copy())


def dtype_of(number: int) -> torch.dtype:
    """Return ONNX's element type as PyTorch's.

    Raises:
        UnsupportedModelError: PyTorch has no such type.
    """
    if number not in DTYPES:
        msg = f"element type {TensorProto.DataType.Name(number)}, which is not replayed on PyTorch"
        raise UnsupportedModelError(msg, remedy="cast to a type that PyTorch computes with")
    return DTYPES[number]


def ints(value: Any) -> list[Any]:
    """Return whole numbers, of which some may be symbolic."""
    if isinstance(value, Sizes):
        return list(value.values.flat)
    if isinstance(value, torch.Tensor):
        return [value.tolist()] if value.ndim == 0 else list(value.tolist())
    return [int(number) for number in np.asarray(value).flat]


def floats(value: Any) -> list[float]:
    """Return numbers that are constant."""
    values = value.tolist() if isinstance(value, torch.Tensor) else np.asarray(value).tolist()
    return [float(number) for number in np.asarray(values).flat]
