"""CatBoost to ONNX: leaves added in double."""

from __future__ import annotations

import catboost as cb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

ROWS = 150
QUIET = {"iterations": 8, "depth": 3, "verbose": 0, "allow_writing_files": False, "random_seed": 0, "thread_count": 1}


@pytest.fixture
def x(rng):
    return rng.normal(size=(ROWS, 4)) * [1, 10, 100, 0.01]


@pytest.fixture
def target(x):
    return x[:, 0] * 3 + np.sin(x[:, 1]) + 7


def borders(model: cb.CatBoost) -> dict[int, np.ndarray]:
    """Return every border, by column."""
    return {column: np.array(values) for column, values in model.get_borders().items() if len(values)}


REGRESSORS = {
    "squared error": {},
    "absolute error": {"loss_function": "MAE"},
    "quantile": {"loss_function": "Quantile:alpha=0.3"},
    "poisson": {"loss_function": "Poisson"},
    "tweedie": {"loss_function": "Tweedie:variance_power=1.5"},
    "uncertainty": {"loss_function": "RMSEWithUncertainty"},
    "several quantiles": {"loss_function": "MultiQuantile:alpha=0.1,0.9"},
    "several targets": {"loss_function": "MultiRMSE"},
    "depthwise": {"grow_policy": "Depthwise"},
    "lossguide": {"grow_policy": "Lossguide", "max_leaves": 6},
    "missing is largest": {"nan_mode": "Max"},
    "ordered": {"boosting_type": "Ordered"},
    "many trees": {"iterations": 300, "depth": 2},
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regressor_predicts_to_a_few_ulps(name, *, x, target, convert, probes, rng):
    y = np.abs(target) + 0.1
    holes = np.where(rng.random(x.shape) < 0.1, np.nan, x)
    model = cb.CatBoostRegressor(**{**QUIET, **REGRESSORS[name]})
    model.fit(holes, np.stack([y, -y], axis=1) if name == "several targets" else y)
    convert(model, holes).agree(probes(holes, borders(model), missing=True), ulps=8, atol=1e-14)


CLASSIFIERS = {
    "plain": {},
    "one against all": {"loss_function": "MultiClassOneVsAll"},
    "depthwise": {"grow_policy": "Depthwise"},
    "lossguide": {"grow_policy": "Lossguide"},
    "weights": {"auto_class_weights": "Balanced"},
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_gives_the_same_labels_and_probabilities(name, *, classes, x, target, convert, probes):
    if classes == 2 and name == "one against all":
        pytest.skip("needs more than two classes")
    y = np.array(["low", "middle", "top"])[np.digitize(target, np.quantile(target, np.arange(1, classes) / classes))]
    model = cb.CatBoostClassifier(**{**QUIET, **CLASSIFIERS[name]}).fit(x, y)
    convert(model, x).agree(probes(x, borders(model)), ulps=16, atol=1e-15)


@pytest.mark.parametrize("loss", ["MultiLogloss", "MultiCrossEntropy"])
def test_several_labels_are_each_decided_alone(loss, x, target, convert, probes):
    y = np.stack([target > 7, target > 8, x[:, 1] > 0], axis=1).astype(int if loss == "MultiLogloss" else float)
    model = cb.CatBoostClassifier(**QUIET, loss_function=loss).fit(x, y)
    convert(model, x).agree(probes(x, borders(model)), ulps=16, atol=1e-15)


@pytest.mark.parametrize("labels", [[False, True], [3, 7], ["no", "yes"], [0.5, 1.5]])
def test_labels_come_back_in_their_own_type(labels, x, target, convert):
    model = cb.CatBoostClassifier(**QUIET).fit(x, np.array(labels)[(target > 7).astype(int)])
    convert(model, x).agree(x, ulps=16, atol=1e-15)


def test_the_threshold_of_the_probability_decides(x, target, convert):
    model = cb.CatBoostClassifier(**QUIET).fit(x, (target > 7).astype(int))
    model.set_probability_threshold(0.8)
    convert(model, x).agree(x, ulps=16, atol=1e-15)


def test_only_the_rounds_up_to_the_best_one_count(x, target, convert):
    model = cb.CatBoostRegressor(**{**QUIET, "iterations": 100, "learning_rate": 0.9})
    model.fit(x[:80], target[:80], eval_set=(x[80:], target[80:]), early_stopping_rounds=2)
    assert model.tree_count_ < 100
    convert(model, x).agree(x, ulps=8, atol=1e-14)


def test_a_ranker_scores_the_same(x, target, convert):
    model = cb.CatBoostRanker(**QUIET).fit(x, np.digitize(target, [6, 8]), group_id=np.repeat(np.arange(15), 10))
    convert(model, x).agree(x, ulps=8, atol=1e-14)


def test_a_table_keeps_the_types_of_its_columns(target, convert, rng):
    table = pd.DataFrame({"big": rng.integers(0, 2**40, ROWS), "real": rng.normal(size=ROWS)})
    convert(cb.CatBoostRegressor(**QUIET).fit(table, target), table).agree(table, ulps=8, atol=1e-14)


def test_behind_a_scaler_no_row_takes_another_branch(x, target, convert, probes):
    model = make_pipeline(StandardScaler(), cb.CatBoostClassifier(**QUIET)).fit(x, target > 7)
    convert(model, x).agree(probes(x), ulps=16, atol=1e-15)


def table_of_categories(rng, *, numbers=True):
    table = pd.DataFrame(
        {
            "c": pd.Categorical(rng.choice(["red", "green", "blue", "ünïcode", ""], ROWS)),
            "d": pd.Categorical(rng.choice([3, -7, 11, 2**40], ROWS)),
            "e": pd.Categorical(rng.choice(list("abcdefghij"), ROWS)),
        }
    )
    score = (table["c"] == "blue") * 3.0 + (table["d"] == 11) * 2 + table["e"].isin(list("aeg")) * 1.5
    if numbers:
        table.insert(1, "n", np.where(rng.random(ROWS) < 0.1, np.nan, rng.normal(size=ROWS)))
        score = score + table["n"].fillna(0)
    return table, score


CATEGORICAL = {
    "one-hot": {"one_hot_max_size": 20},
    "statistics": {"one_hot_max_size": 1, "max_ctr_complexity": 1},
    "combinations": {"one_hot_max_size": 4, "max_ctr_complexity": 4, "iterations": 40},
    "depthwise": {"grow_policy": "Depthwise"},
    "buckets": {"simple_ctr": ["Buckets", "Counter"], "one_hot_max_size": 1},
    "means": {"simple_ctr": ["BinarizedTargetMeanValue"], "one_hot_max_size": 1},
}


@pytest.mark.parametrize("numbers", [True, False])
@pytest.mark.parametrize("name", CATEGORICAL)
def test_categories_become_the_statistics_that_catboost_keeps(name, *, numbers, convert, rng):
    table, score = table_of_categories(rng, numbers=numbers)
    model = cb.CatBoostRegressor(**{**QUIET, **CATEGORICAL[name]}, cat_features=["c", "d", "e"]).fit(table, score)
    pair = convert(model, table)
    unseen = table.assign(c=pd.Categorical(["zzz"] * ROWS), e=pd.Categorical(["zzz", "a"] * (ROWS // 2)))
    pair.agree(pd.concat([table, unseen]).astype({"c": "category", "e": "category"}), ulps=8, atol=1e-14)


@pytest.mark.parametrize("classes", [2, 3])
def test_categories_of_a_classifier(classes, convert, rng):
    table, score = table_of_categories(rng)
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    settings = {**QUIET, "one_hot_max_size": 1, "iterations": 30}
    model = cb.CatBoostClassifier(**settings, cat_features=["c", "d", "e"]).fit(table, y)
    convert(model, table).agree(table, ulps=16, atol=1e-15)


def test_categories_that_nobody_names_are_refused_with_a_remedy(target, problems, rng):
    table = pd.DataFrame({"c": np.array(["a", "b"])[rng.integers(0, 2, ROWS)], "n": rng.normal(size=ROWS)})
    model = cb.CatBoostRegressor(**QUIET, cat_features=["c"]).fit(table, (table["c"] == "a") * 1.0)
    (finding,) = problems(model, table)
    assert "does not name" in finding.message
    assert "category" in finding.remedy
    fewer = table[table["c"] == "a"].astype({"c": "category"})
    (finding,) = problems(model, fewer)
    assert "does not name" in finding.message


@given(
    seed=st.integers(0, 2**16),
    most=st.sampled_from([3, 12, 10**6, 2**40, 2**62]),
    kinds=st.sets(st.sampled_from(["small", "unsigned", "flag", "named"])),
    one_hot=st.sampled_from([1, 4, 20]),
    complexity=st.sampled_from([1, 2, 4]),
    grow=st.sampled_from(["SymmetricTree", "Depthwise", "Lossguide"]),
)
@settings(max_examples=20)
def test_categories_that_are_whole_numbers_need_no_names(convert, *, seed, most, kinds, one_hot, complexity, grow):
    rng = np.random.default_rng(seed)
    made = {
        "small": rng.integers(-3, 4, 80).astype(np.int8),
        "unsigned": rng.integers(0, 5, 80).astype(np.uint64) * np.uint64(2**61 + 7),
        "flag": rng.random(80) > 0.5,
        "named": pd.Categorical(rng.choice(list("abc"), 80)),
    }
    values = rng.integers(-most, most, 6)
    table = pd.DataFrame(
        {"whole": rng.choice(values, 80), "n": rng.normal(size=80), **{k: made[k] for k in sorted(kinds)}}
    )
    options = {"one_hot_max_size": one_hot, "max_ctr_complexity": complexity, "grow_policy": grow, "random_seed": seed}
    model = cb.CatBoostRegressor(**{**QUIET, **options}, cat_features=["whole", *sorted(kinds)])
    model.fit(table, (table["whole"] == values[0]) * 2.0 + table["n"])
    pair = convert(model, table)
    unseen = table.assign(whole=rng.integers(-most, most, 80))
    pair.agree(pd.concat([table, unseen], ignore_index=True).astype(table.dtypes), ulps=16, atol=1e-13)


def test_an_array_of_whole_numbers_may_hold_categories(convert, rng):
    x = rng.integers(0, 9, (ROWS, 3))
    model = cb.CatBoostRegressor(**QUIET, cat_features=[0, 2]).fit(x, (x[:, 0] == 2) * 2.0 + x[:, 1])
    convert(model, x).agree(rng.integers(-3, 20, (ROWS, 3)), ulps=8, atol=1e-14)


def test_a_name_that_is_missing_beside_whole_numbers_is_found(problems, rng):
    table = pd.DataFrame({"c": rng.choice(list("ab"), ROWS), "k": rng.integers(0, 3, ROWS)})
    score = (table["c"] == "a") * 1.0 * (table["k"] == 1) + rng.normal(size=ROWS) / 9
    options = {**QUIET, "one_hot_max_size": 1, "max_ctr_complexity": 2, "iterations": 40}
    model = cb.CatBoostRegressor(**options, cat_features=["c", "k"]).fit(table, score)
    (finding,) = problems(model, table[table["c"] == "a"].astype({"c": "category"}))
    assert "does not name" in finding.message


def test_text_is_refused_with_a_remedy(problems, rng):
    words = np.array(["red wine", "green tea", "blue sky"])
    table = pd.DataFrame({"t": words[rng.integers(0, 3, ROWS)], "n": rng.normal(size=ROWS)})
    model = cb.CatBoostClassifier(**QUIET, text_features=["t"]).fit(table, (table["t"] == "blue sky").astype(int))
    (finding,) = problems(model, table)
    assert finding.message == "has text features, which CatBoost encodes by itself"
    assert "before the model" in finding.remedy


LOSSES = {"RMSE": "real", "Poisson": "positive", "MultiQuantile:alpha=0.2,0.7": "real", "RMSEWithUncertainty": "real"}


@given(
    seed=st.integers(0, 2**16),
    loss=st.sampled_from(sorted(LOSSES)),
    grow=st.sampled_from(["SymmetricTree", "Depthwise", "Lossguide"]),
    nan_mode=st.sampled_from(["Min", "Max"]),
    one_hot=st.sampled_from([1, 4, 20]),
)
@settings(max_examples=20)
def test_any_regressor_on_any_data(convert, *, seed, loss, grow, nan_mode, one_hot):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "n": np.where(rng.random(80) < 0.2, np.nan, rng.normal(size=80)),
            "c": pd.Categorical(rng.choice(list("abcdef"), 80)),
            "m": rng.integers(0, 2**40, 80),
            "d": pd.Categorical(rng.integers(-3, 3, 80)),
        }
    )
    score = table["n"].fillna(2) + (table["c"] == "b") * 3 + (table["d"] == 0) * rng.normal()
    settings_ = {**QUIET, "loss_function": loss, "grow_policy": grow, "nan_mode": nan_mode, "random_seed": seed}
    model = cb.CatBoostRegressor(**settings_, one_hot_max_size=one_hot, cat_features=["c", "d"])
    model.fit(table, np.abs(score) if LOSSES[loss] == "positive" else score)
    convert(model, table).agree(table, ulps=16, atol=1e-13)
