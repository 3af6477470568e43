"""From ONNX to PFA: whole models are proven, and what has no form there is refused."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import torch
import xgboost as xgb
from onnx import TensorProto, helper
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from transforms.convert.pfa_graphs import F32, I64, assert_same, graph, whole

import vitrify
from vitrify.checks.parity import Parity
from vitrify.core.errors import UnsupportedModelError
from vitrify.testing.transforms import TransformConformance
from vitrify.transforms.convert._pfa.write import written

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = (X[:, 0] + X[:, 1] > 0).astype(int)
THREE = np.digitize(X[:, 0], [-0.5, 0.5])
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(colour=RNG.choice(["red", "green", "blue"], 60))


@pytest.fixture
def from_onnx(monkeypatch):
    save = vitrify.save

    def chain(model, name, **options):
        return vitrify.convert(save(model, name, **options), to="onnx", name=name, checks=())

    monkeypatch.setattr(vitrify, "save", chain)


class TestOnnxToPfa(TransformConformance):
    name = "onnx-to-pfa"

    @pytest.fixture(autouse=True)
    def through_onnx(self, from_onnx, monkeypatch):
        convert = vitrify.convert
        monkeypatch.setattr(
            vitrify, "convert", lambda *given, **more: convert(*given, **{"checks": [Parity(rows=300)], **more})
        )

    def model(self):
        return make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)

    def example(self):
        return X

    def impossible(self):
        return KNeighborsClassifier(3).fit(X, Y)


def columns():
    return make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["colour"]), (StandardScaler(), ["a", "b"]))


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3), torch.nn.Softmax(-1)
    ).eval()


MODELS = {
    "text": lambda: (make_pipeline(columns(), LogisticRegression()).fit(FRAME, np.where(Y, "yes", "no")), FRAME),
    "forest": lambda: (RandomForestClassifier(6, random_state=0).fit(X, THREE), X),
    "boosted": lambda: (GradientBoostingClassifier(n_estimators=4).fit(X, THREE), X),
    "xgboost": lambda: (xgb.XGBClassifier(n_estimators=4, n_jobs=1).fit(X, THREE), X),
    "lightgbm": lambda: (lgb.LGBMRegressor(n_estimators=4, verbose=-1, min_child_samples=3).fit(X, X[:, 0]), X),
    "network": lambda: (net(), torch.tensor(X, dtype=torch.float32)),
    "clusters": lambda: (KMeans(3, n_init=1, random_state=0).fit(X), X),
    "bayes": lambda: (GaussianNB().fit(X, THREE), X),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "text" else pytest.mark.slow) for name in MODELS]
)
def test_each_kind_of_model_is_proven_by_parity(name):
    model, example = MODELS[name]()
    saved = vitrify.save(model, name, example=example)
    result = vitrify.convert(saved, to="pfa", checks=[Parity(rows=300)])
    assert (result.document.format, result.document.runtime) == ("pfa", "pfa")


# What is refused


@pytest.mark.parametrize(
    ("nodes", "constants", "words"),
    [
        ([helper.make_node("ReduceSum", ["x", "a"], ["y"])], {"a": whole(0)}, "several rows"),
        ([helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])], {}, "one row to another"),
        ([helper.make_node("Concat", ["x", "x"], ["y"], axis=0)], {}, "one row to another"),
        ([helper.make_node("Reshape", ["x", "s"], ["y"])], {"s": whole(-1)}, "one row to another"),
        ([helper.make_node("Add", ["x", "c"], ["y"])], {"c": np.ones((5, 4), np.float32)}, "constant"),
        ([helper.make_node("MatMul", ["c", "x"], ["y"])], {"c": np.ones((2, 3), np.float32)}, "constant"),
        ([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT16)], {}, "float16"),
        ([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT8)], {}, "int8"),
    ],
)
def test_a_graph_that_mixes_rows_or_has_no_type_there_is_refused(nodes, constants, words):
    with pytest.raises(UnsupportedModelError, match=words):
        written(graph(nodes, [("x", F32, [4])], [("y", F32)], constants))


def test_every_operator_that_is_not_known_is_listed_at_once():
    nodes = [
        helper.make_node("NonMaxSuppression", ["x", "x"], ["a"]),
        helper.make_node("Det", ["x"], ["b"]),
    ]
    with pytest.raises(UnsupportedModelError) as caught:
        written(graph(nodes, [("x", F32, [4, 4])], [("a", I64), ("b", F32)]))
    assert [one.place for one in caught.value.problems] == ["Det", "NonMaxSuppression"]


def test_inputs_that_are_no_rows_are_listed_at_once():
    value = helper.make_tensor_value_info
    inputs = [value("fixed", F32, [1, 3]), value("loose", F32, ["n", "m"]), value("half", TensorProto.FLOAT16, ["n"])]
    node = helper.make_node("Identity", ["loose"], ["y"])
    made = helper.make_graph([node], "g", inputs, [value("y", F32, None)])
    with pytest.raises(UnsupportedModelError) as caught:
        written(helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    assert [one.place for one in caught.value.problems] == ["fixed", "loose", "half"]


def test_names_that_avro_does_not_allow_are_changed_and_told_apart():
    nodes = [helper.make_node("Add", ["a b", "a.b"], ["1:0"])]
    made = written(graph(nodes, [("a b", F32, []), ("a.b", F32, [])], [("1:0", F32)]))
    assert made.inputs == {"a b": "a_b", "a.b": "a_b_2"}
    assert made.outputs == {"1:0": "_1_0"}


def test_only_what_the_answer_needs_is_written():
    nodes = [helper.make_node("Mul", ["x", "c"], ["unused"]), helper.make_node("Neg", ["x"], ["y"])]
    content = written(graph(nodes, [("x", F32, [4])], [("y", F32)], {"c": np.ones((1, 4), np.float32)})).content
    assert "cells" not in content
    assert len(content["action"]) == 3


def test_a_constant_that_is_not_finite_is_computed_for_json_has_none():
    constants = {"c": np.array([[np.inf, -np.inf, np.nan, 1]], np.float32)}
    model = graph([helper.make_node("Add", ["x", "c"], ["y"])], [("x", F32, [4])], [("y", F32)], constants)
    assert_same(model, {"x": np.ones((2, 4), np.float32)})
