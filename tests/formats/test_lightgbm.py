from __future__ import annotations

import json

import lightgbm
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import MalformedError, ModelError, UnsupportedModelError
from vitrify.core.protocols import Allow
from vitrify.formats._boosters import lightgbm_model
from vitrify.formats.lightgbm import MODEL, LightGBM
from vitrify.inspection.identify import files_at
from vitrify.reading.files import LocalFiles

FORMAT = LightGBM()
ROWS = 160
RANDOM = np.random.default_rng(11)
X = np.where(RANDOM.random((ROWS, 4)) < 0.2, np.nan, RANDOM.normal(size=(ROWS, 4)))
SUM = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1])
SIDE = (SUM > 0).astype(int)
THREE = np.digitize(SUM, [-0.5, 0.5])
FRAME = pd.DataFrame(
    {
        "a": X[:, 0],
        "colour": pd.Categorical(RANDOM.choice(["rot", "grün", "blau"], ROWS)),
        "size": pd.Categorical(RANDOM.choice([3, 10, 7], ROWS), categories=[10, 3, 7], ordered=True),
        "count": np.arange(ROWS) % 7,
    }
)
COLOURS = SUM + FRAME["colour"].cat.codes.to_numpy() * 2
TINY = {"n_estimators": 5, "num_leaves": 7, "min_child_samples": 5, "n_jobs": 1, "verbose": -1}


def classifier(labels, rows=X, **more):
    return lightgbm.LGBMClassifier(**TINY, **more).fit(rows, labels), rows


def regressor(target=SUM, rows=X, **more):
    return lightgbm.LGBMRegressor(**{**TINY, **more}).fit(rows, target), rows


def early():
    model = lightgbm.LGBMClassifier(**{**TINY, "n_estimators": 60}, learning_rate=0.9)
    shuffled = np.random.default_rng(3).permutation(SIDE)
    stop = lightgbm.early_stopping(12, verbose=False)
    return model.fit(X, SIDE, eval_X=X[:80], eval_y=shuffled[:80], callbacks=[stop])


MODELS = {
    "binary": lambda: classifier(SIDE),
    "text labels": lambda: classifier(np.array(["ja", "nein", "ach was"])[THREE]),
    "text labels as objects": lambda: classifier(np.array(["é", "b"], object)[SIDE]),
    "labels with gaps": lambda: classifier(np.array([7, -2, 40], np.int16)[THREE]),
    "boolean labels": lambda: classifier(SIDE.astype(bool)),
    "weights by class": lambda: classifier(np.array(["x", "y"])[SIDE], class_weight={"x": 1.0, "y": 3.5}),
    "balanced": lambda: classifier(THREE, class_weight="balanced"),
    "early stopping": lambda: (early(), X),
    "regressor": regressor,
    "random forest": lambda: regressor(boosting_type="rf", bagging_freq=1, bagging_fraction=0.7),
    "dart": lambda: regressor(boosting_type="dart"),
    "linear trees": lambda: regressor(np.nan_to_num(X[:, 0]) ** 2, np.nan_to_num(X), linear_tree=True),
    "poisson": lambda: regressor(np.exp(SUM), objective="poisson"),
    "constant": lambda: regressor(np.ones(ROWS)),
    "constraints": lambda: regressor(monotone_constraints=[1, 0, 0, -1]),
    "random state": lambda: regressor(random_state=np.random.RandomState(3)),
    "frame with categories": lambda: classifier(
        np.digitize(COLOURS, [1, 3]), FRAME, min_data_per_group=1, cat_smooth=1
    ),
    "ranker": lambda: (lightgbm.LGBMRanker(**TINY).fit(X, THREE, group=[60, 100], eval_at=(1, 3)), X),
    "plain model": lambda: (lightgbm.LGBMModel(**TINY, objective="regression").fit(X, SUM), X),
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_loaded_model_is_equal_to_the_bit_in_all_that_it_answers(kind, saved):
    model, rows = MODELS[kind]()
    written, _, loaded = saved(FORMAT, model)
    assert written.names == ()
    assert type(loaded) is type(model)
    mine, theirs = model.get_params(), loaded.get_params()
    assert {**mine, "random_state": None} == {**theirs, "random_state": None}
    assert type(mine["random_state"]) is type(theirs["random_state"])
    for how in ({}, {"raw_score": True}, {"pred_leaf": True}, {"pred_contrib": True}, {"num_iteration": 1}):
        if kind == "linear trees" and "pred_contrib" in how:
            continue  # LightGBM has none for them
        np.testing.assert_array_equal(model.predict(rows, **how), loaded.predict(rows, **how), strict=True)
    if isinstance(model, lightgbm.LGBMClassifier):
        np.testing.assert_array_equal(model.predict_proba(rows), loaded.predict_proba(rows), strict=True)
        np.testing.assert_array_equal(model.classes_, loaded.classes_, strict=True)
    np.testing.assert_array_equal(model.feature_importances_, loaded.feature_importances_, strict=True)
    for name in ("best_iteration_", "best_score_", "evals_result_", "feature_name_", "n_features_in_", "objective_"):
        assert getattr(model, name) == getattr(loaded, name)
    assert loaded.booster_.params == model.booster_.params


@pytest.mark.parametrize("kind", ["early stopping", "frame with categories", "text labels", "linear trees"])
def test_writing_twice_and_writing_what_was_read_give_the_same_bytes(kind, saved, same_bytes):
    same_bytes(*MODELS[kind](), FORMAT, saved)


def test_early_stopping_is_remembered(saved):
    model = early()
    _, _, loaded = saved(FORMAT, model)
    assert 0 < loaded.best_iteration_ == model.best_iteration_ < model.n_estimators
    assert loaded.booster_.best_iteration == model.booster_.best_iteration
    assert loaded.evals_result_ or loaded.best_score_


def test_a_native_booster_keeps_all_trees_and_its_best_iteration(saved):
    held_out = lightgbm.Dataset(X[:80], np.random.default_rng(3).permutation(SIDE)[:80])
    stop = lightgbm.early_stopping(12, verbose=False)
    parameters = {"objective": "binary", "verbose": -1, "num_threads": 1, "learning_rate": 0.9}
    booster = lightgbm.train(
        parameters, lightgbm.Dataset(X, SIDE), 60, [held_out], callbacks=[stop], keep_training_booster=True
    )
    _, _, loaded = saved(FORMAT, booster)
    assert type(loaded) is lightgbm.Booster
    assert loaded.num_trees() == booster.num_trees() > booster.best_iteration > 0
    for name in ("best_iteration", "best_score", "params"):
        assert getattr(loaded, name) == getattr(booster, name)
    np.testing.assert_array_equal(booster.predict(X), loaded.predict(X))
    assert not np.array_equal(loaded.predict(X), booster.predict(X, num_iteration=-1))


def test_categories_in_another_order_mean_the_same_to_the_loaded_model_in_another_process(saved, elsewhere):
    model, frame = MODELS["frame with categories"]()
    _, files, _ = saved(FORMAT, model)
    other = frame.assign(colour=frame["colour"].cat.set_categories(["grün", "lila", "rot", "blau"]))
    assert elsewhere(FORMAT, files, "predict_proba", other) == model.predict_proba(frame).tobytes()


@pytest.mark.parametrize("categories", [pd.to_datetime(["2024-01-01", "2024-01-02"]), [(1, 2), (3, 4)]])
def test_categories_that_lightgbm_cannot_keep_are_refused(categories, saved):
    frame = pd.DataFrame({"odd": pd.Categorical(list(categories) * (ROWS // 2)), "x": X[:, 0]})
    parameters = {"verbose": -1, "num_threads": 1, "objective": "regression"}
    booster = lightgbm.train(parameters, lightgbm.Dataset(frame, SUM), 2, keep_training_booster=True)
    with pytest.raises(UnsupportedModelError, match="categories of the training frame"):
        saved(FORMAT, booster)


def test_description_needs_no_lightgbm_and_names_what_matters(saved):
    model, _ = MODELS["frame with categories"]()
    _, files, _ = saved(FORMAT, model)
    shown = FORMAT.describe(files, {})
    assert (shown["class"], shown["objective"], shown["trees"]) == (
        "lightgbm.sklearn.LGBMClassifier",
        "multiclass num_class:3",
        15,
    )
    assert shown["categories"] == [["blau", "grün", "rot"], [10, 3, 7]]
    assert [port["name"] for port in shown["inputs"]] == ["a", "colour", "size", "count"]
    assert shown["classes"] == ["0", "1", "2"]
    assert shown["settings"]["num_leaves"] == 7
    json.dumps(shown, allow_nan=False)


def test_every_parameter_that_is_code_is_listed_at_once(saved):
    model = lightgbm.LGBMRegressor(**TINY, objective=lambda y, p: (p - y, np.ones_like(y)), metric=print).set_params(
        metric="l2"
    )
    model.fit(X, SUM)
    model.set_params(class_weight=map)
    with pytest.raises(UnsupportedModelError) as caught:
        saved(FORMAT, model)
    assert {"objective", "class_weight"} <= {problem.place for problem in caught.value.problems}


def test_a_model_that_was_never_fitted_is_refused(saved):
    with pytest.raises(ModelError, match="never fitted"):
        saved(FORMAT, lightgbm.LGBMClassifier())


def test_an_address_of_memory_in_the_state_is_refused(saved):
    _, files, _ = saved(FORMAT, MODELS["regressor"]()[0])
    state = json.loads(files.read("state.json"))
    files.path("state.json").write_text(json.dumps({**state, "native": {"_handle": 4096}}))
    with pytest.raises(MalformedError, match="_handle"):
        FORMAT.read(files, {}, Allow())


def test_a_bare_file_of_lightgbm_is_read_as_a_booster(tmp_path):
    model, _ = MODELS["regressor"]()
    path = tmp_path / "theirs.txt"
    model.booster_.save_model(path)
    assert FORMAT.detect(files_at(path))
    np.testing.assert_array_equal(
        FORMAT.read(LocalFiles({"theirs.txt": path}), {}, Allow()).predict(X), model.predict(X)
    )


def test_other_files_are_not_detected(tmp_path):
    for name, content in {"a.txt": b"tree of life", "b.txt": b"", "c.pkl": b"\x80\x04"}.items():
        (tmp_path / name).write_bytes(content)
        assert not FORMAT.detect(files_at(tmp_path / name))
    assert not FORMAT.detect(files_at(tmp_path))


def tampered(text, key, change, tree=1):
    """Change the value of a key of one tree, and state the new size of that tree."""
    before, mark, after = text.partition(f"Tree={tree}\n")
    block, rest = after[: after.index("\n\n\n")], after[after.index("\n\n\n") :]
    lines = [
        f"{key}={change(line.partition('=')[2])}" if line.startswith(f"{key}=") else line for line in block.split("\n")
    ]
    changed = "\n".join(lines)
    sizes = before.partition("tree_sizes=")[2].partition("\n")[0].split()
    new = list(sizes)
    new[tree] = str(int(sizes[tree]) + len(changed) - len(block))
    return before.replace(" ".join(sizes), " ".join(new)) + mark + changed + rest


def first(value):
    return lambda text: " ".join([str(value), *text.split(" ")[1:]])


BREAKS = {
    "a leaf far before the first": ("left_child", first(-(2**31))),
    "a leaf after the last": ("right_child", first(-99)),
    "a child that does not exist": ("left_child", first(2**31 - 1)),
    "a child beyond 64 bits": ("left_child", first(2**70)),
    "a root that is its own child": ("left_child", first(0)),
    "two ways to one node": ("right_child", lambda text: " ".join(["1"] * len(text.split()))),
    "a feature that does not exist": ("split_feature", first(2**30)),
    "too few thresholds": ("threshold", lambda text: text.partition(" ")[2]),
    "more leaves than there are": ("num_leaves", lambda _: "1000000"),
    "no leaves": ("num_leaves", lambda _: "0"),
    "a category set that does not exist": ("decision_type", lambda text: " ".join(["1"] * len(text.split()))),
    "leaves that are no numbers": ("left_child", first("zero")),
}


@pytest.mark.parametrize("how", BREAKS)
def test_a_tree_that_would_crash_or_hang_lightgbm_is_refused(how, saved):
    _, files, _ = saved(FORMAT, MODELS["regressor"]()[0])
    whole = files.read(MODEL).decode()
    broken = tampered(whole, *BREAKS[how])
    assert broken != whole
    files.path(MODEL).write_text(broken)
    with pytest.raises(MalformedError, match=r"model\.lgb\.txt"):
        FORMAT.read(files, {}, Allow())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cat_boundaries", first(-5)),
        ("cat_threshold", lambda text: text + " 7"),
        ("num_cat", lambda _: "99"),
        ("threshold", first(9e9)),
    ],
)
def test_category_sets_out_of_bounds_are_refused(key, value, saved):
    _, files, _ = saved(FORMAT, MODELS["frame with categories"]()[0])
    whole = files.read(MODEL).decode()
    tree = next(index for index in range(15) if whole.split(f"Tree={index}\n")[1].split("decision_type=")[1][0] in "13")
    files.path(MODEL).write_text(tampered(whole, key, value, tree))
    with pytest.raises(MalformedError):
        FORMAT.read(files, {}, Allow())


@pytest.mark.parametrize("sizes", ["9" * 18, "1", "-5", "1 2 3", ""])
def test_sizes_that_are_not_those_of_the_trees_are_refused(sizes, saved):
    _, files, _ = saved(FORMAT, MODELS["regressor"]()[0])
    lines = files.read(MODEL).decode().split("\n")
    stated = [f"tree_sizes={sizes}" if line.startswith("tree_sizes=") else line for line in lines]
    files.path(MODEL).write_text("\n".join(stated))
    with pytest.raises(MalformedError, match="tree_sizes"):
        FORMAT.read(files, {}, Allow())


@pytest.mark.parametrize(
    ("found", "instead"),
    [("end of parameters", ""), ("[boosting: gbdt]", "[boosting"), ("[boosting: gbdt]", "boosting gbdt")],
)
def test_parameters_that_have_another_form_are_refused(found, instead, saved):
    """LightGBM takes what stands behind a colon without looking for one."""
    _, files, _ = saved(FORMAT, MODELS["regressor"]()[0])
    whole = files.read(MODEL).decode()
    assert found in whole
    files.path(MODEL).write_text(whole.replace(found, instead))
    with pytest.raises(MalformedError, match="parameters"):
        FORMAT.read(files, {}, Allow())


def test_every_truncation_before_the_last_tree_ends_is_refused(saved):
    _, files, _ = saved(FORMAT, MODELS["regressor"]()[0])
    whole = files.read(MODEL)
    for size in range(0, whole.index(b"\nend of trees\n"), 97):
        files.path(MODEL).write_bytes(whole[:size])
        with pytest.raises(MalformedError):
            FORMAT.read(files, {}, Allow())


@given(st.text(max_size=80))
def test_no_text_makes_the_parser_do_anything_but_parse_or_refuse(content):
    data = f"tree\nversion=v4\n{content}\nTree=0\n{content}\nend of trees\n".encode(errors="replace")
    with pytest.raises(MalformedError, match="test"):
        lightgbm_model.parse(data, where="test")
