"""Samples of joblib's files: plain, by each of its compressors, with arrays of all kinds."""

from __future__ import annotations

import functools
import zlib
from pathlib import Path

import joblib
import numpy as np

CODECS = ("zlib", "gzip", "bz2", "lzma", "xz", "lz4")

ARRAYS = {
    "numbers": np.arange(1000.0),
    "columns first": np.asfortranarray(np.arange(12).reshape(3, 4)),
    "objects": np.array(["a", None, {"k": np.arange(3)}], dtype=object),
    "records": np.zeros(3, [("id", "<i4"), ("place", "<f8", (2,))]),
    "text": np.array(["red", "green"]),
    "days": np.array(["2026-01-01"], "datetime64[ns]"),
    "empty": np.zeros((0, 3)),
    "nothing": np.zeros(3, "S0"),
    "scalar": np.array(5.0),
    "number": np.float64(2.5),
    "twice": [np.arange(2), np.arange(2)],
    "matrix": np.arange(4).reshape(2, 2).view(np.matrix),
}


@functools.cache
def model():
    """Return a small fitted pipeline: a forest behind a scaler."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = np.random.default_rng(0).random((60, 4))
    y = np.array(["low", "high"])[(X.sum(axis=1) > 2).astype(int)]
    forest = RandomForestClassifier(n_estimators=3, max_depth=3, random_state=0)
    return make_pipeline(StandardScaler(), forest).fit(X, y)


def _dumped(value, name, **options):
    def make(folder):
        joblib.dump(value() if callable(value) else value, folder / name, **options)
        return Path(folder / name)

    return make


def old_zlib(folder):
    """Make what joblib before 0.10 made of a model without large arrays: a length, and a zlib stream."""
    import pickle

    content = pickle.dumps({"steps": ["a", "b"], "score": 0.5}, protocol=2)
    (folder / "model.pkl").write_bytes(b"ZF" + hex(len(content)).ljust(19).encode() + zlib.compress(content))
    return folder / "model.pkl"


SAMPLES = {
    "joblib/plain": _dumped(model, "model.joblib"),
    "joblib/arrays": _dumped(ARRAYS, "arrays.joblib"),
    "joblib/protocol-2": _dumped(ARRAYS, "arrays.joblib", protocol=2),
    "joblib/zfile": old_zlib,
    **{f"joblib/{codec}": _dumped(model, "model.joblib", compress=(codec, 3)) for codec in CODECS},
}
