"""Sparse matrices as the ``.npz`` that ``scipy.sparse.save_npz`` writes, without pickle."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import MalformedError
from vitrify.reading import npy
from vitrify.reading.zip import Zip
from vitrify.reading.zip_writer import Packer

if TYPE_CHECKING:
    from vitrify.reading.zip_writer import Buffer

_SPARSE_PARTS = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "bsr": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
}


def encode(matrix: Any) -> Buffer:
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
            packer.add(f"{name}.npy", npy.encode(array))
    return stream.getvalue()


def decode(data: memoryview, *, where: str) -> Any:
    """Return the sparse matrix or array, its indices checked against its shape.

    Raises:
        MalformedError: It is none, or an index points outside.
    """
    from scipy import sparse

    archive = Zip(data, where=where, strict=True)

    def get(part: str) -> Any:
        return npy.decode(archive.read(f"{part}.npy"), where=f"{where}: {part}")

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
