from __future__ import annotations

import contextlib
import json
import math

import numpy as np
import pandas as pd
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import MalformedError, ModelError, UnsupportedModelError
from vitrify.core.protocols import Allow
from vitrify.formats._boosters import ubjson
from vitrify.formats.xgboost import MODEL, XGBoost
from vitrify.inspection.identify import files_at
from vitrify.reading.files import HeldFiles, LocalFiles

ROWS = 120
FORMAT = XGBoost()


def data(missing=math.nan, share=0.2):
    random = np.random.default_rng(7)
    table = random.normal(size=(ROWS, 4))
    table[random.random(table.shape) < share] = missing
    return table


X = data()
BINARY = (np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) > 0).astype(int)
THREE = np.digitize(np.nan_to_num(X[:, 0]), [-0.4, 0.4])
REAL = np.nan_to_num(X[:, 0]) * 3 + np.nan_to_num(X[:, 1]) ** 2
QUERIES = np.repeat(np.arange(12), 10)
FRAME = pd.DataFrame(
    {
        "a": X[:, 0],
        "colour": pd.Categorical(np.random.default_rng(1).choice(["red", "green", "blue"], ROWS)),
        "count": np.arange(ROWS) % 7,
        "flag": X[:, 1] > 0,
    }
)
TINY = {"n_estimators": 6, "max_depth": 3, "n_jobs": 1}


def early(**more):
    model = xgboost.XGBClassifier(
        n_estimators=60, max_depth=3, learning_rate=0.9, early_stopping_rounds=2, n_jobs=1, **more
    )
    shuffled = np.random.default_rng(3).permutation(BINARY)
    return model.fit(X, BINARY, eval_set=[(X, shuffled)], verbose=False)


MODELS = {
    "binary": lambda: (xgboost.XGBClassifier(**TINY).fit(X, BINARY), X),
    "binary with an own base score": lambda: (xgboost.XGBClassifier(base_score=0.1, **TINY).fit(X, BINARY), X),
    "three classes with an own base score": lambda: (xgboost.XGBClassifier(base_score=0.1, **TINY).fit(X, THREE), X),
    "-999 for missing": lambda: (xgboost.XGBClassifier(missing=-999.0, **TINY).fit(data(-999.0), BINARY), data(-999.0)),
    "early stopping": lambda: (early(), X),
    "regressor": lambda: (xgboost.XGBRegressor(**TINY).fit(X, REAL), X),
    "two targets, a tree each": lambda: (xgboost.XGBRegressor(**TINY).fit(X, np.c_[REAL, -REAL]), X),
    "two targets, one tree": lambda: (
        xgboost.XGBRegressor(multi_strategy="multi_output_tree", **TINY).fit(X, np.c_[REAL, -REAL]),
        X,
    ),
    "linear": lambda: (
        xgboost.XGBRegressor(booster="gblinear", n_estimators=6, n_jobs=1).fit(np.nan_to_num(X), REAL),
        np.nan_to_num(X),
    ),
    "dart": lambda: (xgboost.XGBClassifier(booster="dart", rate_drop=0.5, **TINY).fit(X, THREE), X),
    "ranker": lambda: (xgboost.XGBRanker(**TINY).fit(X, THREE, qid=QUERIES), X),
    "random forest classifier": lambda: (xgboost.XGBRFClassifier(**TINY).fit(X, THREE), X),
    "random forest regressor": lambda: (xgboost.XGBRFRegressor(**TINY).fit(X, REAL), X),
    "frame with categories": lambda: (
        xgboost.XGBClassifier(enable_categorical=True, max_cat_to_onehot=1, **TINY).fit(FRAME, THREE),
        FRAME,
    ),
    "parameters that only the booster knows": lambda: (
        xgboost.XGBRegressor(**TINY, seed_per_iteration=True).fit(X, REAL),
        X,
    ),
    "random state": lambda: (xgboost.XGBRegressor(**TINY, random_state=np.random.RandomState(5)).fit(X, REAL), X),
    "constraints": lambda: (
        xgboost.XGBRegressor(
            **TINY, monotone_constraints=(1, 0, 0, -1), interaction_constraints="[[0, 1], [2, 3]]"
        ).fit(X, REAL),
        X,
    ),
}


def same(left, right):
    if isinstance(left, np.random.RandomState):
        return same(left.get_state(legacy=False), right.get_state(legacy=False))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    return type(left) is type(right) and repr(left) == repr(right)


@pytest.mark.parametrize("kind", MODELS)
def test_a_loaded_model_is_equal_to_the_bit_in_all_that_it_answers(kind, saved):
    model, rows = MODELS[kind]()
    written, _, loaded = saved(FORMAT, model)
    assert written.names == ()
    assert type(loaded) is type(model)
    assert same(model.get_params(), loaded.get_params())
    np.testing.assert_array_equal(model.predict(rows), loaded.predict(rows), strict=True)
    np.testing.assert_array_equal(
        model.predict(rows, output_margin=True), loaded.predict(rows, output_margin=True), strict=True
    )
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(model.predict_proba(rows), loaded.predict_proba(rows), strict=True)
        np.testing.assert_array_equal(model.classes_, loaded.classes_, strict=True)
    if kind != "linear":
        np.testing.assert_array_equal(model.apply(rows), loaded.apply(rows), strict=True)
        np.testing.assert_array_equal(model.feature_importances_, loaded.feature_importances_, strict=True)
    assert model.n_features_in_ == loaded.n_features_in_
    assert model.get_booster().feature_names == loaded.get_booster().feature_names
    assert model.get_booster().feature_types == loaded.get_booster().feature_types
    assert model.get_booster().attributes() == loaded.get_booster().attributes()


@pytest.mark.parametrize("kind", ["early stopping", "frame with categories", "dart", "two targets, one tree", "linear"])
def test_writing_twice_and_writing_what_was_read_give_the_same_bytes(kind, saved, same_bytes):
    same_bytes(*MODELS[kind](), FORMAT, saved)


def test_early_stopping_limits_the_trees_of_the_loaded_model_as_of_the_saved(saved):
    model = early()
    _, _, loaded = saved(FORMAT, model)
    assert (
        loaded.get_booster().num_boosted_rounds() == model.get_booster().num_boosted_rounds() > model.best_iteration + 1
    )
    assert (loaded.best_iteration, loaded.best_score) == (model.best_iteration, model.best_score)
    assert loaded.evals_result() == model.evals_result()
    everything = model.predict_proba(X, iteration_range=(0, model.get_booster().num_boosted_rounds()))
    assert not np.array_equal(loaded.predict_proba(X), everything)


def test_a_native_booster_keeps_names_types_and_attributes(saved):
    matrix = xgboost.DMatrix(X, BINARY, feature_names=["a", "b", "ç", "d"], feature_types=["q", "i", "q", "float"])
    booster = xgboost.train({"objective": "binary:logistic", "nthread": 1}, matrix, 4)
    booster.set_attr(note="of mine")
    _, _, loaded = saved(FORMAT, booster)
    assert type(loaded) is xgboost.Booster
    assert loaded.feature_names == ["a", "b", "ç", "d"]
    assert loaded.feature_types == ["q", "i", "q", "float"]
    assert loaded.attributes() == {"note": "of mine"}
    np.testing.assert_array_equal(booster.predict(matrix), loaded.predict(matrix))


def test_categories_in_another_order_mean_the_same_to_the_loaded_model(saved):
    model, frame = MODELS["frame with categories"]()
    _, _, loaded = saved(FORMAT, model)
    other = frame.assign(colour=frame["colour"].cat.reorder_categories(["red", "blue", "green"]))
    np.testing.assert_array_equal(loaded.predict_proba(other), model.predict_proba(frame))


def test_description_needs_no_xgboost_and_names_what_matters(saved):
    model, _ = MODELS["frame with categories"]()
    _, files, _ = saved(FORMAT, model)
    shown = FORMAT.describe(files, {})
    assert shown["class"] == "xgboost.sklearn.XGBClassifier"
    assert (shown["objective"], shown["booster"], shown["trees"], shown["classes"]) == (
        "multi:softprob",
        "gbtree",
        18,
        [0, 1, 2],
    )
    assert [port["name"] for port in shown["inputs"]] == ["a", "colour", "count", "flag"]
    assert [port["type"] for port in shown["inputs"]] == ["float32", "c", "int", "i"]
    assert shown["settings"]["max_depth"] == 3
    assert (shown["library"], shown["versions"]) == ("xgboost", {"xgboost": xgboost.__version__})
    json.dumps(shown, allow_nan=False)


def own_objective(labels, predictions):
    return predictions - labels, np.ones_like(labels)


def test_every_parameter_that_is_code_is_listed_at_once(files_and_sink):
    stopping = xgboost.callback.EarlyStopping(rounds=2)
    model = xgboost.XGBRegressor(n_estimators=2, objective=own_objective, n_jobs=1).fit(X, REAL)
    model.set_params(callbacks=[stopping], eval_metric=lambda y, p: 0.0)
    with pytest.raises(UnsupportedModelError) as caught:
        FORMAT.write(model, files_and_sink().sink, None)
    assert {problem.place for problem in caught.value.problems} == {"objective", "callbacks[0]", "eval_metric"}
    assert "own_objective" in str(caught.value)


def test_a_model_that_was_never_fitted_is_refused(files_and_sink):
    with pytest.raises(ModelError, match="never fitted"):
        FORMAT.write(xgboost.XGBClassifier(), files_and_sink().sink, None)


def test_a_class_that_is_no_model_is_refused_even_if_allowed(saved):
    _, files, _ = saved(FORMAT, MODELS["regressor"]()[0])
    state = json.loads(files.read("state.json"))
    files.path("state.json").write_text(json.dumps({**state, "model": "subprocess:Popen"}))
    with pytest.raises(MalformedError, match="no model class"):
        FORMAT.read(files, {}, Allow.of(["subprocess.Popen"]))


def test_an_address_of_memory_in_the_state_is_refused(saved):
    _, files, _ = saved(FORMAT, MODELS["regressor"]()[0].get_booster())
    state = json.loads(files.read("state.json"))
    files.path("state.json").write_text(json.dumps({**state, "attributes": {"handle": 4096}}))
    with pytest.raises(MalformedError, match="handle"):
        FORMAT.read(files, {}, Allow())


def test_a_bare_file_of_xgboost_is_read_as_a_booster(tmp_path):
    model, _ = MODELS["regressor"]()
    for name in ("theirs.ubj", "theirs.json"):
        model.save_model(tmp_path / name)
        assert FORMAT.detect(files_at(tmp_path / name))
        loaded = FORMAT.read(LocalFiles({name: tmp_path / name}), {}, Allow())
        np.testing.assert_array_equal(loaded.predict(xgboost.DMatrix(X)), model.predict(X))


def test_other_files_are_not_detected(tmp_path):
    for name, content in {"a.json": b'{"learner": 3}', "b.ubj": b"{", "c": b"", "d.pkl": b"\x80\x04"}.items():
        (tmp_path / name).write_bytes(content)
        assert not FORMAT.detect(files_at(tmp_path / name))
    assert not FORMAT.detect(files_at(tmp_path))


def test_it_loads_in_a_new_process(saved, elsewhere):
    model, rows = MODELS["early stopping"]()
    _, files, _ = saved(FORMAT, model)
    assert elsewhere(FORMAT, files, "predict_proba", rows) == model.predict_proba(rows).tobytes()


def as_json(files):
    booster = xgboost.Booster()
    booster.load_model(bytearray(files.read(MODEL)))
    return json.loads(bytes(booster.save_raw("json")))


BREAKS = {
    "children in a cycle": lambda tree: (
        tree["left_children"].__setitem__(1, 0) or tree["right_children"].__setitem__(1, 2)
    ),
    "a child that is its own parent": lambda tree: tree["left_children"].__setitem__(0, 0),
    "a child that does not exist": lambda tree: tree["left_children"].__setitem__(0, 2**30),
    "one child only": lambda tree: tree["right_children"].__setitem__(0, -1),
    "a feature that does not exist": lambda tree: tree["split_indices"].__setitem__(0, 2**30),
    "too few conditions": lambda tree: tree["split_conditions"].pop(),
    "more nodes than there are": lambda tree: tree["tree_param"].__setitem__("num_nodes", "1000000"),
    "no nodes": lambda tree: tree.pop("left_children"),
}


@pytest.mark.parametrize("how", BREAKS)
def test_a_tree_that_would_crash_or_hang_xgboost_is_refused(how, saved):
    _, files, _ = saved(FORMAT, MODELS["regressor"]()[0])
    raw = as_json(files)
    BREAKS[how](raw["learner"]["gradient_booster"]["model"]["trees"][2])
    files.path(MODEL).write_text(json.dumps(raw))
    with pytest.raises(MalformedError, match=r"model\.ubj"):
        FORMAT.read(files, {}, Allow())


def test_a_linear_model_with_too_few_weights_is_refused(saved):
    _, files, _ = saved(FORMAT, MODELS["linear"]()[0])
    raw = as_json(files)
    raw["learner"]["gradient_booster"]["model"]["weights"].pop()
    files.path(MODEL).write_text(json.dumps(raw))
    with pytest.raises(MalformedError, match="weights"):
        FORMAT.read(files, {}, Allow())


def test_every_truncation_is_refused(saved):
    _, files, _ = saved(FORMAT, MODELS["frame with categories"]()[0])
    whole = files.read(MODEL)
    for size in range(0, len(whole), 97):
        files.path(MODEL).write_bytes(whole[:size])
        with pytest.raises(MalformedError):
            FORMAT.read(files, {}, Allow())


@given(st.binary(max_size=60))
def test_no_bytes_make_the_ubjson_reader_do_anything_but_read_or_refuse(content):
    with contextlib.suppress(MalformedError):
        ubjson.parse(b"{" + content, where="test")


@pytest.mark.parametrize(
    "content",
    [
        b"[$Z#L\x7f\xff\xff\xff\xff\xff\xff\xff",
        b"[$d#L\x7f\xff\xff\xff\xff\xff\xff\xff",
        b"[#L\x40" + b"\0" * 7,
        b"SL\x7f" + b"\xff" * 7,
        b"SL\xff" + b"\xff" * 7,
        b"[" * 100_000,
        b"{L\0\0\0\0\0\0\0\1aZL\0\0\0\0\0\0\0\1aZ}",
        b"[]trailing",
    ],
)
def test_counts_lengths_and_depths_of_ubjson_are_bounded(content):
    with pytest.raises(MalformedError):
        ubjson.parse(content, where="test")


@pytest.mark.parametrize("prefix", [b"binf", b""])
def test_the_old_binary_format_is_described_though_no_xgboost_reads_it(prefix, tmp_path):
    from samples.weights import binary_xgboost

    whole = binary_xgboost(prefix)
    (tmp_path / "old.model").write_bytes(whole)
    files, entry = files_at(tmp_path / "old.model"), {"file": "old.model"}
    assert FORMAT.detect(files)
    shown = FORMAT.describe(files, entry)
    assert (shown["objective"], shown["booster"], shown["trees"]) == ("binary:logistic", "gbtree", 1)
    assert (shown["versions"], shown["parameters"]) == ({"xgboost": "1.7"}, 3)
    assert not list(FORMAT.hazards(files, entry))
    for size in range(200, len(whole), 7):
        with pytest.raises(MalformedError):
            FORMAT.describe(HeldFiles({"f": memoryview(whole[:size])}), {"file": "f"})
    cyclic = whole.replace(np.array([-1, 1, 2], "<i4").tobytes(), np.array([-1, 0, 2], "<i4").tobytes(), 1)
    with pytest.raises(MalformedError, match="more than one way"):
        FORMAT.describe(HeldFiles({"f": memoryview(cyclic)}), {"file": "f"})


def test_an_objective_of_somebody_else_is_told(saved):
    _, files, _ = saved(FORMAT, MODELS["regressor"]()[0])
    raw = as_json(files)
    raw["learner"]["objective"]["name"] = "acme:loss"
    files.path(MODEL).write_text(json.dumps(raw))
    (finding,) = FORMAT.hazards(LocalFiles({MODEL: files.path(MODEL)}), {"file": MODEL})
    assert (finding.rule, finding.subject, finding.verdict) == ("custom-objective", "acme:loss", "not checked")


def test_a_member_that_stands_twice_is_refused(saved):
    _, files, _ = saved(FORMAT, MODELS["regressor"]()[0])
    text = json.dumps(as_json(files))
    with pytest.raises(MalformedError, match="twice"):
        FORMAT.describe(HeldFiles({"f": memoryview((text[:-1] + ',"learner":{}}').encode())}), {"file": "f"})
