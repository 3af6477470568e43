from __future__ import annotations

import json
import struct

import catboost
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import MalformedError, ModelError, UnsupportedModelError
from vitrify.core.protocols import Allow
from vitrify.formats._boosters import catboost_model
from vitrify.formats.catboost import MODEL, CatBoost
from vitrify.inspection.identify import files_at
from vitrify.reading import flatbuffer
from vitrify.reading.files import LocalFiles

FORMAT = CatBoost()
ROWS = 150
RANDOM = np.random.default_rng(5)
X = np.where(RANDOM.random((ROWS, 3)) < 0.2, np.nan, RANDOM.normal(size=(ROWS, 3)))
SUM = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1])
SIDE = (SUM > 0).astype(int)
THREE = np.digitize(SUM, [-0.5, 0.5])
TINY = {"iterations": 4, "depth": 3, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
FRAME = pd.DataFrame(
    {
        "a": X[:, 0],
        "colour": RANDOM.choice(["rot", "grün", "", "nan"], ROWS),
        "size": RANDOM.choice([3, 10, 7], ROWS),
        "text": RANDOM.choice(["good day", "bad day", "what a day", "so so"], ROWS),
    }
)
COLOURS = FRAME["colour"].isin(["rot", ""]).to_numpy() ^ (SUM > 0.8)


def classifier(labels, rows=X, **more):
    return catboost.CatBoostClassifier(**{**TINY, **more}).fit(rows, labels), rows


def regressor(target=SUM, **more):
    return catboost.CatBoostRegressor(**{**TINY, **more}).fit(X, target), X


def early():
    shuffled = np.random.default_rng(3).permutation(SIDE)
    model = catboost.CatBoostClassifier(**{**TINY, "iterations": 60}, learning_rate=0.9, use_best_model=False)
    return model.fit(X, SIDE, eval_set=(X[:80], shuffled[:80]), early_stopping_rounds=12)


MODELS = {
    "binary": lambda: classifier(SIDE),
    "text labels": lambda: classifier(np.array(["ja", "nein", "ach was"])[THREE]),
    "text labels that look like numbers": lambda: classifier(np.array(["1", "02"], object)[SIDE]),
    "labels with gaps": lambda: classifier(np.array([7, -2, 40])[THREE]),
    "boolean labels": lambda: classifier(SIDE.astype(bool)),
    "real labels": lambda: classifier(SIDE * 1.5),
    "classes in an order of their own": lambda: classifier(np.array(["x", "y"])[SIDE], class_names=["y", "x"]),
    "weights by class": lambda: classifier(SIDE, class_weights={0: 1.0, 1: 2.5}),
    "many labels a row": lambda: classifier((X[:, :2] > 0).astype(int), loss_function="MultiLogloss"),
    "early stopping": lambda: (early(), X),
    "regressor": regressor,
    "many targets": lambda: regressor(np.c_[SUM, -SUM], loss_function="MultiRMSE"),
    "with uncertainty": lambda: regressor(loss_function="RMSEWithUncertainty"),
    "leaf by leaf": lambda: regressor(grow_policy="Lossguide", max_leaves=6),
    "level by level": lambda: classifier(THREE, grow_policy="Depthwise"),
    "a poisson loss": lambda: regressor(np.exp(SUM), loss_function="Poisson"),
    "categories, text and missing": lambda: classifier(
        COLOURS, FRAME, cat_features=["colour", "size"], text_features=["text"], one_hot_max_size=3
    ),
    "categories by position": lambda: classifier(
        COLOURS, FRAME[["a", "colour", "size"]], cat_features=np.array([1, 2])
    ),
    "ranker": lambda: (
        catboost.CatBoostRanker(**TINY, loss_function="YetiRank").fit(X, THREE, group_id=np.repeat(np.arange(15), 10)),
        X,
    ),
    "plain model": lambda: (catboost.CatBoost({**TINY, "loss_function": "Logloss"}).fit(X, SIDE), X),
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_loaded_model_is_equal_to_the_bit_in_all_that_it_answers(kind, saved):
    model, rows = MODELS[kind]()
    written, _, loaded = saved(FORMAT, model)
    assert written.names == ()
    assert type(loaded) is type(model)
    assert repr(model.get_params()) == repr(loaded.get_params())
    assert model == loaded
    np.testing.assert_array_equal(model.predict(rows), loaded.predict(rows), strict=True)
    if isinstance(model, catboost.CatBoostClassifier):
        for how in ("RawFormulaVal", "Probability"):
            mine, theirs = (each.predict(rows, prediction_type=how) for each in (model, loaded))
            np.testing.assert_array_equal(mine, theirs, strict=True)
    np.testing.assert_array_equal(model.classes_, loaded.classes_, strict=True)
    np.testing.assert_array_equal(model.calc_leaf_indexes(rows), loaded.calc_leaf_indexes(rows), strict=True)
    for name in ("best_iteration_", "feature_names_", "n_features_in_", "tree_count_"):
        assert getattr(model, name) == getattr(loaded, name)
    assert loaded.best_score_ == {part: pytest.approx(scores) for part, scores in model.best_score_.items()}
    assert model.get_cat_feature_indices() == loaded.get_cat_feature_indices()
    assert model.get_text_feature_indices() == loaded.get_text_feature_indices()
    if kind != "ranker":
        np.testing.assert_array_equal(model.feature_importances_, loaded.feature_importances_)


@pytest.mark.parametrize("kind", ["binary", "categories, text and missing", "level by level", "ranker"])
def test_writing_twice_gives_the_same_bytes(kind, saved):
    model, rows = MODELS[kind]()
    _, first, _ = saved(FORMAT, model)
    model.predict(rows)
    _, second, _ = saved(FORMAT, model)
    assert first.names() == second.names() == (MODEL, "state.json")
    assert all(first.read(name) == second.read(name) for name in first.names())


def test_early_stopping_is_remembered(saved):
    model = early()
    _, _, loaded = saved(FORMAT, model)
    assert loaded.tree_count_ == model.tree_count_ > model.best_iteration_ + 1
    assert loaded.best_iteration_ == model.best_iteration_


def test_it_loads_in_a_new_process_with_its_text_labels(saved, elsewhere):
    model, rows = MODELS["text labels"]()
    _, files, _ = saved(FORMAT, model)
    assert elsewhere(FORMAT, files, "predict_proba", rows) == model.predict_proba(rows).tobytes()


def test_description_needs_no_catboost_and_names_what_matters(saved):
    model, _ = MODELS["categories, text and missing"]()
    _, files, _ = saved(FORMAT, model)
    shown = FORMAT.describe(files, {})
    assert (shown["class"], shown["objective"], shown["trees"]) == ("catboost.core.CatBoostClassifier", "Logloss", 4)
    assert shown["features"] == {"float": 1, "categorical": 2, "text": 1}
    assert shown["classes"] == ["False", "True"] or shown["classes"] == [False, True]
    assert shown["settings"]["depth"] == 3
    json.dumps(shown, allow_nan=False)


class OwnLoss:
    def calc_ders_range(self, approxes, targets, weights):
        return [(t - a, -1.0) for a, t in zip(approxes, targets, strict=True)]


def test_every_parameter_that_is_code_is_listed_at_once(saved):
    model, _ = MODELS["regressor"]()
    model._init_params.update(loss_function=OwnLoss(), callback=print)  # training with them wants numba
    with pytest.raises(UnsupportedModelError) as caught:
        saved(FORMAT, model)
    places = {problem.place for problem in caught.value.problems}
    assert places == {"_init_params['loss_function']", "_init_params['callback']"}


def test_a_model_that_was_never_fitted_is_refused(saved):
    with pytest.raises(ModelError, match="never fitted"):
        saved(FORMAT, catboost.CatBoostClassifier())


def test_an_object_in_place_of_the_native_model_is_refused(saved):
    _, files, _ = saved(FORMAT, MODELS["regressor"]()[0])
    state = json.loads(files.read("state.json"))
    files.path("state.json").write_text(json.dumps({**state, "attributes": {"_object": 4096}}))
    with pytest.raises(MalformedError, match="_object"):
        FORMAT.read(files, {}, Allow())


def test_a_bare_file_of_catboost_is_read_as_a_plain_model(tmp_path):
    model, _ = MODELS["regressor"]()
    path = tmp_path / "theirs.cbm"
    model.save_model(path)
    assert FORMAT.detect(files_at(path))
    assert FORMAT.describe(LocalFiles({"theirs.cbm": path}), {})["trees"] == 4
    np.testing.assert_array_equal(
        FORMAT.read(LocalFiles({"theirs.cbm": path}), {}, Allow()).predict(X), model.predict(X)
    )


def test_other_files_are_not_detected(tmp_path):
    for name, content in {"a.cbm": b"CBM", "b.cbm": b"", "c.pkl": b"\x80\x04"}.items():
        (tmp_path / name).write_bytes(content)
        assert not FORMAT.detect(files_at(tmp_path / name))
    assert not FORMAT.detect(files_at(tmp_path))


def replaced(whole, before, after):
    """Replace a vector of numbers that stands once in a file by another of the same size."""
    old, new = before.tobytes(), np.asarray(after, before.dtype).tobytes()
    assert whole.count(old) == 1
    assert len(old) == len(new)
    return whole.replace(old, new)


def trees(whole):
    size = struct.unpack_from("<I", whole, 4)[0]
    return flatbuffer.root(memoryview(whole)[8 : 8 + size], where="test").table(1)


@pytest.mark.parametrize("value", [-1, 10_000, 2**31 - 1])
def test_a_split_that_does_not_exist_is_refused(value, saved):
    _, files, _ = saved(FORMAT, MODELS["regressor"]()[0])
    whole = files.read(MODEL)
    splits = trees(whole).array(1, "<i4")
    files.path(MODEL).unlink()
    files.path(MODEL).write_bytes(replaced(whole, splits, [value, *splits[1:]]))
    with pytest.raises(MalformedError, match="splits that exist"):
        FORMAT.read(files, {}, Allow())


@pytest.mark.parametrize(
    ("field", "dtype", "change", "message"),
    [
        (10, "<u4", lambda steps: np.r_[0xFFFFFFFF, steps[1:]], "children"),
        (11, "<u4", lambda leaves: np.where(leaves == leaves.min(), 10**6, leaves), "leaves that exist"),
        (2, "<i4", lambda sizes: np.r_[sizes[0] + 1, sizes[1:]], "one after another"),
        (1, "<i4", lambda splits: np.r_[10**6, splits[1:]], "splits that exist"),
    ],
)
def test_nodes_that_lead_out_of_their_tree_are_refused(field, dtype, change, message, saved):
    _, files, _ = saved(FORMAT, MODELS["leaf by leaf"]()[0])
    whole = files.read(MODEL)
    numbers = trees(whole).array(field, dtype)
    files.path(MODEL).write_bytes(replaced(whole, numbers, change(numbers)))
    with pytest.raises(MalformedError, match=message):
        FORMAT.read(files, {}, Allow())


def test_every_truncation_of_the_trees_is_refused(saved):
    _, files, _ = saved(FORMAT, MODELS["categories, text and missing"]()[0])
    whole = files.read(MODEL)
    for size in range(0, struct.unpack_from("<I", whole, 4)[0] + 8, 197):
        files.path(MODEL).write_bytes(whole[:size])
        with pytest.raises(MalformedError):
            FORMAT.read(files, {}, Allow())


@given(st.binary(max_size=80), st.integers(0, 2**32 - 1))
def test_no_bytes_make_the_parser_do_anything_but_parse_or_refuse(content, size):
    for announced in (len(content), size):
        with pytest.raises(MalformedError, match="test"):
            catboost_model.parse(memoryview(b"CBM1" + struct.pack("<I", announced) + content), where="test")


@pytest.mark.parametrize("policy", ["SymmetricTree", "Lossguide"])
def test_a_model_as_json_is_described_and_read(policy, tmp_path):
    model = catboost.CatBoostClassifier(**TINY, grow_policy=policy).fit(X, SIDE)
    path = tmp_path / "model.json"
    model.save_model(path, format="json")
    files, entry = files_at(path), {"file": path.name}
    assert FORMAT.detect(files)
    shown = FORMAT.describe(files, entry)
    assert (shown["trees"], shown["objective"], shown["classes"]) == (4, "Logloss", [0, 1])
    assert len(shown["inputs"]) == 3
    assert not list(FORMAT.hazards(files, entry))
    if policy == "SymmetricTree":  # CatBoost itself reads no others
        np.testing.assert_allclose(
            FORMAT.read(files, entry, Allow()).predict(X, "RawFormulaVal"), model.predict(X, "RawFormulaVal")
        )
    raw = json.loads(path.read_text())
    trees_of = raw.get("oblivious_trees") or raw["trees"]
    broken = trees_of[0] if "leaf_values" in trees_of[0] else next(iter(trees_of))
    broken.clear()
    path.write_text(json.dumps(raw))
    with pytest.raises(MalformedError):
        FORMAT.describe(files_at(path), entry)
