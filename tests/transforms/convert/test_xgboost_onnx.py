"""XGBoost to ONNX: to the last bit of float32 where XGBoost itself has one answer."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from vitrify.core.catalog import catalog
from vitrify.core.plan import Step
from vitrify.transforms.convert.xgboost_onnx import XGBoostToOnnx

ROWS = 150
QUIET = {"n_estimators": 6, "max_depth": 4, "random_state": 0, "n_jobs": 1}


@pytest.fixture
def x(rng):
    x = rng.normal(size=(ROWS, 4)) * [1, 10, 100, 0.01]
    x[rng.random(x.shape) < 0.2] = np.nan
    return x


@pytest.fixture
def target(x):
    return np.nan_to_num(x[:, 0]) * 3 + np.sin(np.nan_to_num(x[:, 1])) + 7


def thresholds(booster: xgb.Booster) -> dict[int, np.ndarray]:
    """Return every split condition, by column."""
    found: dict[int, list[float]] = {}
    model = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]
    for tree in model.get("gbtree", model)["model"]["trees"]:
        for left, column, value in zip(
            tree["left_children"], tree["split_indices"], tree["split_conditions"], strict=True
        ):
            if left >= 0:
                found.setdefault(column, []).append(float(np.float32(value)))
    return {column: np.array(values) for column, values in found.items()}


REGRESSORS = {
    "squared error": {},
    "base score": {"base_score": 5.5},
    "absolute error": {"objective": "reg:absoluteerror"},
    "logistic": {"objective": "reg:logistic"},
    "poisson": {"objective": "count:poisson"},
    "gamma": {"objective": "reg:gamma"},
    "tweedie": {"objective": "reg:tweedie"},
    "dart": {"booster": "dart", "rate_drop": 0.5, "seed": 1},
    "random forest": {"num_parallel_tree": 3, "subsample": 0.7, "learning_rate": 1, "n_estimators": 2},
    "approximate": {"tree_method": "approx"},
    "lossguide": {"grow_policy": "lossguide", "max_leaves": 9},
    "many trees": {"n_estimators": 300, "max_depth": 2},
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regressor_predicts_to_the_last_bits(name, x, target, convert, probes):
    y = (target > 7).astype(float) if name == "logistic" else np.abs(target) + 0.1
    model = xgb.XGBRegressor(**{**QUIET, **REGRESSORS[name]}).fit(x, y)
    rows = probes(x, thresholds(model.get_booster()), missing=True)
    convert(model, x).agree(rows, ulps=1 if name in {"poisson", "gamma", "tweedie", "logistic"} else 0)


CLASSIFIERS = {
    "plain": {},
    "base score": {"base_score": 0.1},
    "missing mark": {"missing": -999.0},
    "dart": {"booster": "dart", "rate_drop": 0.5},
    "random forest": {"num_parallel_tree": 3, "subsample": 0.7},
    "deep": {"max_depth": 8, "min_child_weight": 0},
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_gives_the_same_labels_and_probabilities(name, *, classes, x, target, convert, probes, rng):
    y = np.digitize(target, np.quantile(target, np.arange(1, classes) / classes))
    if name == "base score" and classes > 2:
        y = rng.integers(0, 3, ROWS)
    rows = x if name != "missing mark" else np.where(np.isnan(x), -999.0, x)
    model = xgb.XGBClassifier(**{**QUIET, **CLASSIFIERS[name]}).fit(rows, y)
    probed = probes(rows, thresholds(model.get_booster()), missing=True)
    convert(model, rows).agree(probed, ulps=1)


def test_only_the_rounds_up_to_the_best_one_count(x, target, convert, probes):
    model = xgb.XGBRegressor(n_estimators=60, early_stopping_rounds=2, learning_rate=0.9, random_state=0, n_jobs=1)
    model.fit(x[:100], target[:100], eval_set=[(x[100:], target[100:])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    convert(model, x).agree(probes(x, missing=True), ulps=0)


def test_a_ranker_scores_the_same(x, target, convert):
    groups = np.repeat(np.arange(15), 10)
    model = xgb.XGBRanker(**QUIET).fit(x, np.digitize(target, [6, 8]), qid=groups)
    convert(model, x).agree(x, ulps=0)


@pytest.mark.parametrize(
    "objective", ["reg:squarederror", "binary:logistic", "multi:softprob", "multi:softmax", "binary:hinge"]
)
def test_a_booster_without_the_interface_predicts_the_same(objective, x, target, convert):
    y = np.digitize(target, [6, 8]) if objective.startswith("multi") else (target > 7).astype(float)
    parameters = {"objective": objective, "nthread": 1, **({"num_class": 3} if objective.startswith("multi") else {})}
    booster = xgb.train(parameters, xgb.DMatrix(x, y), num_boost_round=5)
    convert(booster, x).agree(x, ulps=16)


def test_whole_numbers_beyond_float32_are_rounded_as_xgboost_rounds_them(target, convert, rng):
    x = rng.integers(2**24, 2**26, size=(ROWS, 3))
    model = xgb.XGBRegressor(n_estimators=6, n_jobs=1).fit(x, target)
    near = np.concatenate([x, x + 1, x - 1, x * 2**30, -x])
    convert(model, x).agree(near, ulps=0)


def test_a_table_keeps_the_types_of_its_columns(target, convert, rng):
    table = pd.DataFrame(
        {"big": rng.integers(0, 2**40, ROWS), "real": rng.normal(size=ROWS), "flag": rng.random(ROWS) > 0.5}
    )
    pair = convert(xgb.XGBRegressor(n_estimators=6, n_jobs=1).fit(table, target), table)
    assert [value.type.tensor_type.elem_type for value in pair.proto.graph.input] == [7, 11, 9]
    pair.agree(table, ulps=0)


def test_behind_a_scaler_no_row_takes_another_branch(x, target, convert, probes, rng):
    whole = rng.normal(size=(400, 6)) * 100
    y = (whole[:, 0] + rng.normal(size=400) * 30 > 0).astype(int)
    model = make_pipeline(StandardScaler(), xgb.XGBClassifier(n_estimators=40, n_jobs=1)).fit(whole, y)
    convert(model, whole).agree(probes(whole), ulps=2)


REFUSED = {
    "linear booster": ({"booster": "gblinear", "max_depth": None}, "gblinear"),
    "vector leaves": ({"multi_strategy": "multi_output_tree", "tree_method": "hist"}, "several values a leaf"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exact_is_refused_with_a_remedy(name, x, target, problems):
    parameters, reason = REFUSED[name]
    y = np.stack([target, -target], axis=1) if name == "vector leaves" else target
    x = np.nan_to_num(x)
    (finding,) = problems(xgb.XGBRegressor(**{**QUIET, **parameters}).fit(x, y), x)
    assert reason in finding.message
    assert finding.remedy


def test_a_refusal_inside_a_pipeline_names_the_step(x, target, problems):
    model = make_pipeline(FunctionTransformer(np.nan_to_num), xgb.XGBRegressor(n_estimators=2, booster="gblinear"))
    places = [finding.place for finding in problems(model.fit(x, target), x)]
    assert places == [
        "pipeline.steps[0] 'functiontransformer' (FunctionTransformer)",
        "pipeline.steps[1] 'xgbregressor' (XGBRegressor)",
    ]


def test_a_model_that_lies_in_files_is_read_from_them(x, target, subject, memory):
    model = xgb.XGBClassifier(**QUIET).fit(x, (target > 7).astype(int))
    live = subject(model, x)
    written = catalog().load("format", "xgboost").write(model, memory, None)
    document = live.document.replace(entry={**live.document.entry, **written.entry})
    step = Step(transform="xgboost-to-onnx", source="xgboost", target="onnx", fidelity="numeric")
    transform = XGBoostToOnnx()
    graphs = []
    for source in (live, replace(live, native=None, files=memory, document=document)):
        sink = type(memory)()
        transform.apply(source, step, sink)
        graphs.append(sink.files["model.onnx"])
    assert graphs[0] == graphs[1]
