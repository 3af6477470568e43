"""Every estimator of scikit-learn, and those of the boosting libraries, through the .skops format."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Allow
from vitrify.formats.skops import Skops

CANNOT = {"Birch": "its leaves are a linked list that leads back to its start"}
"""Estimators that the format refuses, and why."""

RANDOM = {"BernoulliRBM", "DummyClassifier"}
"""Estimators that draw from NumPy's global generator when they predict."""

LAST_BIT = {"LabelPropagation", "LabelSpreading"}
"""Estimators whose sums depend on where in memory an array starts; a deep copy differs from its source as well."""

PARTS = 4
METHODS = ("predict", "predict_proba", "decision_function", "transform", "score_samples")

RNG = np.random.default_rng(0)
X = np.abs(RNG.normal(size=(40, 4))) + 0.1
Y = (X[:, 0] > X[:, 1]).astype(int)
BOTH = np.c_[Y, 1 - Y]
TEXT = ["red green blue", "green blue grey"] * 20
INPUTS = {
    "CountVectorizer": TEXT,
    "TfidfVectorizer": TEXT,
    "HashingVectorizer": TEXT,
    "DictVectorizer": [{"a": 1, "b": "q"}] * 40,
    "FeatureHasher": [{"a": 1, "b": 2}] * 40,
    "IsotonicRegression": X[:, 0],
    "PatchExtractor": RNG.normal(size=(5, 20, 20)),
    "LabelBinarizer": Y,
    "LabelEncoder": Y,
    "MultiLabelBinarizer": [[1, 2], [2]],
    "KernelCenterer": X @ X.T,
    "SparseCoder": RNG.normal(size=(10, 3)),
}
TARGETS = dict.fromkeys(("MultiTaskElasticNet", "MultiTaskLasso", "MultiTaskElasticNetCV", "MultiTaskLassoCV"), BOTH)
TARGETS |= dict.fromkeys(("MultiOutputClassifier", "MultiOutputRegressor", "ClassifierChain", "RegressorChain"), BOTH)
TARGETS |= {
    "GammaRegressor": Y + 1.0,
    "RadiusNeighborsRegressor": Y + 0.5,
    "PLSCanonical": BOTH,
    "CCA": BOTH,
    "PLSSVD": BOTH,
}


def estimators(part):
    from sklearn.utils import all_estimators
    from sklearn.utils._test_common.instance_generator import _construct_instances

    for name, cls in all_estimators()[part::PARTS]:
        if name != "FrozenEstimator":  # it cannot be fitted; it stands in a test of its own
            yield name, next(iter(_construct_instances(cls)))


def fit(name, model):
    data = INPUTS.get(name, X)
    target = () if name in {"LabelBinarizer", "LabelEncoder", "MultiLabelBinarizer"} else (TARGETS.get(name, Y),)
    model.fit(data, *target)
    return data


def parts(result):
    results = result if isinstance(result, list | tuple) else [result]
    return [np.asarray(part.toarray() if hasattr(part, "toarray") else part) for part in results]


def assert_equal(name, model, copy, data):
    for method in METHODS:
        if not hasattr(model, method):
            continue
        try:
            expected = parts(getattr(model, method)(data))
        except TypeError:  # PLSSVD and others want more than the rows
            continue
        for left, right in zip(expected, parts(getattr(copy, method)(data)), strict=True):
            if name in LAST_BIT:
                np.testing.assert_allclose(right, left, rtol=1e-12)
            elif name not in RANDOM:
                np.testing.assert_array_equal(right, left)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::UserWarning:sklearn", "ignore::RuntimeWarning:sklearn", "ignore::FutureWarning:sklearn"
)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_estimator_of_sklearn_is_kept_without_permission_or_stands_in_the_list_of_those_that_are_not(
    part, files_and_sink
):
    refused = {}
    for name, model in estimators(part):
        place = files_and_sink()
        data = fit(name, model)
        try:
            written = Skops().write(model, place.sink, None)
        except UnsupportedModelError as error:
            refused[name] = str(error)
            continue
        copy = Skops().read(place.files(), written.entry, Allow())
        assert written.names == (), name
        assert_equal(name, model, copy, data)
    assert set(refused) <= set(CANNOT), refused


def test_birch_is_refused_with_the_place_of_its_cycle(files_and_sink):
    from sklearn.cluster import Birch

    with pytest.raises(UnsupportedModelError, match="root_"):
        Skops().write(Birch(n_clusters=2).fit(X), files_and_sink().sink, None)


def test_a_frozen_estimator_is_kept(files_and_sink):
    from sklearn.frozen import FrozenEstimator

    place = files_and_sink()
    model = FrozenEstimator(StandardScaler().fit(X))
    written = Skops().write(model, place.sink, None)
    np.testing.assert_array_equal(Skops().read(place.files(), written.entry, Allow()).transform(X), model.transform(X))


def boosters():
    yield "xgboost", "XGBClassifier", {"n_estimators": 4, "missing": -1.0}
    yield "xgboost", "XGBRegressor", {"n_estimators": 4, "early_stopping_rounds": None}
    yield "lightgbm", "LGBMClassifier", {"n_estimators": 4, "verbose": -1}
    yield "lightgbm", "LGBMRegressor", {"n_estimators": 4, "verbose": -1}
    yield "catboost", "CatBoostClassifier", {"iterations": 4, "verbose": False, "allow_writing_files": False}
    yield "catboost", "CatBoostRegressor", {"iterations": 4, "verbose": False, "allow_writing_files": False}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning:sklearn")
@pytest.mark.parametrize(("library", "name", "parameters"), list(boosters()), ids=lambda value: str(value)[:20])
def test_a_booster_inside_a_pipeline_predicts_the_same_to_the_bit(library, name, parameters, files_and_sink):
    cls = getattr(pytest.importorskip(library), name)
    target = np.where(Y, "yes", "no") if "Classifier" in name and library != "xgboost" else Y
    model = make_pipeline(StandardScaler(), cls(**parameters)).fit(X, target)
    place = files_and_sink()
    written = Skops().write(model, place.sink, None)
    assert written.names == ()
    assert library in written.entry["versions"]
    copy = Skops().read(place.files(), written.entry, Allow())
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
        assert copy.classes_.tolist() == model.classes_.tolist()
