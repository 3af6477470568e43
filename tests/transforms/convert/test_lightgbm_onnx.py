"""LightGBM to ONNX: in double, to the last bit before the objective's own function."""

from __future__ import annotations

from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from transforms.convert.test_trees import random_tree, walk

from vitrify.transforms.convert._boosters.lightgbm import ZERO_WIDTH
from vitrify.transforms.convert._trees.ensemble import Mode
from vitrify.transforms.convert.lightgbm_onnx import _without_zero

ROWS = 200
QUIET = {"verbose": -1, "n_estimators": 8, "min_child_samples": 5, "random_state": 0, "n_jobs": 1}


@pytest.fixture
def x(rng):
    x = rng.normal(size=(ROWS, 4)) * [1, 10, 100, 0.01]
    x[rng.random(x.shape) < 0.2] = 0
    return x


@pytest.fixture
def target(x):
    return x[:, 0] * 3 + np.sin(x[:, 1]) + 7


def thresholds(booster: lgb.Booster) -> dict[int, np.ndarray]:
    """Return every threshold, by column."""
    found = booster.trees_to_dataframe().dropna(subset=["threshold"])
    names = booster.feature_name()
    numeric = found[found["decision_type"] == "<="]
    return {names.index(name): group["threshold"].to_numpy(float) for name, group in numeric.groupby("split_feature")}


REGRESSORS = {
    "squared error": {},
    "absolute error": {"objective": "regression_l1"},
    "huber": {"objective": "huber"},
    "quantile": {"objective": "quantile", "alpha": 0.3},
    "poisson": {"objective": "poisson"},
    "gamma": {"objective": "gamma"},
    "tweedie": {"objective": "tweedie"},
    "square root": {"reg_sqrt": True},
    "cross entropy": {"objective": "cross_entropy"},
    "cross entropy lambda": {"objective": "cross_entropy_lambda"},
    "random forest": {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.7},
    "dart": {"boosting_type": "dart", "drop_rate": 0.5},
    "goss": {"data_sample_strategy": "goss"},
    "zero is missing": {"zero_as_missing": True},
    "no missing": {"use_missing": False},
    "extra trees": {"extra_trees": True},
    "many trees": {"n_estimators": 300, "num_leaves": 4},
}
SMOOTH = {"poisson", "gamma", "tweedie", "cross entropy", "cross entropy lambda"}


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regressor_predicts_to_the_last_bits(name, *, missing, x, target, convert, probes, rng):
    y = (target > 7).astype(float) if name.startswith("cross") else np.abs(target) + 0.1
    if missing:
        x = np.where(rng.random(x.shape) < 0.1, np.nan, x)
    model = lgb.LGBMRegressor(**{**QUIET, **REGRESSORS[name]}).fit(x, y)
    rows = np.concatenate(
        [probes(x, thresholds(model.booster_), missing=True), np.full((1, 4), 1e-36), np.full((1, 4), -1e-34)]
    )
    convert(model, x).agree(rows, ulps=4 if name in SMOOTH else 0)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_moved_thresholds_divide_as_their_own_once_what_is_nearly_zero_is_zero(seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, np.float64, 1, (Mode.LESS_OR_EQUAL,))
    edges = np.array([0.0, 5e-324, 1e-36, ZERO_WIDTH, np.nextafter(ZERO_WIDTH, 1), 1e-34, 1.0, np.inf])
    values = np.concatenate([edges, -edges])
    tree = replace(tree, threshold=rng.choice(values, len(tree.threshold)))
    x = rng.choice([*values, np.nan], (40, 3))
    zeroed = np.where(np.abs(x) <= ZERO_WIDTH, 0.0, x)
    moved = _without_zero(tree)
    np.testing.assert_array_equal([walk(moved, row) for row in x], [walk(tree, row) for row in zeroed])
    np.testing.assert_array_equal([walk(moved, row) for row in zeroed], [walk(tree, row) for row in zeroed])


def test_a_plain_classifier_needs_no_node_around_its_trees_but_the_objective(x, target, convert):
    pair = convert(lgb.LGBMClassifier(**QUIET).fit(x, target > 7), x)
    wanted = ["TreeEnsemble", "Exp", "Add", "Div", "Sub", "Abs", "ArgMax", "Gather"]
    assert [node.op_type for node in pair.proto.graph.node] == wanted
    whole = convert(lgb.LGBMClassifier(**QUIET).fit(x, (target > 7).astype(int)), x)
    assert [node.op_type for node in whole.proto.graph.node] == wanted[:-1]


def test_a_random_forest_is_averaged(convert, rng):
    x = rng.normal(size=(800, 3))
    model = lgb.LGBMRegressor(
        boosting_type="rf", bagging_freq=1, bagging_fraction=0.7, n_estimators=15, verbose=-1, n_jobs=1
    )
    convert(model.fit(x, 10 * x[:, 0]), x).agree(x, ulps=0)


CLASSIFIERS = {
    "plain": {},
    "one against all": {"objective": "multiclassova"},
    "random forest": {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.7},
    "slope": {"sigmoid": 2.5},
    "unbalanced": {"is_unbalance": True},
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_gives_the_same_labels_and_probabilities(name, *, classes, x, target, convert, probes):
    if classes == 2 and name == "one against all":
        pytest.skip("needs more than two classes")
    y = np.array(["low", "middle", "top"])[np.digitize(target, np.quantile(target, np.arange(1, classes) / classes))]
    model = lgb.LGBMClassifier(**{**QUIET, **CLASSIFIERS[name]}).fit(x, y)
    convert(model, x).agree(probes(x, thresholds(model.booster_), missing=True), ulps=8)


def test_only_the_rounds_up_to_the_best_one_count(x, target, convert):
    model = lgb.LGBMRegressor(**{**QUIET, "n_estimators": 100, "learning_rate": 0.9})
    model.fit(
        x[:100], target[:100], eval_X=x[100:], eval_y=target[100:], callbacks=[lgb.early_stopping(2, verbose=False)]
    )
    assert model.best_iteration_ < 100
    convert(model, x).agree(x, ulps=0)


def test_a_ranker_scores_the_same(x, target, convert):
    model = lgb.LGBMRanker(**QUIET).fit(x, np.digitize(target, [6, 8]), group=[20] * 10)
    convert(model, x).agree(x, ulps=0)


@pytest.mark.parametrize("objective", ["regression", "binary", "multiclass", "multiclassova"])
def test_a_booster_without_the_interface_predicts_the_same(objective, x, target, convert):
    y = np.digitize(target, [6, 8]) if objective.startswith("multi") else (target > 7).astype(int)
    parameters = {"objective": objective, "verbose": -1, "num_threads": 1}
    if objective.startswith("multi"):
        parameters["num_class"] = 3
    booster = lgb.train(parameters, lgb.Dataset(x, y), num_boost_round=5)
    convert(booster, x).agree(x, ulps=8)


def test_categories_given_as_numbers_split_as_sets(target, convert, rng):
    x = np.column_stack([rng.integers(0, 80, ROWS), rng.normal(size=ROWS)]).astype(float)
    y = np.isin(x[:, 0], [1, 3, 35, 70]) * 5 + x[:, 1]
    model = lgb.LGBMRegressor(**{**QUIET, "cat_smooth": 0, "min_data_per_group": 1}).fit(x, y, categorical_feature=[0])
    pair = convert(model, x)
    assert any(attribute.name == "membership_values" for node in pair.proto.graph.node for attribute in node.attribute)
    odd = np.column_stack([np.array([-1, 0.5, -0.5, 79.9, 1e9, 80, np.nan, 35, 70, 3.5]), np.zeros(10)])
    pair.agree(np.concatenate([x, odd]), ulps=0)


def test_categories_of_a_table_are_found_by_their_labels(convert, rng):
    labels = np.array(["red", "green", "blue", "ünïcode", ""])
    table = pd.DataFrame({"c": pd.Categorical(labels[rng.integers(0, 5, ROWS)]), "n": rng.normal(size=ROWS)})
    y = (table["c"] == "blue") * 3.0 + table["n"]
    model = lgb.LGBMRegressor(**{**QUIET, "min_data_per_group": 1, "cat_smooth": 0}).fit(table, y)
    pair = convert(model, table)
    pair.agree(table, ulps=0)


def test_whole_numbers_go_through_float32_in_an_array_and_not_in_a_table(convert, rng):
    x = rng.integers(2**24, 2**26, size=(ROWS, 2))
    y = (x[:, 0] % 7).astype(float)
    model = lgb.LGBMRegressor(**QUIET).fit(x, y)
    convert(model, x).agree(np.concatenate([x, x + 1, x * 2**30]), ulps=0)
    table = pd.DataFrame(x, columns=["a", "b"])
    model = lgb.LGBMRegressor(**QUIET).fit(table, y)
    convert(model, table).agree(pd.concat([table, table + 1, table * 2**30]), ulps=0)


def test_behind_a_scaler_no_row_takes_another_branch(x, target, convert, probes):
    model = make_pipeline(StandardScaler(), lgb.LGBMClassifier(**QUIET)).fit(x, target > 7)
    convert(model, x).agree(probes(x), ulps=8)


LINEAR = {
    "plain": {},
    "random forest": {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.7},
    "dart": {"boosting_type": "dart", "drop_rate": 0.5},
    "poisson": {"objective": "poisson"},
    "many trees": {"n_estimators": 300, "num_leaves": 4},
    "stumps": {"num_leaves": 2, "n_estimators": 1},
}


@pytest.mark.parametrize("name", LINEAR)
def test_linear_models_in_the_leaves_are_added_in_order(name, *, x, target, convert, probes, rng):
    holes = np.where(rng.random(x.shape) < 0.1, np.nan, x)
    model = lgb.LGBMRegressor(**{**QUIET, **LINEAR[name]}, linear_tree=True).fit(holes, np.abs(target))
    rows = probes(holes, thresholds(model.booster_), missing=True)
    rows = rows if name != "poisson" else rows[np.abs(rows).max(axis=1) < 1e3]
    convert(model, holes).agree(np.concatenate([rows, np.full((1, 4), 1e-36)]), ulps=4 if name == "poisson" else 0)


def test_linear_models_in_the_leaves_of_several_classes(x, target, convert, probes):
    model = lgb.LGBMClassifier(**QUIET, linear_tree=True).fit(x, np.digitize(target, [6, 8]))
    convert(model, x).agree(probes(x, missing=True), ulps=8, atol=1e-300)


@pytest.mark.parametrize("parameter", ["pred_early_stop"])
def test_a_prediction_that_stops_early_is_refused(parameter, x, target, problems):
    model = lgb.LGBMClassifier(**QUIET, **{parameter: True}).fit(x, target > 7)
    (finding,) = problems(model, x)
    assert parameter in finding.message
    assert finding.remedy


OBJECTIVES = {
    "regression": "real",
    "quantile": "real",
    "mape": "real",
    "poisson": "positive",
    "binary": "binary",
    "cross_entropy": "binary",
    "cross_entropy_lambda": "binary",
    "multiclass": "classes",
    "multiclassova": "classes",
}


@given(
    seed=st.integers(0, 2**16),
    objective=st.sampled_from(sorted(OBJECTIVES)),
    boosting=st.sampled_from(["gbdt", "dart", "rf"]),
    missing=st.sampled_from(["none", "nan", "zero", "off"]),
    linear=st.booleans(),
    categorical=st.booleans(),
)
@settings(max_examples=25)
def test_any_booster_on_any_data(convert, *, seed, objective, boosting, missing, linear, categorical):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(80, 3)) * [1, 1e4, 1e-4]
    if categorical:
        x[:, 1] = rng.integers(0, 40, 80)
    x[rng.random(x.shape) < 0.2] = {"none": 1.0, "nan": np.nan, "zero": 0.0, "off": np.nan}[missing]
    real = np.nan_to_num(x[:, 0]) + np.nan_to_num(x[:, 1]) % 7
    y = {
        "real": real,
        "positive": np.abs(real),
        "binary": (real > np.median(real)).astype(float),
        "classes": np.digitize(real, np.quantile(real, [0.3, 0.6])),
    }[OBJECTIVES[objective]]
    parameters = {"objective": objective, "boosting": boosting, "verbose": -1, "num_threads": 1, "seed": seed}
    parameters |= {"min_data_in_leaf": 3, "num_leaves": 5, "bagging_freq": 1, "bagging_fraction": 0.8}
    parameters |= {"zero_as_missing": missing == "zero", "use_missing": missing != "off"}
    parameters |= {"min_data_per_group": 1, "cat_smooth": 0}
    parameters |= {"linear_tree": linear and objective != "mape" and missing != "zero"}
    parameters |= {"num_class": 3} if objective.startswith("multi") else {}
    booster = lgb.train(parameters, lgb.Dataset(x, y, categorical_feature=[1] if categorical else []), 4)
    odd = np.array([[0.0, -1.0, 0.0], [np.nan] * 3, [1e-36, 1e9, -1e-36], [0.5, 3.7, 0.5], [0, -0.5, 0]])
    convert(booster, x).agree(np.concatenate([x, odd]), ulps=16, atol=1e-300)
