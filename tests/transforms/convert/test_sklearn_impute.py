"""Imputers: what is missing by which mark, and what takes its place."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn import impute, linear_model, pipeline, preprocessing, tree
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 (an import that switches it on)

ROWS = 60


def text(*values):
    return pd.Series((list(values) * ROWS)[:ROWS], dtype=object)


MARKED = pd.DataFrame({"a": text("x", "y", "x", "", None, "nan", np.nan), "b": text("q", "", "", "w", "None")})
KNOWN = MARKED.assign(a=text("x", "y", "x", "", None, "nan"))


@pytest.mark.parametrize("strategy", ["most_frequent", "constant"])
@pytest.mark.parametrize("marker", [np.nan, None, "", "nan"], ids=repr)
def test_each_mark_of_missing_text_is_told_from_the_others(marker, strategy, proven):
    frame = MARKED if isinstance(marker, float) else KNOWN
    pair = proven(impute.SimpleImputer(missing_values=marker, strategy=strategy).fit(frame), frame)
    expected, given = pair.both(frame)
    assert [type(value) for value in given["transformed"].flat] == [type(v) for v in expected["transformed"].flat]


def test_what_was_imputed_is_encoded(proven):
    model = pipeline.make_pipeline(
        impute.SimpleImputer(strategy="most_frequent", add_indicator=True),
        preprocessing.OneHotEncoder(handle_unknown="ignore"),
    )
    proven(model.fit(MARKED), MARKED)


def test_an_array_of_text_and_flags_is_refused(problems):
    model = impute.SimpleImputer(strategy="most_frequent", add_indicator=True).fit(MARKED)
    (finding,) = problems(model, MARKED)
    assert "set_output" in finding.remedy


@pytest.fixture(scope="module")
def holes():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(ROWS, 4)), columns=list("abcd")).mask(rng.random((ROWS, 4)) < 0.2)
    return frame.assign(never=np.nan, count=rng.integers(0, 4, ROWS))


@pytest.mark.parametrize("options", [{}, {"add_indicator": True}, {"add_indicator": True, "keep_empty_features": True}])
@pytest.mark.parametrize("strategy", ["mean", "median", "most_frequent", "constant"])
@pytest.mark.filterwarnings("ignore:Skipping features without any observed values")
def test_missing_numbers_are_filled(strategy, options, holes, proven):
    proven(impute.SimpleImputer(strategy=strategy, **options).fit(holes), holes)


def test_missing_whole_numbers_and_booleans_are_filled(proven):
    frame = pd.DataFrame(
        {"n": pd.array([1, 2, None, 2] * 15, dtype="Int64"), "b": pd.array([True, None, False, True] * 15, "boolean")}
    )
    proven(impute.SimpleImputer(strategy="most_frequent", add_indicator=True).fit(frame), frame)


INDICATORS = {
    "all": impute.MissingIndicator(features="all"),
    "those seen": impute.MissingIndicator(error_on_new=False),
    "new ones are refused": impute.MissingIndicator(),
}


@pytest.mark.parametrize("name", INDICATORS)
def test_an_indicator_says_where_values_are_missing(name, holes, proven):
    frame = holes[["a", "b"]].assign(c=1.0)
    pair = proven(INDICATORS[name].fit(frame), frame)
    if name == "new ones are refused":
        for session in (pair.source, pair.graph):
            with pytest.raises(Exception, match=r"missing|out of data bounds"):
                session.predict(frame.assign(c=np.nan))


@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_the_nearest_rows_give_the_value(kind, weights, holes, convert):
    x = holes[list("abcd")].to_numpy().astype(kind)
    pair = convert(impute.KNNImputer(n_neighbors=3, weights=weights, add_indicator=True).fit(x), x)
    expected, given = pair.both(x)
    np.testing.assert_allclose(given["transformed"], expected["transformed"], rtol=1e-4 if kind == np.float32 else 1e-9)


TAILS = {
    "nothing": lambda imputer: imputer,
    "a line": lambda imputer: pipeline.make_pipeline(imputer, linear_model.LinearRegression()),
    "scalers": lambda imputer: pipeline.make_pipeline(
        preprocessing.StandardScaler(), imputer, preprocessing.StandardScaler()
    ),
    "a tree": lambda imputer: pipeline.make_pipeline(imputer, tree.DecisionTreeRegressor(max_depth=4)),
}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32 - 1),
    width=st.integers(2, 11),
    count=st.integers(1, 9),
    weights=st.sampled_from(["uniform", "distance"]),
    share=st.sampled_from([0.05, 0.2, 0.5]),
    whole=st.booleans(),
    kind=st.sampled_from([np.float64, np.float32]),
    tail=st.sampled_from(sorted(TAILS)),
)
def test_any_holes_are_filled_from_the_rows_that_the_source_takes(
    proven, *, seed, width, count, weights, share, whole, kind, tail
):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(120, width))
    x = (np.round(x * 2) if whole else x).astype(kind)
    holes = np.where(rng.random(x.shape) < share, kind(np.nan), x)
    model = TAILS[tail](impute.KNNImputer(n_neighbors=count, weights=weights))
    proven(model.fit(holes, x[:, 0] * 2.0 - x[:, 1]), holes)


@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value encountered")
def test_distances_that_overflow_have_no_weight_in_the_mean(convert):
    x = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
    x[::3, 0] = np.nan
    pair = convert(impute.KNNImputer(weights="distance").fit(x), x)
    rows = np.full((1, 6), np.nan, np.float32)
    rows[0, 2] = -(2.0**63)
    expected, given_ = pair.both(rows)
    np.testing.assert_array_equal(given_["transformed"], expected["transformed"])


ITERATIVE = {
    "bayes": impute.IterativeImputer(max_iter=2, tol=1e9),
    "tree": impute.IterativeImputer(tree.DecisionTreeRegressor(max_depth=3), max_iter=2, tol=1e9, add_indicator=True),
    "bounded": impute.IterativeImputer(linear_model.Ridge(), max_iter=2, tol=1e9, min_value=-0.5, max_value=0.5),
    "kept": impute.IterativeImputer(max_iter=2, tol=1e9, keep_empty_features=True),
}


@pytest.mark.parametrize("name", ITERATIVE)
@pytest.mark.filterwarnings("ignore:Skipping features without any observed values")
def test_columns_are_predicted_from_each_other(name, holes, proven):
    x = holes[[*"abc", "never"]].to_numpy() if name == "kept" else holes[list("abc")].to_numpy()
    proven(ITERATIVE[name].fit(x), x)


def test_an_imputer_that_draws_is_refused(holes, problems):
    x = holes[list("abc")].to_numpy()
    (finding,) = problems(impute.IterativeImputer(max_iter=1, tol=1e9, sample_posterior=True).fit(x), x)
    assert "random" in finding.message


VALUES = st.one_of(st.sampled_from(["", "nan", "None", "a", "ä"]), st.none(), st.just(np.nan))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(VALUES, min_size=4, max_size=12), st.sampled_from([np.nan, None, "", "nan"]))
def test_any_text_with_any_mark_is_filled_as_by_the_source(convert, values, marker):
    if not isinstance(marker, float):
        values = ["" if isinstance(value, float) else value for value in values]
    frame = pd.DataFrame({"t": pd.Series(["a", "b", *values], dtype=object)})
    pair = convert(impute.SimpleImputer(missing_values=marker, strategy="constant", fill_value="zz").fit(frame), frame)
    expected, given = pair.both(frame)
    assert str(given["transformed"].tolist()) == str(expected["transformed"].tolist())
