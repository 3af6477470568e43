"""Arrays as ``.npy`` and sparse matrices as ``.npz``, without pickle.

Sources: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html and ``scipy.sparse.save_npz``.
"""

from __future__ import annotations

import ast
import io
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from vitrify.core.errors import MalformedError
from vitrify.formats._skops.archive import Archive, Packer

if TYPE_CHECKING:
    from vitrify.formats._skops.archive import Buffer

_MAX_HEADER = 1024 * 1024
_MAX_OF_NOTHING = 2**31
"""Elements of zero bytes cost no file space; this many are believed."""

_DAMAGE = (ValueError, TypeError, LookupError, AttributeError, SyntaxError, OverflowError, MemoryError, RecursionError)

_SPARSE_PARTS = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "bsr": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
}


def encode(array: np.ndarray[Any, Any] | np.generic[Any]) -> tuple[Buffer, Buffer]:
    """Return header and content. Values, dtype, and C or Fortran order are kept.

    Raises:
        ValueError: NumPy cannot write this dtype without pickle.
    """
    array = np.asarray(array)
    if array.dtype.hasobject:
        msg = f"an array of dtype {array.dtype} holds Python objects"
        raise ValueError(msg)
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = np.ascontiguousarray(array)
    array = _without_gaps(array)
    header = np.lib.format.header_data_from_array_1_0(array)
    stream = io.BytesIO()
    try:
        np.lib.format.write_array_header_1_0(stream, header)
    except ValueError:  # a header above 64 KiB
        np.lib.format.write_array_header_2_0(stream, header)
    if array.nbytes == 0:
        return stream.getvalue(), b""
    flat = (array if array.flags.c_contiguous else array.T).reshape(-1)
    return stream.getvalue(), flat.view(np.uint8).data


def decode(data: memoryview, *, where: str) -> np.ndarray[Any, Any]:
    """Return a writable copy of the array.

    Raises:
        MalformedError: The header does not describe exactly the bytes that follow.
    """
    try:
        shape, fortran, dtype, content = _split(data)
        order: Literal["C", "F"] = "F" if fortran else "C"
        if content.nbytes == 0:
            return np.empty(shape, dtype, order=order)
        return np.frombuffer(content, dtype).reshape(shape, order=order).copy(order="K")
    except _DAMAGE as error:
        msg = f"{where}: not an array ({error})"
        raise MalformedError(msg) from error


def encode_sparse(matrix: Any) -> Buffer:
    """Return a sparse matrix or array as ``scipy.sparse.load_npz`` reads it, uncompressed and without a clock.

    Raises:
        ValueError: Its layout has no such form (``dok``, ``lil``).
    """
    if matrix.format not in _SPARSE_PARTS:
        msg = f"a sparse matrix in {matrix.format} form cannot be kept; csr, csc, bsr, coo and dia can"
        raise ValueError(msg)
    arrays = {
        "format": np.array(matrix.format.encode("ascii")),
        "shape": np.array(matrix.shape),
        **{part: getattr(matrix, part) for part in _SPARSE_PARTS[matrix.format]},
    }
    if not hasattr(matrix, "getformat"):  # only the older matrix classes have it
        arrays["_is_array"] = np.array(True)  # noqa: FBT003 (the value that scipy writes)
    stream = io.BytesIO()
    with Packer(stream) as packer:
        for name, array in arrays.items():
            packer.add(f"{name}.npy", encode(array))
    return stream.getvalue()


def decode_sparse(data: memoryview, *, where: str) -> Any:
    """Return the sparse matrix or array, its indices checked against its shape.

    Raises:
        MalformedError: It is none, or an index points outside.
    """
    from scipy import sparse

    archive = Archive(data, where=where)

    def get(part: str) -> Any:
        return decode(archive.read(f"{part}.npy"), where=f"{where}: {part}")

    layout = bytes(get("format").item()).decode("ascii", "replace")
    if layout not in _SPARSE_PARTS:
        msg = f"{where}: no sparse layout is called {layout!r}"
        raise MalformedError(msg)
    parts = tuple(get(part) for part in _SPARSE_PARTS[layout])
    content = (parts[0], parts[1:]) if layout == "coo" else parts
    cls = getattr(sparse, f"{layout}_{'array' if '_is_array.npy' in archive else 'matrix'}")
    try:
        matrix = cls(content, shape=tuple(get("shape").tolist()))
        if layout in {"csr", "csc", "bsr"}:
            matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        msg = f"{where}: not a sparse matrix ({error})"
        raise MalformedError(msg) from error
    return matrix


def _without_gaps(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array with zeros between the fields of its records, where memory is left as it was found."""
    if array.dtype.names is None:
        return array
    clean = np.zeros(array.shape, array.dtype, order="C" if array.flags.c_contiguous else "F")
    for name in array.dtype.names:
        clean[name] = _without_gaps(array[name])
    return clean


def _split(data: memoryview) -> tuple[tuple[int, ...], bool, np.dtype[Any], memoryview]:
    magic = bytes(data[:8])
    size_bytes = {b"\x93NUMPY\x01\x00": 2, b"\x93NUMPY\x02\x00": 4}.get(magic)
    if size_bytes is None:
        msg = "no .npy header of version 1 or 2"
        raise ValueError(msg)
    end = 8 + size_bytes + int.from_bytes(data[8 : 8 + size_bytes], "little")
    shape, fortran, dtype = _header(bytes(data[8 + size_bytes : end]))
    content = data[end:]
    count = math.prod(shape)
    if dtype.hasobject or count * dtype.itemsize != content.nbytes or (count > _MAX_OF_NOTHING and not content.nbytes):
        msg = f"{content.nbytes} bytes for an array of shape {shape} and dtype {dtype}"
        raise ValueError(msg)
    return shape, fortran, dtype, content


@lru_cache(maxsize=1024)
def _header(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Parse the literal dict of a header; a forest repeats the same few hundreds of times."""
    if len(header) > _MAX_HEADER:
        msg = f"a header of {len(header)} bytes"
        raise ValueError(msg)
    literal = ast.literal_eval(header.decode("latin1"))
    shape, fortran, dtype = literal["shape"], literal["fortran_order"], np.lib.format.descr_to_dtype(literal["descr"])
    if type(shape) is not tuple or any(type(size) is not int or size < 0 for size in shape):
        msg = f"no shape: {shape!r:.60}"
        raise ValueError(msg)
    return shape, bool(fortran), dtype
