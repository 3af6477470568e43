"""Boosters and forests to Treelite: each proven against its source, or refused with a remedy."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression

from vitrify.checks.parity import compare_sessions
from vitrify.core.catalog import catalog
from vitrify.core.document import Document
from vitrify.core.plan import Step
from vitrify.core.protocols import Allow
from vitrify.runtimes.treelite import Treelite
from vitrify.testing.transforms import TransformConformance

RANDOM = np.random.default_rng(0)
ROWS = 150
X = RANDOM.normal(size=(ROWS, 3)) * [1, 100, 0.01]
Y = X[:, 0] * 3 + np.sin(X[:, 1]) + 7
SIDE = np.where(Y > 7, "yes", "no")
THREE = np.digitize(Y, [6, 8])
HOLES = np.where(RANDOM.random(X.shape) < 0.2, np.nan, X)


@pytest.fixture
def proven(subject, memory):
    """Return a function that converts a live model and proves the result, as the verb does, but without a store."""

    def run(model, example):
        source = subject(model, example)
        name = f"{source.document.format}-to-treelite"
        step = Step(transform=name, source=source.document.format, target="treelite", fidelity="numeric")
        written = catalog().load("transform", name).apply(source, step, memory)
        document = source.document.replace(format="treelite", runtime="treelite", entry=written.entry)
        document = Document.from_json(document.to_json(), where="as a store keeps it")
        candidate = Treelite().open(memory, document, Allow())
        native = catalog().for_object("runtime", model).load().wrap(model, source.document)
        report = compare_sessions(candidate, native, source.golden, row_count=2000, model=model)
        assert report.passed, str(report)
        return candidate

    return run


@pytest.fixture
def refused(subject):
    """Return a function that lists what cannot be carried."""

    def run(model, example):
        source = subject(model, example)
        name = f"{source.document.format}-to-treelite"
        step = Step(transform=name, source=source.document.format, target="treelite", fidelity="numeric")
        return catalog().load("transform", name).problems(source, step)

    return run


class TestXGBoost(TransformConformance):
    name = "xgboost-to-treelite"

    def model(self):
        return xgb.XGBClassifier(n_estimators=3, n_jobs=1).fit(X, Y > 7)

    def example(self):
        return X


class TestLightGBM(TransformConformance):
    name = "lightgbm-to-treelite"

    def model(self):
        return lgb.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1).fit(X, SIDE)

    def example(self):
        return X

    def impossible(self):
        return lgb.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1, linear_tree=True, pred_early_stop=True).fit(
            X, SIDE
        )


class TestSklearn(TransformConformance):
    name = "skops-to-treelite"

    def model(self):
        return RandomForestClassifier(3, random_state=0).fit(X, SIDE)

    def example(self):
        return X


XGB = {"n_estimators": 4, "max_depth": 4, "n_jobs": 1}
XGBOOST = {
    "regressor": lambda: xgb.XGBRegressor(**XGB).fit(HOLES, Y),
    "base score": lambda: xgb.XGBRegressor(**XGB, base_score=5.5).fit(HOLES, Y),
    "poisson": lambda: xgb.XGBRegressor(**XGB, objective="count:poisson").fit(HOLES, np.abs(Y)),
    "dart": lambda: xgb.XGBRegressor(**XGB, booster="dart", rate_drop=0.4).fit(HOLES, Y),
    "binary": lambda: xgb.XGBClassifier(**XGB).fit(HOLES, Y > 7),
    "three classes": lambda: xgb.XGBClassifier(**XGB).fit(HOLES, THREE),
    "several targets": lambda: xgb.XGBRegressor(**XGB).fit(HOLES, np.stack([Y, -Y], axis=1)),
    "several labels": lambda: xgb.XGBClassifier(**XGB).fit(HOLES, np.stack([Y > 7, Y > 6, Y < 8], axis=1).astype(int)),
    "vector leaves": lambda: xgb.XGBRegressor(**XGB, multi_strategy="multi_output_tree").fit(
        HOLES, np.stack([Y, -Y], axis=1)
    ),
    "random forest": lambda: xgb.XGBRFClassifier(**XGB).fit(HOLES, Y > 7),
    "ranker": lambda: xgb.XGBRanker(**XGB).fit(HOLES, THREE, qid=np.arange(ROWS) // 10),
    "booster": lambda: xgb.train({"nthread": 1}, xgb.DMatrix(HOLES, Y), 3),
}


@pytest.mark.parametrize("name", XGBOOST)
def test_xgboost_is_proven(name, proven):
    proven(XGBOOST[name](), HOLES)


def test_a_mark_for_what_is_missing_is_kept(proven):
    rows = np.where(np.isnan(HOLES), -999.0, HOLES)
    proven(xgb.XGBClassifier(**XGB, missing=-999.0).fit(rows, Y > 7), rows)


def test_only_the_rounds_up_to_the_best_one_count(proven):
    model = xgb.XGBRegressor(n_estimators=60, early_stopping_rounds=2, learning_rate=0.9, n_jobs=1)
    model.fit(X[:100], Y[:100], eval_set=[(X[100:], Y[100:])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    proven(model, X)


def frame():
    table = pd.DataFrame({"c": pd.Categorical(RANDOM.choice(["red", "green", "blue"], ROWS)), "n": X[:, 0]})
    return table, (table["c"] == "blue") * 3.0 + table["n"]


def test_categories_of_a_table_are_numbered_as_xgboost_numbers_them(proven):
    table, target = frame()
    proven(xgb.XGBRegressor(**XGB, enable_categorical=True).fit(table, target), table)


def test_categories_of_a_table_are_numbered_as_lightgbm_numbers_them(proven):
    table, target = frame()
    proven(lgb.LGBMRegressor(**LGB, min_data_per_group=1, cat_smooth=0).fit(table, target), table)


LGB = {"n_estimators": 4, "verbose": -1, "min_child_samples": 5, "n_jobs": 1}
LIGHTGBM = {
    "regressor": lambda: lgb.LGBMRegressor(**LGB).fit(HOLES, Y),
    "no missing": lambda: lgb.LGBMRegressor(**LGB, use_missing=False).fit(HOLES, Y),
    "square root": lambda: lgb.LGBMRegressor(**LGB, reg_sqrt=True).fit(HOLES, Y),
    "tweedie": lambda: lgb.LGBMRegressor(**LGB, objective="tweedie").fit(HOLES, np.abs(Y)),
    "random forest": lambda: lgb.LGBMRegressor(**LGB, boosting_type="rf", bagging_freq=1, bagging_fraction=0.7).fit(
        HOLES, Y
    ),
    "dart": lambda: lgb.LGBMRegressor(**LGB, boosting_type="dart").fit(HOLES, Y),
    "binary": lambda: lgb.LGBMClassifier(**LGB).fit(HOLES, SIDE),
    "three classes": lambda: lgb.LGBMClassifier(**LGB).fit(HOLES, THREE),
    "one against all": lambda: lgb.LGBMClassifier(**LGB, objective="multiclassova").fit(HOLES, THREE),
    "cross entropy lambda": lambda: lgb.LGBMRegressor(**LGB, objective="cross_entropy_lambda").fit(HOLES, Y > 7),
    "booster": lambda: lgb.train({"verbose": -1, "num_threads": 1}, lgb.Dataset(HOLES, Y), 3),
}


@pytest.mark.parametrize("name", LIGHTGBM)
def test_lightgbm_is_proven(name, proven):
    proven(LIGHTGBM[name](), HOLES)


def test_categories_given_as_numbers_are_cut_to_whole_ones(proven):
    rows = np.column_stack([RANDOM.integers(0, 80, ROWS), X[:, 0]])
    model = lgb.LGBMRegressor(**LGB, cat_smooth=0, min_data_per_group=1)
    model.fit(rows, np.isin(rows[:, 0], [1, 3, 35, 70]) * 5 + rows[:, 1], categorical_feature=[0])
    session = proven(model, rows)
    odd = np.column_stack([[-1, 0.5, -0.5, 79.9, 1e9, 80, np.nan, 35, 70, 3.5], np.zeros(10)])
    np.testing.assert_allclose(session.predict(odd)["prediction"], model.predict(odd), rtol=1e-12)


SKLEARN = {
    "forest": lambda: RandomForestRegressor(5, random_state=0).fit(X, Y),
    "forest of targets": lambda: RandomForestRegressor(5, random_state=0).fit(X, np.stack([Y, -Y], axis=1)),
    "extra trees": lambda: ExtraTreesRegressor(5, random_state=0).fit(X, Y),
    "classes": lambda: RandomForestClassifier(5, random_state=0).fit(X, THREE),
    "classes of targets": lambda: RandomForestClassifier(5, random_state=0).fit(
        X, np.stack([THREE, THREE // 2], axis=1)
    ),
    "boosting": lambda: GradientBoostingRegressor(n_estimators=5).fit(X, Y),
    "boosting of two": lambda: GradientBoostingClassifier(n_estimators=5).fit(X, SIDE),
    "boosting of three": lambda: GradientBoostingClassifier(n_estimators=5).fit(X, THREE),
    "histogram": lambda: HistGradientBoostingRegressor(max_iter=5).fit(HOLES, Y),
    "histogram of two": lambda: HistGradientBoostingClassifier(max_iter=5).fit(HOLES, SIDE),
    "histogram of three": lambda: HistGradientBoostingClassifier(max_iter=5).fit(HOLES, THREE),
}


@pytest.mark.parametrize("name", SKLEARN)
def test_forests_and_boosting_of_sklearn_are_proven(name, proven):
    proven(SKLEARN[name](), HOLES if name.startswith("histogram") else X)


def test_a_table_of_integers_and_flags_is_rounded_once(proven):
    table = pd.DataFrame({"big": RANDOM.integers(0, 2**40, ROWS), "real": X[:, 0], "flag": X[:, 1] > 0})
    for model in (xgb.XGBRegressor(**XGB), lgb.LGBMRegressor(**LGB), RandomForestRegressor(3)):
        proven(model.fit(table, Y), table)


REFUSED = {
    "linear booster": (lambda: xgb.XGBRegressor(booster="gblinear", n_estimators=2).fit(X, Y), "no trees"),
    "labels": (lambda: xgb.XGBClassifier(**XGB, objective="binary:hinge").fit(X, Y > 7), "binary:hinge"),
    "linear leaves": (lambda: lgb.LGBMRegressor(**LGB, linear_tree=True).fit(X, Y), "linear_tree"),
    "zero is missing": (lambda: lgb.LGBMRegressor(**LGB, zero_as_missing=True).fit(X, Y), "zero_as_missing"),
    "no trees": (lambda: LinearRegression().fit(X, Y), "no forest"),
    "isolation": (lambda: IsolationForest(n_estimators=3).fit(X), "no forest"),
    "exponential": (lambda: GradientBoostingClassifier(loss="exponential", n_estimators=2).fit(X, SIDE), "exponential"),
    "categories": (
        lambda: HistGradientBoostingRegressor(max_iter=3, categorical_features=[0]).fit(np.abs(X).round(), Y),
        "categorical_features",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_treelite_cannot_carry_is_refused_before_work(name, refused):
    make, reason = REFUSED[name]
    findings = refused(make(), np.abs(X).round() if name == "categories" else X)
    assert any(reason in finding.message for finding in findings)
    assert all(finding.place and finding.remedy for finding in findings)
