"""Files of ours in the hands of the real skops, and files of skops in ours."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.sparse
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from vitrify.core.protocols import Allow
from vitrify.formats.skops import Skops
from vitrify.inspection.identify import files_at
from vitrify.reading.files import LocalFiles

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(int)
WORDS = np.array(["red", "green", "blue", "grey"] * 10, object)
VALUES = {
    "numbers": [1, 2.5, True, None, "text", 1j, np.float32(1.5), np.int64(2**53 + 1)],
    "keys": {1: "a", "1": "b"},
    "pairs": {(1, "a"): 1, None: 2, True: 3},
    "sets": [{1, 2}, frozenset({"a"}), range(3), slice(1, None)],
    "bytes": [b"ab", bytearray(b"cd")],
    "arrays": [X[::2].T, np.array([["a", None]], object), np.ma.MaskedArray([1, 2], [True, False])],
    "sparse": scipy.sparse.csr_matrix(np.eye(2)),
    "dtype": np.dtype("<M8[s]"),
    "random": [np.random.RandomState(1), np.random.default_rng(2)],
    "functions": [np.log1p, functools.partial(np.add, 1.0), int],
}


def models():
    table = ColumnTransformer([("w", OneHotEncoder(), [0]), ("x", StandardScaler(), make_column_selector("x"))])
    return {
        "forest": make_pipeline(StandardScaler(), RandomForestClassifier(3, random_state=0)),
        "gradient boosting": GradientBoostingClassifier(n_estimators=3),
        "histogram boosting": HistGradientBoostingClassifier(max_iter=3),
        "search": GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
        "neighbours": KNeighborsClassifier(algorithm="kd_tree"),
        "vectors": SVC(),
        "process": GaussianProcessRegressor(),
        "descent": SGDClassifier(),
        "table": (make_pipeline(table, LogisticRegression()), WORDS.reshape(-1, 1)),
        "words": (make_pipeline(TfidfVectorizer(), LogisticRegression()), WORDS),
    }


def fitted(name):
    model = models()[name]
    model, data = model if isinstance(model, tuple) else (model, X)
    if name == "table":
        model.steps[0][1].set_params(transformers=[("w", OneHotEncoder(), [0])])
    return model.fit(data, Y), data


def assert_equal(copy, model, data):
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(model, method):
            np.testing.assert_array_equal(getattr(copy, method)(data), getattr(model, method)(data))


@pytest.fixture(scope="module")
def skops():
    """Import the real library: it takes some seconds, which is why Vitrify does without it."""
    return pytest.importorskip("skops.io")


@pytest.mark.slow
@pytest.mark.parametrize("name", list(models()))
def test_skops_loads_what_vitrify_writes(skops, files_and_sink, name):
    model, data = fitted(name)
    place = files_and_sink()
    Skops().write(model, place.sink, None)
    path = place.files().path("model.skops")
    assert_equal(skops.load(path, trusted=skops.get_untrusted_types(file=path)), model, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(models()))
@pytest.mark.parametrize("compression", [0, 8])
def test_vitrify_reads_what_skops_writes(skops, tmp_path, name, compression):
    model, data = fitted(name)
    path = tmp_path / "model.skops"
    skops.dump(model, path, compression=compression)
    assert Skops().detect(files_at(path))
    assert_equal(Skops().read(LocalFiles({"model.skops": path}), {}, Allow()), model, data)


@pytest.mark.slow
@pytest.mark.parametrize("key", [key for key in VALUES if key != "arrays"])
def test_skops_loads_values_of_every_kind(skops, files_and_sink, key):
    place = files_and_sink()
    Skops().write(FunctionTransformer(kw_args={"value": VALUES[key]}), place.sink, None)
    path = place.files().path("model.skops")
    copy = skops.load(path, trusted=skops.get_untrusted_types(file=path)).kw_args["value"]
    assert repr(copy) == repr(VALUES[key]) or key == "random"
    if key == "random":
        assert [item.normal() for item in copy] == [
            np.random.RandomState(1).normal(),
            np.random.default_rng(2).normal(),
        ]


@pytest.mark.slow
def test_skops_loads_arrays_of_every_kind(skops, files_and_sink):
    place = files_and_sink()
    Skops().write(FunctionTransformer(kw_args={"value": VALUES["arrays"]}), place.sink, None)
    path = place.files().path("model.skops")
    copy = skops.load(path, trusted=skops.get_untrusted_types(file=path)).kw_args["value"]
    for left, right in zip(copy, VALUES["arrays"], strict=True):
        np.testing.assert_array_equal(left, right)
