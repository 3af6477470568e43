"""Treelite: a checkpoint is read and checked without the library, and damaged numbers never reach it."""

from __future__ import annotations

import contextlib
import struct

import lightgbm as lgb
import numpy as np
import pytest
import treelite
import xgboost as xgb
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from treelite import frontend, gtil
from treelite.sklearn import import_model

from vitrify.core.errors import MalformedError
from vitrify.core.protocols import Allow
from vitrify.formats._boosters import treelite_model
from vitrify.formats.treelite import Treelite
from vitrify.inspection.identify import files_at
from vitrify.testing.formats import FileConformance, FormatConformance

FORMAT = Treelite()
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(80, 3))
SUM = X[:, 0] - X[:, 1]
CLASSES = np.digitize(SUM, [-0.5, 0.5])


def regressor():
    return frontend.from_xgboost(xgb.XGBRegressor(n_estimators=3, n_jobs=1).fit(X, SUM).get_booster())


def categories():
    rows = np.column_stack([RANDOM.integers(0, 40, 80), X[:, 0]])
    model = lgb.LGBMRegressor(n_estimators=3, verbose=-1, min_child_samples=2, min_data_per_group=1, cat_smooth=0)
    target = np.isin(rows[:, 0], [3, 17, 35]) * 5.0 + rows[:, 1]
    return frontend.from_lightgbm(model.fit(rows, target, categorical_feature=[0]).booster_)


def vectors():
    return import_model(RandomForestClassifier(3, max_depth=3).fit(X, CLASSES))


def classes():
    return import_model(GradientBoostingClassifier(n_estimators=2).fit(X, CLASSES))


def targets():
    return import_model(RandomForestRegressor(2, max_depth=3).fit(X, np.stack([SUM, -SUM], axis=1)))


MODELS = {
    "regressor": regressor,
    "categories": categories,
    "vectors": vectors,
    "classes": classes,
    "targets": targets,
}


def written(make):
    def write(folder):
        path = folder / "trees.tl"
        path.write_bytes(make().serialize_bytes())
        return path

    return write


class TestFiles(FileConformance):
    format = FORMAT
    samples = {name: written(make) for name, make in MODELS.items()}


class TestLive(FormatConformance):
    format = FORMAT

    def model(self):
        return regressor()

    def same(self, left, right):
        return np.array_equal(gtil.predict(left, X), gtil.predict(right, X))


def test_a_checkpoint_says_what_it_is(tmp_path):
    files = files_at(written(vectors)(tmp_path))
    facts = FORMAT.describe(files, {})
    assert facts["versions"] == {"treelite": treelite.__version__}
    assert (facts["trees"], facts["task"], facts["objective"]) == (3, "multi-class classifier", "identity_multiclass")
    assert facts["inputs"] == [{"name": "X", "type": "float64", "shape": [None, 3]}]
    assert facts["outputs"] == [{"name": "prediction", "type": "float64", "shape": [None, 1, 3]}]


def test_every_number_that_treelite_follows_is_checked():
    """Each four bytes of the file become huge, or minus one: what is still read predicts as before or not at all."""
    data = regressor().serialize_bytes()
    accepted = 0
    for place in range(0, len(data) - 4, 4):
        for value in (0x7FFFFFF0, -1):
            changed = data[:place] + struct.pack("<i", value) + data[place + 4 :]
            try:
                found = treelite_model.parse(memoryview(changed), where="model.tl")
            except MalformedError:
                continue
            accepted += 1
            if found.features == 3:
                with contextlib.suppress(treelite.TreeliteError):
                    gtil.predict(treelite.Model.deserialize_bytes(changed), X)
    assert accepted


@pytest.mark.parametrize("name", MODELS)
def test_no_truncation_is_read(name):
    data = MODELS[name]().serialize_bytes()
    for end in range(0, len(data), 97):
        with pytest.raises(MalformedError):
            treelite_model.parse(memoryview(data[:end]), where="model.tl")


def test_a_cycle_is_refused_before_treelite_sees_it(tmp_path):
    path = tmp_path / "m.tl"
    model = regressor()
    nodes = model.get_tree_accessor(0)
    children = np.array(nodes.get_field("cleft"))
    children[0] = 0
    nodes.set_field("cleft", children)
    path.write_bytes(model.serialize_bytes())
    with pytest.raises(MalformedError, match="more than one way"):
        FORMAT.read(files_at(path), {"file": "m.tl"}, Allow())


def test_an_unknown_function_of_the_sum_is_a_finding(tmp_path):
    model = regressor()
    model.get_header_accessor().set_field("postprocessor", "my_own")
    path = tmp_path / "m.tl"
    path.write_bytes(model.serialize_bytes())
    (finding,) = FORMAT.hazards(files_at(path), {"file": "m.tl"})
    assert finding.verdict == "not checked"
    assert finding.subject == "my_own"
