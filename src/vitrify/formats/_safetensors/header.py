"""The header of a safetensors file: parsed with every number bounded, and written.

A file is the header's length (8 bytes, little-endian), the header (JSON), then the tensors' bytes without gaps.

Source: https://github.com/huggingface/safetensors, section "Format" of its README.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from vitrify.core.errors import MalformedError
from vitrify.core.nesting import shallow
from vitrify.reading.malformed import exceed

DTYPES: dict[str, tuple[int, str]] = {
    "BOOL": (1, "bool"),
    "U8": (1, "uint8"),
    "I8": (1, "int8"),
    "F8_E5M2": (1, "float8_e5m2"),
    "F8_E4M3": (1, "float8_e4m3fn"),
    "F8_E8M0": (1, "float8_e8m0fnu"),
    "F8_E4M3FNUZ": (1, "float8_e4m3fnuz"),
    "F8_E5M2FNUZ": (1, "float8_e5m2fnuz"),
    "I16": (2, "int16"),
    "U16": (2, "uint16"),
    "F16": (2, "float16"),
    "BF16": (2, "bfloat16"),
    "I32": (4, "int32"),
    "U32": (4, "uint32"),
    "F32": (4, "float32"),
    "C64": (8, "complex64"),
    "F64": (8, "float64"),
    "I64": (8, "int64"),
    "U64": (8, "uint64"),
}
"""Element types: bytes an element, and the name that NumPy (with ml_dtypes) and PyTorch both give it."""

PACKED = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
"""Element types of less than a byte: bits an element; a row's last byte is full."""

MAX_HEADER = 100_000_000
"""Bytes of JSON; the reference implementation's own limit."""

ALIGNMENT = 64
"""The first tensor starts at a multiple of this: a cache line, and enough for every vector unit."""

_MAX_VALUES = 4_000_000
"""Parsed JSON takes many times its bytes in memory; this is half a million tensors."""
_MAX_RANK = 64
_MAX_BYTES = 2**63 - 1
_METADATA = "__metadata__"
_KEYS = frozenset({"dtype", "shape", "data_offsets"})
_NAMES = {code: code for code in (*DTYPES, *PACKED)}


class _Entry(NamedTuple):
    """A tensor as the JSON has it, not yet checked: a header of many holds three small values of each, not a dict."""

    dtype: Any
    shape: Any
    data_offsets: Any


@dataclass(frozen=True, slots=True)
class Tensor:
    """Where one tensor lies: its bytes are ``start`` (inclusive) to ``end`` (exclusive) of the data."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True)
class Header:
    """What a file says about itself.

    Attributes:
        tensors: In the order of the JSON.
        metadata: The free text map.
        offset: Bytes before the data.
    """

    tensors: dict[str, Tensor]
    metadata: dict[str, str]
    offset: int


def element(dtype: str) -> str:
    """Return the name of an element type as libraries give it; of one that none of them has, its code."""
    return DTYPES[dtype][1] if dtype in DTYPES else dtype.lower()


def nbytes(dtype: str, shape: tuple[int, ...]) -> int:
    """Return the size of a tensor in bytes."""
    if dtype in PACKED:
        return -(-PACKED[dtype] * math.prod(shape) // 8)
    return DTYPES[dtype][0] * math.prod(shape)


def encode(tensors: dict[str, Tensor], metadata: dict[str, str]) -> bytes:
    """Return the length and the header, padded with spaces so that the data is aligned."""
    entries: dict[str, Any] = {_METADATA: metadata} if metadata else {}
    for name, tensor in tensors.items():
        offsets = [tensor.start, tensor.end]
        entries[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": offsets}
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def parse(data: memoryview, *, where: str) -> Header:
    """Read and check the header of a whole file.

    Raises:
        MalformedError: A length, type, shape or offset is not what the format allows, or the tensors do not
            cover the data exactly.
        LimitExceededError: The header has more values than any model has.
    """
    try:
        return _parse(data, where)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        msg = f"{where}: not a valid safetensors file ({error})"
        raise MalformedError(msg) from error


def _parse(data: memoryview, where: str) -> Header:
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > MAX_HEADER or 8 + length > len(data):  # noqa: PLR2004 (the format's constant)
        msg = f"a header of {length} bytes in a file of {len(data)}; at most {MAX_HEADER} bytes are allowed"
        raise ValueError(msg)
    text = bytes(data[8 : 8 + length])
    if sum(map(text.count, (b",", b"[", b"{"))) > _MAX_VALUES:
        exceed(where, f"a header of more than {_MAX_VALUES} values")
    if not text.startswith(b"{"):
        msg = "the header does not start with a brace"
        raise ValueError(msg)
    entries = json.loads(shallow(text).decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    del text
    if not isinstance(entries, dict):
        msg = "the header is one tensor, not a map of them"
        raise TypeError(msg)
    metadata = entries.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        msg = f"{_METADATA} is not a map from text to text"
        raise TypeError(msg)
    tensors: dict[str, Tensor] = entries
    for name, entry in entries.items():
        tensors[name] = _tensor(name, entry)
    _check_coverage(tensors, len(data) - 8 - length)
    return Header(tensors, metadata, 8 + length)


def _tensor(name: str, entry: Any) -> Tensor:
    if not isinstance(entry, _Entry):
        msg = f"{name!r}: expected dtype, shape and data_offsets"
        raise TypeError(msg)
    dtype, shape, offsets = entry
    if not isinstance(dtype, str) or (dtype not in DTYPES and dtype not in PACKED):
        msg = f"{name!r}: unknown element type {dtype!r}"
        raise ValueError(msg)
    if not _sizes(shape) or not _sizes(offsets) or len(offsets) != 2 or len(shape) > _MAX_RANK:  # noqa: PLR2004 (start, end)
        msg = f"{name!r}: a shape or offsets that are not lists of sizes"
        raise ValueError(msg)
    if nbytes(dtype, tuple(max(size, 1) for size in shape)) > _MAX_BYTES:
        msg = f"{name!r}: a shape too large for any memory: {shape}"
        raise ValueError(msg)
    if PACKED.get(dtype, 8) * math.prod(shape) % 8:
        msg = f"{name!r}: {dtype} elements that do not fill their last byte, in a shape {shape}"
        raise ValueError(msg)
    if offsets[1] - offsets[0] != nbytes(dtype, tuple(shape)):
        msg = f"{name!r}: {offsets[1] - offsets[0]} bytes for a {dtype} tensor of shape {shape}"
        raise ValueError(msg)
    return Tensor(dtype, tuple(shape), *offsets)


def _sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int and 0 <= size <= _MAX_BYTES for size in value)


def _check_coverage(tensors: dict[str, Tensor], size: int) -> None:
    """Refuse gaps, overlaps and bytes that belong to no tensor: nothing may hide in a file."""
    position = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].end)):
        if tensor.start != position:
            msg = f"{name!r} starts at {tensor.start}, expected {position}: tensors overlap or leave a gap"
            raise ValueError(msg)
        position = tensor.end
    if position != size:
        msg = f"the tensors need {position} bytes of data, there are {size}"
        raise ValueError(msg)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Entry:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        msg = "a name stands twice"
        raise ValueError(msg)
    if entries.keys() != _KEYS:
        return entries
    dtype = entries["dtype"]
    known = _NAMES.get(dtype, dtype) if isinstance(dtype, str) else dtype  # one text for all tensors of a type
    return _Entry(known, entries["shape"], entries["data_offsets"])


def _no_constant(text: str) -> Any:
    msg = f"{text} is not JSON"
    raise ValueError(msg)
