"""The field cases of conversions, and the kind that each is an instance of."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lightgbm import LGBMRegressor
from sklearn.compose import TransformedTargetRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

import vitrify
from vitrify.checks.parity import Parity
from vitrify.core.errors import UnsupportedModelError

FEW = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
CHECKS = [Parity(rows=400)]


def twin(model, example):
    """Return sessions of the model and of its proven ONNX twin."""
    source = vitrify.save(model, "source", example=example)
    return source.session(), vitrify.convert(source, name="twin", checks=CHECKS).session()


def answers(session, data):
    (array,) = session.predict(data).values()
    return array


def test_f01_a_random_forest_of_lightgbm_is_averaged_not_added(rng):
    X = rng.normal(size=(800, 3))
    model = LGBMRegressor(boosting_type="rf", bagging_freq=1, bagging_fraction=0.7, n_estimators=15, verbose=-1)
    native, onnx = twin(model.fit(X, 10 * X[:, 0]), X)
    assert answers(native, X).max() > 8
    np.testing.assert_allclose(answers(onnx, X), answers(native, X), rtol=1e-12)


@FEW
@given(
    boosting=st.sampled_from(["gbdt", "dart", "goss", "rf"]),
    sqrt=st.booleans(),
    linear=st.booleans(),
    zero=st.booleans(),
    missing=st.booleans(),
)
def test_f01_every_way_of_boosting_is_equal_or_refused(boosting, sqrt, linear, zero, missing):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3)).round(1)
    X[rng.random(X.shape) < 0.1] = np.nan
    bag = {"bagging_freq": 1, "bagging_fraction": 0.7} if boosting == "rf" else {}
    options = {"reg_sqrt": sqrt, "linear_tree": linear, "zero_as_missing": zero, "use_missing": missing}
    model = LGBMRegressor(boosting_type=boosting, n_estimators=6, verbose=-1, **options, **bag)
    try:
        model.fit(X, np.nan_to_num(X[:, 0]) * 10 + 3)
    except Exception:  # noqa: BLE001 (LightGBM does not take every combination)
        return
    native, onnx = twin(model, X)
    np.testing.assert_allclose(answers(onnx, X), answers(native, X), rtol=1e-9, atol=1e-12)


LETTERS = np.array(["a"] * 20 + ["b"] * 20 + ["c"] * 2 + ["d"], dtype=object).reshape(-1, 1)
INFREQUENT = {"min_frequency": 5, "handle_unknown": "infrequent_if_exist"}


def test_f15_rare_categories_and_unseen_ones_are_one_column():
    native, onnx = twin(OneHotEncoder(**INFREQUENT, sparse_output=False).fit(LETTERS), LETTERS)
    unseen = np.array([["zzz"], ["c"], ["d"], ["a"], [""]], dtype=object)
    assert answers(onnx, unseen).tolist() == answers(native, unseen).tolist()
    assert answers(onnx, unseen)[0].tolist() == [0, 0, 1]


@FEW
@given(
    options=st.fixed_dictionaries(
        {
            "min_frequency": st.sampled_from([None, 2, 5, 0.2]),
            "max_categories": st.sampled_from([None, 2, 3]),
            "handle_unknown": st.sampled_from(["ignore", "infrequent_if_exist", "error"]),
            "drop": st.sampled_from([None, "first", "if_binary"]),
        }
    ),
    numbers=st.booleans(),
)
def test_f15_every_way_to_encode_is_equal_or_refused(options, numbers):
    column = np.array([1.0] * 20 + [2.0] * 20 + [3.5] * 2 + [np.nan]).reshape(-1, 1) if numbers else LETTERS
    encoder = OneHotEncoder(**options, sparse_output=False)
    try:
        encoder.fit(column)
    except ValueError:
        return
    try:
        native, onnx = twin(encoder, column)
    except UnsupportedModelError as error:
        assert error.problems  # noqa: PT017 (either way is right)
        return
    assert answers(onnx, column).tolist() == answers(native, column).tolist()


@pytest.mark.parametrize("strategy", ["most_frequent", "constant"])
@pytest.mark.parametrize("missing", [np.nan, None], ids=["NaN", "None"])
def test_f16_nan_none_the_word_nan_and_the_empty_text_are_four_things(strategy, missing):
    values = ["red", "red", "blue", missing, "nan", "", "red", "nan", missing, "blue"]
    frame = pd.DataFrame({"colour": pd.Series(values, dtype=object)})
    fill = {"fill_value": "none given"} if strategy == "constant" else {}
    model = make_pipeline(
        SimpleImputer(strategy=strategy, missing_values=missing, **fill),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    native, onnx = twin(model.fit(frame), frame)
    assert answers(onnx, frame).tolist() == answers(native, frame).tolist()
    assert len({tuple(row) for row in answers(onnx, frame).tolist()}) == (4 if strategy == "most_frequent" else 5)


def test_f17_functions_of_numpy_are_converted(rng):
    X = np.abs(rng.normal(size=(80, 2))) + 0.5
    steps = make_pipeline(
        FunctionTransformer(np.log1p),
        TransformedTargetRegressor(LinearRegression(), func=np.log, inverse_func=np.exp),
    )
    native, onnx = twin(steps.fit(X, X[:, 0] + 1), X)
    np.testing.assert_allclose(answers(onnx, X), answers(native, X), rtol=1e-12)


UFUNCS = [np.log1p, np.expm1, np.sqrt, np.square, np.abs, np.sign, np.sin, np.tanh, np.floor, np.reciprocal, np.cbrt]


@FEW
@given(function=st.sampled_from(UFUNCS), kind=st.sampled_from(["float64", "float32", "int64"]))
def test_f17_every_function_is_equal_or_refused(function, kind):
    X = (np.abs(np.random.default_rng(3).normal(size=(40, 2))) * 5 + 1).astype(kind)
    try:
        native, onnx = twin(FunctionTransformer(function).fit(X), X)
    except UnsupportedModelError as error:
        assert error.problems  # noqa: PT017 (either way is right)
        return
    np.testing.assert_allclose(answers(onnx, X), answers(native, X), rtol=1e-6 if kind == "float32" else 1e-13)
