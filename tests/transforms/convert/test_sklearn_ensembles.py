"""Ensembles to ONNX: categories inside of histogram boosting, boosting from another model, several targets."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble, linear_model, naive_bayes, tree
from transforms.convert.proving import assert_proven


@pytest.fixture(scope="module")
def rows(x):
    return x / [1, 10, 100, 0.01]


@pytest.fixture(scope="module")
def frame(rows):
    count = len(rows)
    return pd.DataFrame(
        {
            "size": np.where(np.arange(count) % 5, rows[:, 0], np.nan),
            "colour": pd.Categorical(np.array(["red", "green", "blue", None], object)[np.arange(count) % 4]),
            "code": pd.Categorical(np.arange(count) % 5 * 10),
            "number": np.arange(count),
        }
    )


@pytest.mark.parametrize("chosen", ["from_dtype", ["colour"]])
def test_categories_of_a_frame_are_split_natively(chosen, frame, three, tmp_path):
    data = frame if chosen == "from_dtype" else frame.drop(columns="code")
    model = ensemble.HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=3, categorical_features=chosen)
    assert_proven(model.fit(data, three), data, tmp_path, rows=1200)


def test_categories_that_are_numbers_are_split_natively(rows, real, tmp_path):
    data = np.column_stack([rows[:, 0], np.arange(len(rows)) % 40, np.round(np.abs(rows[:, 2]) * 3)])
    data[::9, 1] = np.nan
    model = ensemble.HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=2, categorical_features=[1, 2])
    assert_proven(model.fit(data, real), data, tmp_path, rows=1200)


@pytest.mark.parametrize("loss", ["gamma", "poisson", "quantile", "absolute_error"])
def test_histogram_boosting_is_proven_with_every_loss(loss, rows, real, tmp_path):
    options = {"quantile": 0.3} if loss == "quantile" else {}
    model = ensemble.HistGradientBoostingRegressor(max_iter=5, loss=loss, **options)
    assert_proven(model.fit(rows, np.abs(real) + 0.1), rows, tmp_path)


@pytest.mark.parametrize("target", ["binary", "three"])
def test_boosting_that_starts_from_a_tree_is_proven(target, rows, binary, three, tmp_path):
    start = tree.DecisionTreeClassifier(max_depth=2)
    model = ensemble.GradientBoostingClassifier(n_estimators=5, init=start, random_state=0)
    assert_proven(model.fit(rows, {"binary": binary, "three": three}[target]), rows, tmp_path)


@pytest.mark.parametrize("start", [linear_model.LogisticRegression(), naive_bayes.GaussianNB()])
def test_boosting_that_starts_from_single_precision_is_refused(start, rows, binary, problems):
    model = ensemble.GradientBoostingClassifier(n_estimators=5, init=start)
    (problem,) = problems(model.fit(rows, binary), rows)
    assert "single precision" in problem.message
    assert "trees" in problem.remedy


@pytest.mark.parametrize("kind", [tree.DecisionTreeRegressor, ensemble.ExtraTreesRegressor])
def test_trees_of_several_targets_are_proven(kind, rows, real, tmp_path):
    options = {"n_estimators": 5} if kind is ensemble.ExtraTreesRegressor else {}
    model = kind(max_depth=4, random_state=0, **options)
    assert_proven(model.fit(rows, np.stack([real, -rows[:, 2]], axis=1)), rows, tmp_path)


def test_missing_values_in_a_forest_are_proven(rows, three, tmp_path):
    holes = rows.copy()
    holes[::5, 1] = np.nan
    model = ensemble.RandomForestClassifier(5, random_state=0)
    assert_proven(model.fit(holes, three), holes, tmp_path)


def test_outliers_of_an_isolation_forest_are_proven_with_a_threshold_of_its_own(rows, tmp_path):
    model = ensemble.IsolationForest(n_estimators=10, contamination=0.1, max_samples=30, random_state=0)
    assert_proven(model.fit(rows), rows, tmp_path)
