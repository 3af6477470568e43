"""Read safetensors shards without copying: arrays and tensors are views of the mapped files."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import MalformedError, MissingDependencyError
from vitrify.formats._safetensors.header import DTYPES, PACKED, Tensor
from vitrify.formats._safetensors.shards import read_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vitrify.core.protocols import Files

_NEEDS_ML_DTYPES = {"BF16", *(code for code in DTYPES if code.startswith("F8"))}
_COMPLEX128 = 16


def read_tensors(files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state dict: read-only arrays, or tensors over private copy-on-write memory.

    PyTorch has no read-only tensors, and a write through one into a read-only mapping would kill the process.
    So tensors get a mapping of their own in which written pages are copied; the file is never changed.

    Raises:
        MalformedError: See :func:`read_headers`.
        MissingDependencyError: The files hold bfloat16 or float8 arrays and ml_dtypes is not installed.
    """
    shards = read_headers(files, entry)
    as_torch = entry.get("kind", shards.kind) == "torch"
    make = _torch_maker if as_torch else _numpy_maker
    loaded: dict[str, Any] = {}
    for file, header in shards.headers.items():
        build = make(files, file, header.offset)
        for name, tensor in header.tensors.items():
            try:
                loaded[name] = build(tensor, shards.dtypes.get(name))
            except (ValueError, TypeError, RuntimeError) as error:
                msg = f"{file}: tensor {name!r} cannot be given back as {shards.dtypes.get(name)!r} ({error})"
                raise MalformedError(msg) from error
    order = list(loaded)
    for alias, (kept, position) in sorted(shards.tied.items(), key=lambda item: item[1][1]):
        order.insert(position, alias)
        loaded[alias] = loaded[kept]
    return {name: loaded[name] for name in order}


def _numpy_maker(files: Files, file: str, offset: int) -> Callable[[Tensor, str | None], np.ndarray[Any, Any]]:
    data = files.map(file).toreadonly()

    def make(tensor: Tensor, logical: str | None) -> np.ndarray[Any, Any]:
        raw = np.frombuffer(data, np.uint8, tensor.end - tensor.start, offset + tensor.start)
        stored = _numpy_dtype(tensor.dtype)
        if (offset + tensor.start) % stored.alignment:
            raw = raw.copy()  # a foreign file whose header is not padded
        if logical is None:
            return raw.view(stored).reshape(tensor.shape)
        wanted = np.dtype(logical)
        shape = tensor.shape[:-1] if wanted.itemsize == _COMPLEX128 else tensor.shape
        array = raw.view(wanted.newbyteorder("<")).reshape(shape).astype(wanted, copy=False)
        array.flags.writeable = False
        return array

    return make


def _numpy_dtype(code: str) -> np.dtype[Any]:
    if code in PACKED:
        msg = f"NumPy has no {code}, whose elements share bytes"
        raise ValueError(msg)
    name = DTYPES[code][1]
    if code not in _NEEDS_ML_DTYPES:
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        msg = f"the file holds {name}, which NumPy has only with ml_dtypes"
        raise MissingDependencyError(msg, remedy="pip install ml_dtypes") from None
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return found


def _torch_maker(files: Files, file: str, offset: int) -> Callable[[Tensor, str | None], Any]:
    import torch

    with files.path(file).open("rb") as stream:
        data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)

    def make(tensor: Tensor, logical: str | None) -> Any:
        size, name = DTYPES.get(tensor.dtype) or _packed(tensor.dtype)
        dtype = getattr(torch, name)
        shape = tensor.shape if tensor.dtype in DTYPES else (*tensor.shape[:-1], tensor.shape[-1] // 2)
        if tensor.start == tensor.end:
            values = torch.empty(shape, dtype=dtype)
        else:
            raw = torch.frombuffer(
                data, dtype=torch.uint8, count=tensor.end - tensor.start, offset=offset + tensor.start
            )
            if (offset + tensor.start) % size:
                raw = raw.clone()  # a foreign file whose header is not padded
            values = raw.view(dtype).reshape(shape)
        return values if logical is None else _as_complex(values, logical)

    return make


def _packed(code: str) -> tuple[int, str]:
    """PyTorch has one type that holds two elements a byte, and none of six bits."""
    if code != "F4":
        msg = f"PyTorch has no {code}"
        raise ValueError(msg)
    return 1, "float4_e2m1fn_x2"


def _as_complex(values: Any, logical: str) -> Any:
    import torch

    if logical != "complex128":
        msg = f"unknown element type {logical!r}"
        raise ValueError(msg)
    return torch.view_as_complex(values)
