"""Pickles of every protocol, of models and of what honest people keep beside them."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import functools
import operator
import pathlib
import pickle
import random
import re
import uuid
from functools import cache

import numpy as np

VALUES = {
    "containers": [
        1,
        2.5,
        None,
        True,
        (1, ()),
        {"a": {1, 2}},
        frozenset("ab"),
        b"b",
        bytearray(b"v"),
        2**70,
        "ü" * 300,
    ],
    "collections": [
        collections.Counter("aab"),
        collections.OrderedDict(b=1),
        collections.defaultdict(list, a=[1]),
        collections.deque([1, 2], maxlen=5),
    ],
    "values": [
        dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
        decimal.Decimal("1.10"),
        uuid.UUID(int=7),
        pathlib.PurePosixPath("a/b"),
        re.compile("a+", re.IGNORECASE),
        random.Random(3),
    ],
    "numpy": {
        "objects": np.array(["a", None], object),
        "structured": np.zeros(2, [("a", "<i4"), ("b", "<f8", (2,)), ("c", "O")]),
        "masked": np.ma.masked_array([1.0, 2.0], mask=[True, False]),
        "dates": np.array(["2026-01-01", "NaT"], "datetime64[ns]"),
        "scalars": [np.float32(1.5), np.datetime64("2026-01-01"), np.str_("x"), np.bool_(1)],
        "random": [np.random.default_rng(5), np.random.RandomState(5), np.random.Generator(np.random.Philox(1))],
        "functions": [np.log1p, operator.itemgetter(1, "a"), functools.partial(np.clip, a_min=0)],
    },
    "words": {"eval": "import os; os.system('x')", "os.system": b"cos\nsystem\n(S'x'\ntR."},
}


def _forest():
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    rows = np.random.default_rng(0).random((40, 3))
    steps = [FunctionTransformer(np.log1p), StandardScaler(), RandomForestClassifier(3, random_state=0)]
    return make_pipeline(*steps).fit(rows, np.arange(40) % 3)


def _frame():
    import pandas as pd

    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"], "c": pd.Categorical(["u", "v"])})
    frame["d"] = pd.to_datetime(["2020-01-01", "2020-01-02"])
    return [frame, frame.set_index("d"), frame["a"], pd.Timestamp("2020", tz="UTC"), pd.Index(["a"])]


def _sparse():
    from scipy import sparse, special

    return [sparse.csr_array(np.eye(3)), sparse.coo_matrix(np.eye(2)), special.expit]


@cache
def _content(name, protocol):
    makers = {"forest": _forest, "pandas": _frame, "scipy": _sparse}
    return pickle.dumps(makers[name]() if name in makers else VALUES[name], protocol)


def _sample(name, protocol):
    def make(folder):
        path = folder / "model.pkl"
        path.write_bytes(_content(name, protocol))
        return path

    return make


SAMPLES = {
    **{f"pickle/protocol-{protocol}": _sample("containers", protocol) for protocol in range(6)},
    **{f"pickle/{name}": _sample(name, 4) for name in ("collections", "values", "numpy", "words", "pandas", "scipy")},
    **{f"pickle/forest-{protocol}": _sample("forest", protocol) for protocol in (0, 2, 5)},
}
