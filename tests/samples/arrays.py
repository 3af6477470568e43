"""Samples of NumPy's own files, and of files that are compressed as a whole."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma

import numpy as np

PLAIN = {
    "weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "columns first": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "text": np.array(["red", "green"]),
    "days": np.array(["2026-01-01", "NaT"], "datetime64[D]"),
    "flags": np.array([True, False]),
    "record": np.zeros(2, [("id", "<i4"), ("place", "<f8", (2,))]),
    "scalar": np.array(3.5),
    "empty": np.zeros((0, 3)),
}
OBJECTS = np.array(["a", None, 1.5, {"k": [1, 2]}], dtype=object)


def npy(folder):
    np.save(folder / "weight.npy", PLAIN["weight"])
    return folder / "weight.npy"


def npy_objects(folder):
    np.save(folder / "names.npy", OBJECTS)
    return folder / "names.npy"


def npz(folder):
    np.savez(folder / "weights.npz", **PLAIN)
    return folder / "weights.npz"


def npz_compressed(folder):
    np.savez_compressed(folder / "weights.npz", **PLAIN)
    return folder / "weights.npz"


def npz_sparse(folder):
    from scipy import sparse

    sparse.save_npz(folder / "matrix.npz", sparse.eye_array(4, format="csr"))
    return folder / "matrix.npz"


def _around(name, pack):
    def make(folder):
        content = io.BytesIO()
        np.save(content, PLAIN["weight"])
        (folder / name).write_bytes(pack(content.getvalue()))
        return folder / name

    return make


SAMPLES = {
    "numpy/npy": npy,
    "numpy/npy-objects": npy_objects,
    "numpy/npz": npz,
    "numpy/npz-compressed": npz_compressed,
    "numpy/npz-sparse": npz_sparse,
    "compressed/gzip": _around("weight.npy.gz", lambda data: gzip.compress(data, mtime=0)),
    "compressed/bzip2": _around("weight.npy.bz2", bz2.compress),
    "compressed/xz": _around("weight.npy.xz", lzma.compress),
}
