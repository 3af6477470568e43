"""Copies of estimators that take the first of equally far rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import StackingRegressor
from sklearn.impute import KNNImputer
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline

from vitrify.runtimes._picking import picking_first

NAN = np.nan
EQUAL = np.array([[0.0, float(place)] for place in range(40)])
"""Rows that are equally far from any row without a second value."""


def test_of_equally_far_donors_the_first_give_the_value():
    imputer = KNNImputer(n_neighbors=3).fit(EQUAL)
    first = picking_first(imputer)
    assert first.transform(np.array([[7.0, NAN]])).tolist() == [[7.0, 1.0]]  # the mean of 0, 1 and 2


def test_the_nearer_donors_still_come_first():
    rows = np.concatenate([EQUAL, [[5.0, 100.0]]])
    first = picking_first(KNNImputer(n_neighbors=2).fit(rows))
    assert first.transform(np.array([[5.0, NAN]])).tolist() == [[5.0, 50.0]]


def test_of_equally_far_points_the_first_are_the_nearest():
    points = np.eye(30)
    model = KNeighborsRegressor(4, metric="cosine").fit(points, np.arange(30.0))
    first = picking_first(model)
    distance, index = first.kneighbors(np.ones((2, 30)))
    assert index.tolist() == [[0, 1, 2, 3]] * 2
    np.testing.assert_allclose(distance, 1 - 1 / np.sqrt(30))
    assert first.kneighbors(np.ones((1, 30)), return_distance=False).tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_where_nothing_is_equal_a_copy_answers_as_the_model_does(weights):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    holes = np.where(rng.random(x.shape) < 0.2, NAN, x)
    for model, rows in (
        (KNNImputer(weights=weights).fit(holes), holes),
        (KNeighborsRegressor(weights=weights, metric="cosine").fit(x, x[:, 0]), x + 0.01),
    ):
        method = "predict" if hasattr(model, "predict") else "transform"
        np.testing.assert_allclose(getattr(picking_first(model), method)(rows), getattr(model, method)(rows))


NESTED = {
    "a pipeline": lambda: make_pipeline(KNNImputer(n_neighbors=3), LinearRegression()),
    "a table's columns": lambda: ColumnTransformer([("all", KNNImputer(n_neighbors=3), [0, 1])]),
    "a stack": lambda: StackingRegressor([("one", make_pipeline(KNNImputer(n_neighbors=3), LinearRegression()))]),
}


@pytest.mark.parametrize("name", NESTED)
def test_what_stands_inside_another_estimator_is_found_and_the_model_stays_as_it_is(name):
    model = NESTED[name]().fit(EQUAL, EQUAL[:, 1])
    method = "predict" if hasattr(model, "predict") else "transform"
    row = np.array([[7.0, NAN]])
    before = getattr(model, method)(row)
    answer = getattr(picking_first(model), method)(row)
    np.testing.assert_allclose(np.ravel(answer)[-1], 1.0, rtol=1e-2)
    np.testing.assert_array_equal(getattr(model, method)(row), before)


@pytest.mark.parametrize("model", [LinearRegression(), KNeighborsRegressor(algorithm="kd_tree")])
def test_a_model_that_never_picks_has_no_copy(model):
    assert picking_first(model.fit(EQUAL, EQUAL[:, 1])) is None
