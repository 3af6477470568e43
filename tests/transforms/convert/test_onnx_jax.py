"""From ONNX to JAX: estimators and networks predict on JAX what they predict in ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import vitrify
from vitrify.core.errors import UnsupportedModelError
from vitrify.testing.transforms import TransformConformance

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = (X[:, 0] + X[:, 1] > 0).astype(int)


@pytest.fixture
def from_onnx(monkeypatch):
    save = vitrify.save

    def chain(model, name, **options):
        source = save(model, name, **options)
        return vitrify.convert(source, to="onnx", name=name, checks=())

    monkeypatch.setattr(vitrify, "save", chain)


class TestOnnxToJax(TransformConformance):
    name = "onnx-to-jax-export"

    @pytest.fixture(autouse=True)
    def through_onnx(self, from_onnx):
        pass

    def model(self):
        return make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)

    def example(self):
        return X


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2)
        )
        self.head = torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Linear(64, 8), torch.nn.GELU(), torch.nn.LayerNorm(8)
        )

    def forward(self, x):
        return torch.softmax(self.head(self.body(x)), -1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "example"),
    [
        (RandomForestClassifier(8, max_depth=4, random_state=0).fit(X, Y), X),
        (xgb.XGBClassifier(n_estimators=8, max_depth=3).fit(X, Y), X),
        (Net().eval(), torch.tensor(RNG.normal(size=(3, 1, 8, 8)), dtype=torch.float32)),
    ],
    ids=["forest", "xgboost", "torch"],
)
def test_each_kind_is_proven(model, example, from_onnx):
    vitrify.save(model, "source", example=example)
    result = vitrify.convert("source", to="jax-export")
    assert result.document.runtime == "jax"


def test_labels_that_are_text_are_refused(from_onnx):
    vitrify.save(LogisticRegression().fit(X, np.where(Y, "yes", "no")), "text", example=X)
    with pytest.raises(UnsupportedModelError) as caught:
        vitrify.convert("text", to="jax-export")
    assert caught.value.problems
