"""XGBoost to ONNX: to the last bit of float32 where XGBoost itself has one answer."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime as ort
import pandas as pd
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from vitrify.core.catalog import catalog
from vitrify.core.plan import Step
from vitrify.transforms.convert._building.graph import Graph
from vitrify.transforms.convert._building.model import OPSET, to_model
from vitrify.transforms.convert._sklearn.linear import both_shares
from vitrify.transforms.convert.xgboost_onnx import _LARGEST_POWER, XGBoostToOnnx, _largest, _of

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


def test_a_plain_classifier_needs_no_node_around_its_trees_but_the_objective(x, target, convert):
    pair = convert(xgb.XGBClassifier(**QUIET).fit(x.astype(np.float32), (target > 7).astype(int)), x.astype(np.float32))
    wanted = ["TreeEnsemble", "Cast", "Exp", "Cast", "Add", "Div", "Sub", "Abs", "ArgMax"]
    assert [node.op_type for node in pair.proto.graph.node] == wanted


def test_a_margin_that_may_leave_the_exponential_is_cut_off_as_xgboost_cuts_it(x, target, convert, probes):
    options = {"learning_rate": 60, "min_child_weight": 0, "reg_lambda": 0, "n_estimators": 4, "n_jobs": 1}
    model = xgb.XGBClassifier(**options).fit(x, (target > 7).astype(int))
    margin = model.predict(x, output_margin=True)
    assert margin.min() < -_LARGEST_POWER
    pair = convert(model, x)
    assert "Min" in {node.op_type for node in pair.proto.graph.node}
    pair.agree(probes(x, thresholds(model.get_booster()), missing=True), ulps=1)


@given(seed=st.integers(0, 2**16), rate=st.sampled_from([0.1, 1.0, 30.0]))
@settings(max_examples=15)
def test_no_margin_is_beyond_its_bound(seed, rate):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(60, 3))
    model = xgb.XGBClassifier(n_estimators=20, learning_rate=rate, max_depth=2, n_jobs=1)
    model.fit(x, rng.integers(0, 2, 60))
    holes = np.where(rng.random(x.shape) < 0.3, np.nan, x * 2)
    assert -model.predict(holes, output_margin=True).min() <= _largest(_of(model))


def test_the_larger_share_is_what_is_above_one_half():
    half = np.float32(0.5)
    steps = np.arange(-3000, 3001, dtype=np.int32)
    near = (half.view(np.int32) + steps).view(np.float32)
    ends = np.array([0, 1, 1e-45, 1e-38, np.nextafter(np.float32(1), np.float32(0))], np.float32)
    p = np.concatenate([near, ends, np.random.default_rng(0).random(3000, np.float32)]).reshape(-1, 1)
    graph = Graph(OPSET)
    shares = both_shares(graph, graph.input("p", p.dtype, ("batch", 1)))
    graph.output(graph.reserve("index"), graph.argmax(shares), ("batch",))
    graph.output(graph.reserve("shares"), shares, ("batch", 2))
    model = to_model(graph, name="shares", properties={}).SerializeToString()
    index, both = ort.InferenceSession(model).run(["index", "shares"], {"p": p})
    np.testing.assert_array_equal(index, (p > half)[:, 0])
    np.testing.assert_array_equal(both, np.concatenate([np.float32(1) - p, p], axis=1))


@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob", "reg:squarederror", "count:poisson"])
@pytest.mark.parametrize("options", [{}, {"base_score": 0.3}])
def test_a_model_of_no_rounds_answers_with_its_base_score(objective, options, x, target, convert):
    kind = xgb.XGBRegressor if objective.startswith(("reg", "count")) else xgb.XGBClassifier
    y = np.digitize(target, [6, 8] if objective.startswith("multi") else [7])
    model = kind(**{**QUIET, "n_estimators": 0, "objective": objective, **options}).fit(x, y)
    convert(model, x).agree(x, ulps=1)


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


def test_a_booster_stops_at_its_best_round(x, target, convert):
    data = xgb.DMatrix(x[:100], target[:100]), xgb.DMatrix(x[100:], target[100:])
    parameters = {"learning_rate": 0.9, "nthread": 1}
    booster = xgb.train(parameters, data[0], 60, evals=[(data[1], "held")], early_stopping_rounds=2, verbose_eval=False)
    assert booster.best_iteration + 1 < booster.num_boosted_rounds()
    convert(booster, x).agree(x, ulps=0)


LINEAR = {
    "plain": {},
    "base score": {"base_score": 0.3},
    "logistic": {"objective": "reg:logistic"},
    "poisson": {"objective": "count:poisson"},
}


@pytest.mark.parametrize("name", LINEAR)
def test_a_linear_booster_adds_its_features_in_order(name, x, target, convert, probes):
    y = (target > 7).astype(float) if name == "logistic" else np.abs(target) + 0.1
    model = xgb.XGBRegressor(booster="gblinear", n_estimators=5, n_jobs=1, updater="coord_descent", **LINEAR[name])
    convert(model.fit(x, y), x).agree(probes(x, missing=True), ulps=1 if name in {"logistic", "poisson"} else 0)


def test_a_linear_booster_has_weights_for_each_class_and_target(x, target, convert, probes):
    y = np.digitize(target, [6, 8])
    model = xgb.XGBClassifier(booster="gblinear", n_estimators=5, n_jobs=1).fit(x, y)
    convert(model, x).agree(probes(x, missing=True), ulps=2)
    both = np.stack([target, -target], axis=1)
    model = xgb.XGBRegressor(booster="gblinear", n_estimators=5, n_jobs=1).fit(x, both)
    convert(model, x).agree(probes(x, missing=True), ulps=0)


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
@pytest.mark.parametrize("forest", [1, 3])
def test_several_targets_each_have_a_base_score_and_trees_or_values_of_their_own(
    strategy, forest, *, x, target, convert, probes
):
    y = np.stack([target, -target * 3, target**2], axis=1)
    model = xgb.XGBRegressor(**QUIET, multi_strategy=strategy, num_parallel_tree=forest).fit(x, y)
    convert(model, x).agree(probes(x, thresholds(model.get_booster()), missing=True), ulps=0)


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_several_labels_and_classes_may_share_trees(strategy, x, target, convert, probes):
    several = np.stack([target > 7, target > 8, x[:, 1] > 0], axis=1).astype(int)
    model = xgb.XGBClassifier(**QUIET, multi_strategy=strategy).fit(x, several)
    rows = probes(x, thresholds(model.get_booster()), missing=True)
    convert(model, x).agree(rows, ulps=1)
    model = xgb.XGBClassifier(**QUIET, multi_strategy=strategy).fit(x, np.digitize(target, [6, 8]))
    convert(model, x).agree(rows, ulps=2)


def test_several_quantiles_are_several_columns(x, target, convert, probes):
    model = xgb.XGBRegressor(**QUIET, objective="reg:quantileerror", quantile_alpha=[0.1, 0.5, 0.9]).fit(x, target)
    convert(model, x).agree(probes(x, thresholds(model.get_booster()), missing=True), ulps=0)


@pytest.mark.parametrize("objective", ["multi:softmax", "binary:hinge", "binary:logitraw"])
def test_a_classifier_of_another_objective_gives_the_same(objective, x, target, convert):
    y = np.digitize(target, [6, 8]) if objective.startswith("multi") else (target > 7).astype(int)
    convert(xgb.XGBClassifier(**QUIET, objective=objective).fit(x, y), x).agree(x, ulps=2)


@pytest.mark.parametrize(
    "objective", ["survival:cox", "survival:aft", "rank:pairwise", "rank:map", "reg:squaredlogerror"]
)
def test_a_booster_of_any_objective_gives_the_same(objective, x, target, convert):
    data = xgb.DMatrix(x, np.abs(target) if not objective.startswith("rank") else target > 7)
    if objective == "survival:aft":
        data.set_float_info("label_lower_bound", np.abs(target))
        data.set_float_info("label_upper_bound", np.abs(target) + 1)
    convert(xgb.train({"objective": objective, "nthread": 1}, data, 4), x).agree(x, ulps=1)


@pytest.mark.parametrize("one_hot", [1, 100])
def test_categories_given_as_numbers_split_as_sets(one_hot, target, convert, rng):
    x = np.column_stack([rng.normal(size=ROWS), rng.integers(0, 40, ROWS), rng.normal(size=ROWS)])
    y = np.isin(x[:, 1], [0, 1, 3, 35, 39]) * 5 + x[:, 0]
    model = xgb.XGBRegressor(
        **QUIET, enable_categorical=True, feature_types=["q", "c", "q"], max_cat_to_onehot=one_hot
    ).fit(x, y)
    pair = convert(model, x)
    assert any(attribute.name == "membership_values" for node in pair.proto.graph.node for attribute in node.attribute)
    odd = np.zeros((10, 3))
    odd[:, 1] = [-1, 0.5, -0.5, 39.9, 1e9, 40, np.nan, 35, 2**24, 3.5]
    pair.agree(np.concatenate([x, odd]), ulps=0)


LABELS = {
    "text": np.array(["red", "green", "blue", "r.d", ""], object),
    "whole numbers": np.array([7, -3, 2**40, 0, 11]),
}


@pytest.mark.parametrize("name", LABELS)
def test_categories_of_a_table_get_the_numbers_of_the_training_data(name, convert, rng):
    column = LABELS[name][rng.integers(0, 5, ROWS)]
    table = pd.DataFrame({"n": rng.normal(size=ROWS), "c": pd.Categorical(column, categories=LABELS[name])})
    table.loc[::7, "c"] = np.nan
    y = (table["c"] == LABELS[name][2]) * 3.0 + table["n"]
    model = xgb.XGBRegressor(**QUIET, enable_categorical=True).fit(table, y)
    pair = convert(model, table)
    pair.agree(table, ulps=0)
    turned = table.assign(c=table["c"].cat.reorder_categories(LABELS[name][::-1]))
    pair.agree(turned, ulps=0)


UNSEEN = ["0", "a", "blub", "blue2", "gree", "greenx", "h", "re", "BLUE", "ü", "日本", "gre\nen", "r.*", "r.d\n"]


def test_an_unseen_category_is_the_next_larger_one_as_in_xgboost(convert, rng):
    known = np.array(["blue", "green", "red", "a b", "r.d"], object)
    column = known[rng.integers(0, 5, ROWS)]
    table = pd.DataFrame({"c": pd.Categorical(column), "n": rng.normal(size=ROWS)})
    y = (column == "blue") * 3.0 + (column == "green") * 7 + (column == "r.d") * 11 + table["n"]
    model = xgb.XGBRegressor(**QUIET, enable_categorical=True, max_cat_to_onehot=1).fit(table, y)
    pair = convert(model, table)
    for text in UNSEEN:
        new = pd.DataFrame({"c": pd.Categorical([text], categories=[*known, text]), "n": [0.0]})
        pair.agree(new, ulps=0)
    column = rng.choice([10, -20, 30], ROWS)
    table["c"] = pd.Categorical(column)
    pair = convert(model.fit(table, column + table["n"]), table)
    for number in (-30, 0, 15, 29):
        pair.agree(pd.DataFrame({"c": pd.Categorical([number], categories=[10, -20, 30, number]), "n": [0.0]}), ulps=0)


def test_categories_beyond_ascii_are_refused(problems, rng):
    column = np.array(["rot", "grün"])[rng.integers(0, 2, ROWS)]
    table = pd.DataFrame({"c": pd.Categorical(column), "n": rng.normal(size=ROWS)})
    model = xgb.XGBRegressor(**QUIET, enable_categorical=True).fit(table, (column == "rot") * 1.0)
    (finding,) = problems(model, table)
    assert "beyond ASCII" in finding.message
    assert "rename" in finding.remedy


OBJECTIVES = {
    "reg:squarederror": "real",
    "reg:absoluteerror": "real",
    "count:poisson": "positive",
    "reg:tweedie": "positive",
    "reg:logistic": "binary",
    "binary:hinge": "binary",
    "multi:softprob": "classes",
    "reg:quantileerror": "real",
}


@given(
    seed=st.integers(0, 2**16),
    objective=st.sampled_from(sorted(OBJECTIVES)),
    booster=st.sampled_from(["gbtree", "dart", "gblinear"]),
    missing=st.sampled_from([0.0, 0.3]),
    categorical=st.booleans(),
    parallel=st.integers(1, 2),
)
@settings(max_examples=25)
def test_any_booster_on_any_data(convert, *, seed, objective, booster, missing, categorical, parallel):
    rng = np.random.default_rng(seed)
    categorical = categorical and booster != "gblinear"
    x = rng.normal(size=(60, 3)) * [1, 1e4, 1e-4]
    if categorical:
        x[:, 1] = rng.integers(0, 9, 60)
    x[rng.random(x.shape) < missing] = np.nan
    real = np.nan_to_num(x[:, 0]) + np.nan_to_num(x[:, 1]) * rng.normal()
    y = {
        "real": real,
        "positive": np.abs(real),
        "binary": (real > np.median(real)).astype(float),
        "classes": np.digitize(real, np.quantile(real, [0.3, 0.6])),
    }[OBJECTIVES[objective]]
    parameters = {"objective": objective, "booster": booster, "nthread": 1, "seed": seed}
    if booster != "gblinear":
        parameters |= {"max_depth": 3, "num_parallel_tree": parallel, "subsample": 0.8}
    if booster == "dart":
        parameters |= {"rate_drop": 0.4}
    if objective.startswith("multi"):
        parameters["num_class"] = 3
    if "quantile" in objective:
        parameters["quantile_alpha"] = [0.2, 0.7]
    types = ["q", "c" if categorical else "q", "q"]
    model = xgb.train(parameters, xgb.DMatrix(x, y, feature_types=types, enable_categorical=True), 4)
    convert(model, x).agree(np.concatenate([x, x * 3 if not categorical else x]), ulps=2)


def test_what_cannot_be_exact_is_refused_with_a_remedy(x, target, problems):
    model = xgb.XGBClassifier(**QUIET, objective="rank:pairwise").fit(x, (target > 7).astype(int))
    (finding,) = problems(model, x)
    assert "classifies with the objective rank:pairwise" in finding.message
    assert finding.remedy


def test_a_refusal_inside_a_pipeline_names_the_step(x, target, problems):
    classifier = xgb.XGBClassifier(n_estimators=2, n_jobs=1, objective="rank:pairwise")
    model = make_pipeline(FunctionTransformer(_by_hand), classifier)
    places = [finding.place for finding in problems(model.fit(x, (target > 7).astype(int)), x)]
    assert places == [
        "pipeline.steps[0] 'functiontransformer' (FunctionTransformer)",
        "pipeline.steps[1] 'xgbclassifier' (XGBClassifier)",
    ]


def _by_hand(x: np.ndarray) -> np.ndarray:
    return np.array([[float(value) for value in row] for row in x])


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
        graphs.append(onnx.load_from_string(sink.files["model.onnx"]).graph)
    assert graphs[0] == graphs[1]
