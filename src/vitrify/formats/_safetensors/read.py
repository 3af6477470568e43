"""Read safetensors shards without copying: arrays and tensors are views of the mapped files."""

from __future__ import annotations

import json
import mmap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import MalformedError, MissingDependencyError
from vitrify.formats._safetensors.header import DTYPES, Header, Tensor, parse
from vitrify.formats._safetensors.write import EXTRAS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vitrify.core.protocols import Files

_INDEX = ".safetensors.index.json"
_MAX_INDEX = 100_000_000
_NEEDS_ML_DTYPES = {"BF16", *(code for code in DTYPES if code.startswith("F8"))}
_COMPLEX128 = 16


@dataclass(frozen=True)
class Shards:
    """The headers of all shards, checked against each other.

    Attributes:
        headers: By file name, in order.
        dtypes: The element type to give back, where the stored one does not say it.
        tied: For each tied name: the stored name, and its position in the whole.
    """

    headers: dict[str, Header]
    dtypes: dict[str, str]
    tied: dict[str, tuple[str, int]]

    @property
    def kind(self) -> str:
        """``torch`` or ``numpy``, as the files say."""
        return "torch" if any(header.metadata.get("format") == "pt" for header in self.headers.values()) else "numpy"


def read_headers(files: Files, entry: Mapping[str, Any]) -> Shards:
    """Read every shard's header, and no tensor.

    Args:
        files: The artifact's files.
        entry: ``file``, the only one, or ``shards``, the file names in order; without either, all that end in
            ``.safetensors``.

    Raises:
        MalformedError: A header is wrong, or the shards do not fit each other or their index.
    """
    names = [entry["file"]] if "file" in entry else entry.get("shards")
    names = names or [name for name in files.names() if name.endswith(".safetensors")]
    headers = {name: parse(files.map(name), where=name) for name in names}
    stored: dict[str, str] = {}
    dtypes: dict[str, str] = {}
    tied: dict[str, tuple[str, int]] = {}
    for file, header in headers.items():
        if twice := sorted(stored.keys() & header.tensors.keys()):
            msg = f"tensor {twice[0]!r} stands in {stored[twice[0]]} and in {file}"
            raise MalformedError(msg)
        stored.update(dict.fromkeys(header.tensors, file))
        if text := header.metadata.get(EXTRAS):
            _add_extras(text, file, dtypes, tied)
    _check_index(files, stored)
    if stray := {*dtypes, *(kept for kept, _ in tied.values())} - stored.keys() or tied.keys() & stored.keys():
        msg = f"the metadata speaks of tensors that are not stored, or are stored as well: {sorted(stray)}"
        raise MalformedError(msg)
    return Shards(headers, dtypes, tied)


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


def describe_tensors(files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the headers say, as JSON: names, element types, shapes and bytes; the total; the metadata."""
    shards = read_headers(files, entry)
    tensors = [
        {
            "name": name,
            "dtype": shards.dtypes.get(name, DTYPES[tensor.dtype][1]),
            "shape": list(tensor.shape),
            "bytes": tensor.end - tensor.start,
            "file": file,
        }
        for file, header in shards.headers.items()
        for name, tensor in header.tensors.items()
    ]
    metadata = {key: text for header in shards.headers.values() for key, text in header.metadata.items()}
    return {
        "tensors": tensors,
        "tied": {alias: kept for alias, (kept, _) in shards.tied.items()},
        "bytes": sum(tensor["bytes"] for tensor in tensors),
        "metadata": {key: text for key, text in metadata.items() if key != EXTRAS},
    }


def _check_index(files: Files, stored: dict[str, str]) -> None:
    for name in files.names():
        if not name.endswith(_INDEX):
            continue
        try:
            weight_map = dict(json.loads(bytes(files.map(name)[:_MAX_INDEX]))["weight_map"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            msg = f"{name}: not an index of safetensors files ({error})"
            raise MalformedError(msg) from error
        if weight_map != stored:
            wrong = [tensor for tensor in {**weight_map, **stored} if weight_map.get(tensor) != stored.get(tensor)][:5]
            msg = f"{name} and the shards disagree, for example about {wrong}"
            raise MalformedError(msg, remedy="get the missing shards, or make the index again")


def _add_extras(text: str, file: str, dtypes: dict[str, str], tied: dict[str, tuple[str, int]]) -> None:
    try:
        extras = json.loads(text)
        dtypes.update({str(name): str(dtype) for name, dtype in extras.get("dtypes", {}).items()})
        tied.update({str(alias): (str(kept), int(at)) for alias, (kept, at) in extras.get("tied", {}).items()})
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        msg = f"{file}: metadata that Vitrify cannot have written ({error})"
        raise MalformedError(msg) from error


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
        size, name = DTYPES[tensor.dtype]
        dtype = getattr(torch, name)
        if tensor.start == tensor.end:
            values = torch.empty(tensor.shape, dtype=dtype)
        else:
            raw = torch.frombuffer(
                data, dtype=torch.uint8, count=tensor.end - tensor.start, offset=offset + tensor.start
            )
            if (offset + tensor.start) % size:
                raw = raw.clone()  # a foreign file whose header is not padded
            values = raw.view(dtype).reshape(tensor.shape)
        return values if logical is None else _as_complex(values, logical)

    return make


def _as_complex(values: Any, logical: str) -> Any:
    import torch

    if logical != "complex128":
        msg = f"unknown element type {logical!r}"
        raise ValueError(msg)
    return torch.view_as_complex(values)
