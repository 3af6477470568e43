"""Every built-in format keeps the promises that third parties have to keep."""

from __future__ import annotations

import catboost as cb
import lightgbm as lgb
import numpy as np
import onnx
import torch
import xgboost as xgb
from onnx import helper
from sklearn.linear_model import LinearRegression

from vitrify import containers
from vitrify.formats.catboost import CatBoost
from vitrify.formats.lightgbm import LightGBM
from vitrify.formats.onnx import Onnx
from vitrify.formats.pickle import Pickle
from vitrify.formats.safetensors import Safetensors
from vitrify.formats.skops import Skops
from vitrify.formats.torch_export import TorchExport
from vitrify.formats.xgboost import XGBoost
from vitrify.testing.formats import FormatConformance

X = np.random.default_rng(0).normal(size=(60, 3))
Y = X[:, 0] * 2 - X[:, 1]


def equal_predictions(left, right):
    return np.array_equal(left.predict(X), right.predict(X))


class TestSkops(FormatConformance):
    format = Skops()
    same = staticmethod(equal_predictions)

    def model(self):
        return LinearRegression().fit(X, Y)


class TestPickle(FormatConformance):
    format = Pickle()
    canonical = False  # which objects are shared depends on who made them
    same = staticmethod(equal_predictions)

    def model(self):
        return LinearRegression().fit(X, Y)


class TestXGBoost(FormatConformance):
    format = XGBoost()
    same = staticmethod(equal_predictions)

    def model(self):
        return xgb.XGBRegressor(n_estimators=3).fit(X, Y)


class TestLightGBM(FormatConformance):
    format = LightGBM()
    same = staticmethod(equal_predictions)

    def model(self):
        return lgb.LGBMRegressor(n_estimators=3, verbose=-1, min_child_samples=2).fit(X, Y)


class TestCatBoost(FormatConformance):
    format = CatBoost()
    canonical = False  # its hash tables have another order once they were loaded
    same = staticmethod(equal_predictions)

    def model(self):
        return cb.CatBoostRegressor(iterations=3, verbose=0, allow_writing_files=False).fit(X, Y)


class TestSafetensors(FormatConformance):
    format = Safetensors()

    def model(self):
        return {"weight": torch.arange(12.0).reshape(3, 4), "bias": torch.zeros(0)}

    def same(self, left, right):
        return all(torch.equal(left[name], right[name]) for name in {*left, *right})


class TestOnnx(FormatConformance):
    format = Onnx()

    def model(self):
        value = helper.make_tensor_value_info
        node = helper.make_node("Mul", ["x", "x"], ["y"])
        graph = helper.make_graph([node], "square", [value("x", 1, ["n"])], [value("y", 1, ["n"])])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)

    def same(self, left, right):
        return left.SerializeToString(deterministic=True) == right.SerializeToString(deterministic=True)

    def test_it_is_really_an_onnx_model(self):
        onnx.checker.check_model(self.model())


class TestTorchExport(FormatConformance):
    format = TorchExport()

    def model(self):
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).eval()

    def example(self):
        return containers.example(torch.ones(4, 3))

    def same(self, left, right):
        with torch.inference_mode():
            return torch.equal(left(torch.ones(5, 3)), right(torch.ones(5, 3)))
