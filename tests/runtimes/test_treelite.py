"""The runtime of Treelite: what it feeds the trees, and what it makes of their answer."""

from __future__ import annotations

import numpy as np
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier
from treelite import frontend
from treelite.sklearn import import_model

import vitrify
from vitrify.core.document import SCHEMA, Document
from vitrify.core.errors import MalformedError
from vitrify.core.signature import Field, Signature
from vitrify.formats.treelite import Treelite as TreeliteFormat
from vitrify.runtimes.treelite import Treelite
from vitrify.testing.runtimes import RuntimeConformance

X = np.random.default_rng(0).normal(size=(60, 3))
Y = X[:, 0] - X[:, 1]


def booster():
    return xgb.XGBRegressor(n_estimators=4, n_jobs=1).fit(X, Y)


class TestTreelite(RuntimeConformance):
    runtime = Treelite()
    format = TreeliteFormat()

    def model(self):
        return frontend.from_xgboost(booster().get_booster())

    def example(self):
        return X


def test_a_file_of_its_own_needs_no_example(tmp_path):
    path = tmp_path / "trees.tl"
    path.write_bytes(frontend.from_xgboost(booster().get_booster()).serialize_bytes())
    artifact = vitrify.pack(path, "trees")
    assert str(artifact.signature.inputs[0]) == "X: float32?[batch, 3]"
    assert str(artifact.signature.outputs[0]) == "prediction: float32[batch]"
    rows = X.astype(np.float32)
    np.testing.assert_allclose(
        vitrify.load("trees").run({"X": rows})["prediction"], booster().predict(rows), rtol=1e-6, atol=1e-6
    )


def test_a_model_of_several_classes_answers_with_a_column_each():
    model = import_model(RandomForestClassifier(3).fit(X, np.digitize(Y, [-0.5, 0.5])))
    assert Treelite().signature(model).outputs[0].shape == ("batch", 3)


def test_inputs_that_are_not_the_models_features_are_refused():
    signature = Signature(inputs=(Field(name="X", dtype="float64", shape=("batch", 4)),))
    document = Document(schema=SCHEMA, format="treelite", runtime="treelite", entry={}, signature=signature)
    with pytest.raises(MalformedError, match="3 feature"):
        Treelite().wrap(frontend.from_xgboost(booster().get_booster()), document)
