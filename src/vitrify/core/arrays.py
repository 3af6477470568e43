"""Named arrays in one file that cannot run code: ``.npz`` without pickles.

Numbers, booleans and times are plain ``.npy`` members. What NumPy would pickle is laid out in plain arrays: objects as
bytes, offsets and a kind a value (text as UTF-8, integers as digits, floats as IEEE 754, None, NaN), masked arrays
as data and mask. The file is the same for the same arrays: no clock, no platform, members in order, nothing
compressed.

Source: NumPy's ``.npy`` format, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import io
import struct
import zipfile
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from vitrify.core.errors import MalformedError, UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.core.protocols import Arrays

    Array = np.ndarray[Any, Any]

_MAX_MEMBERS = 100_000
_UNIX = 3
"""``create_system`` of the ZIP format, fixed so that every platform writes the same bytes."""

_PLAIN = "biufcmM"
_DOUBLE = struct.Struct("<d")
_MALFORMED = (
    *(ValueError, KeyError, IndexError, TypeError, OverflowError, MemoryError, EOFError, OSError, RuntimeError),
    *(SyntaxError, TokenError, struct.error, zipfile.BadZipFile),
)
"""What ``zipfile`` and ``numpy.lib.format`` raise on bytes that nobody wrote."""


def dump(arrays: Arrays, stream: BinaryIO) -> None:
    """Write arrays.

    Numbers inside an array of objects come back as Python's own.

    Raises:
        UnsupportedModelError: An array holds something else than numbers, booleans, times, text, bytes and None.
    """
    with zipfile.ZipFile(stream, "w") as archive:
        for index, (name, array) in enumerate(arrays.items()):
            for part, values in {"name": _bytes(_text(name)), **_encode(name, array)}.items():
                info = zipfile.ZipInfo(f"{index:06d}.{part}.npy")
                info.create_system = _UNIX
                with archive.open(info, "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(values, order="C"), allow_pickle=False)


def load(data: bytes | memoryview, *, where: str) -> Arrays:
    """Read arrays, in the order in which they were written.

    Raises:
        MalformedError: The bytes are not what :func:`dump` writes.
    """
    try:
        return _load(data)
    except _MALFORMED as error:
        msg = f"{where}: not a file of named arrays ({error})"
        raise MalformedError(msg) from error


def flatten(name: str, array: Array) -> dict[str, Array]:
    """Return the plain arrays that one array is made of, by what each is: it itself as ``data`` where it is plain.

    Raises:
        UnsupportedModelError: As for :func:`dump`.
    """
    return _encode(name, array)


def restore(parts: dict[str, Array], *, where: str) -> Array:
    """Return the array that :func:`flatten` took apart.

    Raises:
        MalformedError: These are no such parts.
    """
    try:
        return _decode(dict(parts))
    except _MALFORMED as error:
        msg = f"{where}: not the parts of an array ({error})"
        raise MalformedError(msg) from error


def _load(data: bytes | memoryview) -> Arrays:
    parts: dict[str, dict[str, Array]] = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        _require(len(members) <= _MAX_MEMBERS, f"{len(members)} members, more than {_MAX_MEMBERS}")
        _require(all(info.compress_type == zipfile.ZIP_STORED for info in members), "a compressed member")
        _require(sum(info.file_size for info in members) <= len(data), "members that are larger than the file")
        for info in members:
            index, part, _ = info.filename.split(".")
            whole = io.BytesIO(archive.read(info))  # at once, so that its checksum is compared before it is parsed
            parts.setdefault(index, {})[part] = np.lib.format.read_array(whole, allow_pickle=False)
            _require(not whole.read(1), "bytes behind an array")
    arrays = [(_name(part.pop("name")), _decode(part)) for _, part in sorted(parts.items())]
    _require(len(dict(arrays)) == len(arrays), "two arrays of one name")
    return dict(arrays)


def _require(condition: bool, otherwise: str) -> None:  # noqa: FBT001 (reads like assert)
    if not condition:
        raise ValueError(otherwise)


def _encode(name: str, array: Array) -> dict[str, Array]:
    if isinstance(array, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(array)
        hidden: Any = None if array.dtype.kind in "OUS" else np.zeros((), array.dtype)
        return {**_encode(name, np.where(mask, hidden, array.data)), "mask": mask}
    if array.dtype.kind in "US":
        array = array.astype(object)
    if array.dtype.kind in _PLAIN and array.dtype.char not in "gG":
        return {"data": array}
    if array.dtype.kind != "O":
        msg = f"{name}: an array of {array.dtype}, which has no portable form"
        raise UnsupportedModelError(msg, remedy="convert it to float64, complex128 or text before saving")
    encoded = [_encode_value(name, value) for value in array.ravel().tolist()]
    chunks = [chunk for _, chunk in encoded]
    return {
        "data": _bytes(b"".join(chunks)),
        "offsets": np.cumsum([0, *map(len, chunks)], dtype=np.int64),
        "kinds": np.array([kind for kind, _ in encoded], np.uint8),
        "shape": np.array(array.shape, np.int64),
    }


def _encode_value(name: str, value: object) -> tuple[int, bytes]:  # noqa: PLR0911 (one return a kind)
    match value:
        case str():
            return 0, _text(value)
        case None:
            return 1, b""
        case float() | np.floating() if value != value:  # noqa: PLR0124 (NaN is the only value unequal to itself)
            return 2, b""
        case bytes():
            return 3, bytes(value)
        case bool() | np.bool_():
            return 4, bytes([bool(value)])
        case int() | np.integer():
            return 5, str(int(value)).encode()
        case float() | np.floating():
            return 6, _DOUBLE.pack(value)
    msg = f"{name}: a {type(value).__name__} in an array of objects; only text, bytes, numbers and None can be kept"
    raise UnsupportedModelError(msg, remedy="convert that column to numbers or text before saving")


_DECODERS: tuple[Callable[[bytes], object], ...] = (
    lambda chunk: chunk.decode("utf-8", "surrogatepass"),
    lambda _: None,
    lambda _: float("nan"),
    lambda chunk: chunk,
    lambda chunk: chunk != b"\0",
    int,
    lambda chunk: _DOUBLE.unpack(chunk)[0],
)
"""By the kind that :func:`_encode_value` gives."""


def _decode(parts: dict[str, Array]) -> Array:
    if "mask" in parts:
        mask, array = parts.pop("mask"), _decode(parts)
        _require(mask.dtype == np.bool_ and mask.shape == array.shape, "a mask that does not fit its array")
        return np.ma.MaskedArray(array, mask=mask)
    if "offsets" not in parts:
        _require(parts["data"].dtype.kind in _PLAIN, "an array of an unexpected type")
        return parts["data"]
    data, offsets, kinds, shape = (parts[key] for key in ("data", "offsets", "kinds", "shape"))
    types = [(part.dtype, part.ndim) for part in (data, offsets, kinds, shape)]
    _require(types == [(np.uint8, 1), (np.int64, 1), (np.uint8, 1), (np.int64, 1)], "objects of an unexpected type")
    _require(len(kinds) == len(offsets) - 1 and offsets[0] == 0 and offsets[-1] == len(data), "offsets out of bounds")
    _require(not np.any(np.diff(offsets) < 0) and not np.any(shape < 0), "offsets that go back, or a negative shape")
    whole, bounds = data.tobytes(), offsets.tolist()
    values = np.empty(len(kinds), object)
    for index, kind in enumerate(kinds.tolist()):
        values[index] = _DECODERS[kind](whole[bounds[index] : bounds[index + 1]])
    return values.reshape(shape)


def _name(part: Array) -> str:
    _require(part.dtype == np.uint8, "a name of an unexpected type")
    return part.tobytes().decode("utf-8", "surrogatepass")


def _text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _bytes(data: bytes) -> Array:
    return np.frombuffer(data, np.uint8)
