from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import xgboost

from vitrify import containers
from vitrify.core.document import SCHEMA, Document
from vitrify.core.errors import ModelError, UsageError
from vitrify.core.protocols import Allow
from vitrify.reading.files import LocalFiles
from vitrify.runtimes.threads import threads
from vitrify.runtimes.xgboost import XGBoostRuntime

RUNTIME = XGBoostRuntime()
RANDOM = np.random.default_rng(2)
X = np.where(RANDOM.random((90, 3)) < 0.2, np.nan, RANDOM.normal(size=(90, 3)))
TARGET = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1])
THREE = np.digitize(TARGET, [-0.5, 0.5])
FRAME = pd.DataFrame({"a": X[:, 0], "kind": pd.Categorical(RANDOM.choice(["x", "y", "z"], 90)), "n": np.arange(90) % 5})
QUIET = {"nthread": 1, "max_depth": 3}


def document(model, native):
    example = containers.example(native)
    entry = RUNTIME.entry(model, example)
    assert all(key.startswith("call_") for key in entry)
    return Document(schema=SCHEMA, format="xgboost", runtime="xgboost", entry=entry, signature=example.signature)


def predict(model, native):
    with RUNTIME.wrap(model, document(model, native)) as session:
        return session.predict(native)["prediction"]


def test_an_array_predicts_as_a_matrix_of_xgboost_does():
    booster = xgboost.train({**QUIET, "objective": "reg:squarederror"}, xgboost.DMatrix(X, TARGET), 5)
    expected = booster.predict(xgboost.DMatrix(X))
    np.testing.assert_array_equal(predict(booster, X), expected, strict=True)
    assert expected.shape == (90,)


def test_classes_are_columns_also_for_one_row():
    booster = xgboost.train({**QUIET, "objective": "multi:softprob", "num_class": 3}, xgboost.DMatrix(X, THREE), 4)
    np.testing.assert_array_equal(predict(booster, X), booster.predict(xgboost.DMatrix(X)), strict=True)
    assert predict(booster, X[:1]).shape == (1, 3)
    (field,) = RUNTIME.describe_outputs(booster, {"prediction": predict(booster, X)}, {})
    assert (field.name, field.dtype, field.shape) == ("prediction", "float32", ("batch", 3))


def test_names_and_types_of_a_booster_are_given_to_an_array():
    named = {"feature_names": ["a", "b", "c"], "feature_types": ["q", "q", "float"]}
    booster = xgboost.train(QUIET, xgboost.DMatrix(X, TARGET, **named), 3)
    np.testing.assert_array_equal(predict(booster, X), booster.predict(xgboost.DMatrix(X, **named)), strict=True)


def categorical():
    return xgboost.train({**QUIET, "max_cat_to_onehot": 1}, xgboost.DMatrix(FRAME, TARGET, enable_categorical=True), 6)


def test_frames_keep_their_categories():
    booster = categorical()
    expected = booster.predict(xgboost.DMatrix(FRAME, enable_categorical=True))
    np.testing.assert_array_equal(predict(booster, FRAME), expected, strict=True)


def test_records_and_dicts_are_matched_by_name():
    frame = FRAME[["a", "n"]]
    booster = xgboost.train(QUIET, xgboost.DMatrix(frame, TARGET), 6)
    expected = booster.predict(xgboost.DMatrix(frame))
    turned = frame[["n", "a"]]
    np.testing.assert_array_equal(predict(booster, frame.to_dict("records")), expected, strict=True)
    with RUNTIME.wrap(booster, document(booster, frame)) as session:
        np.testing.assert_array_equal(session.predict(turned)["prediction"], expected, strict=True)
    columns = {name: frame[name].to_numpy() for name in frame}
    np.testing.assert_array_equal(predict(booster, columns), expected, strict=True)


def stopped():
    shuffled = np.random.default_rng(4).permutation(TARGET)
    training, held_out = xgboost.DMatrix(X, TARGET), xgboost.DMatrix(X, shuffled)
    stop = {"early_stopping_rounds": 3, "evals": [(held_out, "held_out")], "verbose_eval": False}
    booster = xgboost.train({**QUIET, "learning_rate": 0.9}, training, 40, **stop)
    assert booster.num_boosted_rounds() > booster.best_iteration + 1
    return booster


def test_the_best_iteration_is_the_last_one_used_and_stands_in_the_entry():
    booster = stopped()
    best = booster.predict(xgboost.DMatrix(X), iteration_range=(0, booster.best_iteration + 1))
    np.testing.assert_array_equal(predict(booster, X), best, strict=True)
    assert document(booster, X).entry == {"call_iterations": booster.best_iteration + 1}
    assert not np.array_equal(best, booster.predict(xgboost.DMatrix(X)))


def test_an_estimator_gives_its_booster_and_what_it_takes_for_missing():
    table = np.nan_to_num(X, nan=-999.0)
    model = xgboost.XGBRegressor(n_estimators=4, missing=-999.0, n_jobs=1).fit(table, TARGET)
    np.testing.assert_array_equal(predict(model, table), model.predict(table), strict=True)


def test_a_linear_booster_predicts():
    table = np.nan_to_num(X)
    booster = xgboost.train({"booster": "gblinear", "nthread": 1}, xgboost.DMatrix(table, TARGET), 4)
    np.testing.assert_array_equal(predict(booster, table), booster.predict(xgboost.DMatrix(table)), strict=True)


def test_an_opened_artifact_predicts_as_the_live_booster(tmp_path):
    booster = stopped()
    booster.save_model(tmp_path / "model.ubj")
    files = LocalFiles({"model.ubj": tmp_path / "model.ubj"})
    with RUNTIME.open(files, document(booster, X), Allow()) as session:
        np.testing.assert_array_equal(session.predict(X)["prediction"], predict(booster, X), strict=True)


def test_features_that_the_booster_does_not_know_are_an_error_of_the_model():
    with pytest.raises(ModelError, match=r"XGBoost|feature"):
        predict(categorical(), X[:, :2])


def test_without_a_signature_it_cannot_be_opened():
    with pytest.raises(UsageError, match="signature"):
        RUNTIME.wrap(categorical(), Document(schema=SCHEMA, format="xgboost", runtime="xgboost"))


def test_a_booster_that_is_opened_for_a_number_of_threads_predicts_with_as_many_and_the_same():
    booster = xgboost.train({"nthread": 2, "max_depth": 3}, xgboost.DMatrix(X, TARGET), 5)
    expected = booster.predict(xgboost.DMatrix(X))
    about = document(booster, X)
    with threads(1), RUNTIME.wrap(booster.copy(), about) as session:
        assert json.loads(session._booster.save_config())["learner"]["generic_param"]["nthread"] == "1"
        np.testing.assert_array_equal(session.predict(X)["prediction"], expected, strict=True)
