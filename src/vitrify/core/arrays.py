"""Named arrays in one file that cannot run code: ``.npz`` without pickles.

Numbers, booleans and times are plain ``.npy`` members. What NumPy would pickle is laid out in plain arrays:
text as UTF-8 bytes, offsets and a kind a value (text, None, NaN), masked arrays as data and mask. The file is
the same for the same arrays: no clock, members in order, nothing compressed.

Source: NumPy's ``.npy`` format, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from vitrify.core.errors import MalformedError, UnsupportedModelError

if TYPE_CHECKING:
    from vitrify.core.protocols import Arrays

_TEXT, _NONE, _NAN, _BYTES = range(4)
_MAX_MEMBERS = 100_000


def dump(arrays: Arrays, stream: BinaryIO) -> None:
    """Write arrays.

    Raises:
        UnsupportedModelError: An object array holds something that is neither text, bytes, None nor NaN.
    """
    with zipfile.ZipFile(stream, "w") as archive:
        for index, (name, array) in enumerate(arrays.items()):
            for part, values in {"name": _utf8([name])[0], **_encode(name, array)}.items():
                info = zipfile.ZipInfo(f"{index:06d}.{part}.npy")
                with archive.open(info, "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(values, order="C"), allow_pickle=False)


def load(data: bytes | memoryview, *, where: str) -> Arrays:
    """Read arrays, in the order in which they were written.

    Raises:
        MalformedError: The bytes are not what :func:`dump` writes.
    """
    try:
        return _load(io.BytesIO(data))
    except (ValueError, KeyError, IndexError, EOFError, OSError, zipfile.BadZipFile, zlib.error, MemoryError) as error:
        msg = f"{where}: not a file of named arrays ({error})"
        raise MalformedError(msg) from error


def _load(stream: BinaryIO) -> Arrays:
    parts: dict[str, dict[str, np.ndarray[Any, Any]]] = {}
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        if len(members) > _MAX_MEMBERS:
            msg = f"{len(members)} members, more than {_MAX_MEMBERS}"
            raise ValueError(msg)
        for info in members:
            index, part, _ = info.filename.split(".")
            with archive.open(info) as member:
                parts.setdefault(index, {})[part] = np.lib.format.read_array(member, allow_pickle=False)
    return {bytes(part.pop("name")).decode(): _decode(part) for _, part in sorted(parts.items())}


def _encode(name: str, array: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    if isinstance(array, np.ma.MaskedArray):
        return {**_encode(name, array.filled(array.dtype.type(0))), "mask": np.ma.getmaskarray(array)}
    if array.dtype.kind in "US":
        array = array.astype(object)
    if array.dtype.kind != "O":
        return {"data": array}
    kinds = np.fromiter((_kind(name, value) for value in array.flat), np.uint8, array.size)
    data, offsets = _utf8(list(array.flat))
    return {"data": data, "offsets": offsets, "kinds": kinds, "shape": np.asarray(array.shape, np.int64)}


def _kind(name: str, value: object) -> int:
    match value:
        case str():
            return _TEXT
        case bytes():
            return _BYTES
        case None:
            return _NONE
        case float() if value != value:  # noqa: PLR0124 (NaN is the only value unequal to itself)
            return _NAN
    msg = f"{name}: a {type(value).__name__} in an array of objects; only text, bytes, None and NaN can be kept"
    raise UnsupportedModelError(msg, remedy="convert that column to numbers or text before saving")


def _utf8(values: list[object]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    chunks = [
        v.encode("utf-8", "surrogatepass") if isinstance(v, str) else v if isinstance(v, bytes) else b"" for v in values
    ]
    offsets = np.cumsum([0, *(len(chunk) for chunk in chunks)], dtype=np.int64)
    return np.frombuffer(b"".join(chunks), np.uint8), offsets


def _decode(parts: dict[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    if "mask" in parts:
        mask = parts.pop("mask")
        return np.ma.MaskedArray(_decode(parts), mask=mask)
    if "offsets" not in parts:
        return parts["data"]
    data, offsets, kinds, shape = (parts[key] for key in ("data", "offsets", "kinds", "shape"))
    if len(kinds) != len(offsets) - 1 or np.any(np.diff(offsets) < 0) or offsets[0] != 0 or offsets[-1] != len(data):
        msg = "text offsets that do not fit their bytes"
        raise ValueError(msg)
    whole = data.tobytes()
    values = np.empty(len(kinds), object)
    for index, kind in enumerate(kinds.tolist()):
        chunk = whole[offsets[index] : offsets[index + 1]]
        values[index] = (lambda c: c.decode("utf-8", "surrogatepass"), _none, _nan, bytes)[kind](chunk)
    return values.reshape(shape)


def _none(_: bytes) -> None:
    return None


def _nan(_: bytes) -> float:
    return float("nan")
