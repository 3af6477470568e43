"""From a state dict's values to what is stored of each: element type, shape, bytes, and what the format cannot say."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.report import Finding
from vitrify.formats._safetensors.header import DTYPES, nbytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CODES = {name: code for code, (_, name) in DTYPES.items()}
_STRIDED_BLOCK = 8 * 1024 * 1024


@dataclass(frozen=True)
class Source:
    """One tensor to store.

    Attributes:
        name: Its name.
        dtype: The format's element type.
        shape: As stored.
        values: The elements, not copied.
        logical: The element type to give back where ``dtype`` does not say it: big-endian, complex128, times.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: np.ndarray[Any, Any]
    logical: str | None

    @property
    def nbytes(self) -> int:
        """The stored size in bytes."""
        return nbytes(self.dtype, self.shape)

    def chunks(self, size: int) -> Iterator[memoryview]:
        """Yield the elements' bytes, little-endian in C order, about ``size`` bytes at a time."""
        if self.nbytes:
            yield from _chunks(self.values, size)


@dataclass(frozen=True)
class Sources:
    """A state dict, ready to be stored.

    Attributes:
        kind: ``torch`` or ``numpy``.
        stored: What is written, in order.
        tied: For each name that is the same view of the same memory as a stored one: that one, and the position
            of the name in the whole.
        overlapping: Names that are different views of one buffer.
    """

    kind: str
    stored: tuple[Source, ...]
    tied: dict[str, tuple[str, int]]
    overlapping: tuple[str, ...]


def sources(tensors: Mapping[Any, Any]) -> Sources:
    """Look at every value without copying one.

    Raises:
        UnsupportedModelError: Something is no tensor, or of a type that the format cannot hold; all are listed.
    """
    problems: list[Finding] = []
    stored: dict[tuple[Any, ...], Source] = {}
    tied: dict[str, tuple[str, int]] = {}
    kinds = {_kind(value) for value in tensors.values()} - {None}
    if len(kinds) > 1:
        problems.append(Finding(place="the dict", message="mixes arrays and tensors", remedy="use one of the two"))
    for position, (name, value) in enumerate(tensors.items()):
        try:
            source = _source(name, value)
        except _RefusedError as refused:
            problems.append(Finding(place=repr(name), message=refused.found, remedy=refused.remedy))
            continue
        key = _view_of(source) if source.nbytes else (id(value), source.dtype, source.shape)
        if key in stored:
            tied[source.name] = (stored[key].name, position)
        else:
            stored[key] = source
    if problems:
        msg = f"{len(problems)} of {len(tensors)} entries cannot be kept as safetensors"
        raise UnsupportedModelError(msg, problems=problems, remedy="save the named tensors only, without nesting")
    kind = "torch" if "torch" in kinds else "numpy"
    return Sources(kind, tuple(stored.values()), tied, _overlapping(list(stored.values())))


class _RefusedError(Exception):
    """One value cannot be kept."""

    def __init__(self, *, found: str, remedy: str) -> None:
        """Say what was found and what to do."""
        super().__init__(found)
        self.found = found
        self.remedy = remedy


def _kind(value: Any) -> str | None:
    if isinstance(value, np.ndarray):
        return "numpy"
    return "torch" if _is_tensor(value) else None


def _is_tensor(value: Any) -> bool:
    return any(f"{base.__module__}.{base.__qualname__}" == "torch.Tensor" for base in type(value).__mro__)


def _source(name: Any, value: Any) -> Source:
    if not isinstance(name, str) or name == "__metadata__" or name != name.encode("utf-8", "ignore").decode():
        raise _RefusedError(found="not a name that the format allows", remedy="name every tensor with text")
    match _kind(value):
        case "numpy":
            return _numpy_source(name, value)
        case "torch":
            return _torch_source(name, value)
    kind = type(value).__name__
    raise _RefusedError(
        found=f"a {kind}, not an array or tensor", remedy="flatten nested dicts; keep settings elsewhere"
    )


def _numpy_source(name: str, array: np.ndarray[Any, Any]) -> Source:
    if isinstance(array, np.ma.MaskedArray):
        raise _RefusedError(
            found="a masked array: the mask would be lost", remedy="store .data and .mask under two names"
        )
    dtype = array.dtype
    if dtype.kind in "mM":
        return Source(name, "I64", array.shape, array, dtype.str)
    if dtype.name == "complex128":
        return Source(name, "F64", (*array.shape, 2), array, dtype.str)
    if dtype.name not in _CODES:
        raise _RefusedError(found=f"an array of {dtype}", remedy="convert it to numbers, for example with astype")
    return Source(name, _CODES[dtype.name], array.shape, array, dtype.str if dtype.byteorder == ">" else None)


def _torch_source(name: str, value: Any) -> Source:
    import torch
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    if value.layout is not torch.strided or value.is_quantized or is_traceable_wrapper_subclass(value):
        raise _RefusedError(
            found=f"a {value.layout} {type(value).__name__}, not a plain dense tensor", remedy="use to_dense()"
        )
    if value.device.type != "cpu" or isinstance(value, torch.nn.parameter.UninitializedTensorMixin):
        raise _RefusedError(
            found=f"a tensor without memory on the CPU ({value.device})", remedy="move the model first: model.cpu()"
        )
    tensor = value.detach().resolve_conj().resolve_neg()
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype == "complex128":
        return Source(name, "F64", (*tensor.shape, 2), tensor.numpy(), dtype)
    if dtype not in _CODES:
        raise _RefusedError(found=f"a tensor of {dtype}", remedy="convert it with .to(dtype)")
    unknown_to_numpy = {"bfloat16": torch.int16} | {name: torch.uint8 for name in _CODES if name.startswith("float8")}
    values = tensor.view(unknown_to_numpy.get(dtype, tensor.dtype)).numpy()
    return Source(name, _CODES[dtype], values.shape, values, None)


def _view_of(source: Source) -> tuple[Any, ...]:
    values = source.values
    return (values.__array_interface__["data"][0], values.strides, source.dtype, source.shape, source.logical)


def _overlapping(stored: list[Source]) -> tuple[str, ...]:
    spans = sorted((*_span(source.values), source.name) for source in stored if source.nbytes)
    names: set[str] = set()
    highest, owner = 0, ""
    for low, high, name in spans:
        if low < highest:
            names |= {owner, name}
        if high > highest:
            highest, owner = high, name
    return tuple(source.name for source in stored if source.name in names)


def _span(values: np.ndarray[Any, Any]) -> tuple[int, int]:
    start = values.__array_interface__["data"][0]
    reach = [(size - 1) * stride for size, stride in zip(values.shape, values.strides, strict=True)]
    low = start + sum(step for step in reach if step < 0)
    return low, start + sum(step for step in reach if step > 0) + values.itemsize


def _chunks(values: np.ndarray[Any, Any], size: int) -> Iterator[memoryview]:
    little = values.dtype.newbyteorder("<") if values.dtype.kind in "iufcmM" else values.dtype
    if values.flags.c_contiguous and little == values.dtype:
        data = values.reshape(-1).view(np.uint8).data
        yield from (data[start : start + size] for start in range(0, len(data), size))
        return
    # A strided array is copied a block at a time: its peak memory is one block, whatever its size.
    if values.nbytes <= _STRIDED_BLOCK or values.ndim == 0:
        copy = np.array(values, dtype=little, order="C")
        yield copy.reshape(-1).view(np.uint8).data
        return
    rows = max(1, _STRIDED_BLOCK // max(1, values.itemsize * math.prod(values.shape[1:])))
    for start in range(0, values.shape[0], rows):
        yield from _chunks(values[start : start + rows] if rows > 1 else values[start], size)
