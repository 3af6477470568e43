"""Every built-in runtime keeps the promises that third parties have to keep."""

from __future__ import annotations

import importlib
import sys

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import torch
import xgboost as xgb
from onnx import helper
from sklearn.linear_model import LogisticRegression

from vitrify.formats.lightgbm import LightGBM
from vitrify.formats.onnx import Onnx
from vitrify.formats.python import Python
from vitrify.formats.skops import Skops
from vitrify.formats.torch_export import TorchExport
from vitrify.formats.xgboost import XGBoost
from vitrify.runtimes.callable import CallableRuntime
from vitrify.runtimes.estimator import Estimator
from vitrify.runtimes.onnx_reference import OnnxReference
from vitrify.runtimes.onnxruntime import OnnxRuntime
from vitrify.runtimes.torch import TorchRuntime
from vitrify.runtimes.xgboost import XGBoostRuntime
from vitrify.testing.runtimes import RuntimeConformance

X = np.random.default_rng(0).normal(size=(60, 3))
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])


class TestEstimator(RuntimeConformance):
    runtime, format = Estimator(), Skops()

    def model(self):
        return LogisticRegression().fit(FRAME, np.where(X[:, 0] > 0, "yes", "no"))

    def example(self):
        return FRAME


class TestEstimatorOfABooster(RuntimeConformance):
    runtime, format = Estimator(), LightGBM()

    def model(self):
        return lgb.train({"verbose": -1}, lgb.Dataset(X, X[:, 0]), 3)

    def example(self):
        return X


class TestXGBoost(RuntimeConformance):
    runtime, format = XGBoostRuntime(), XGBoost()

    def model(self):
        return xgb.train({}, xgb.DMatrix(X, X[:, 0]), 3)

    def example(self):
        return X


class TestTorch(RuntimeConformance):
    runtime, format = TorchRuntime(), TorchExport()

    def model(self):
        torch.manual_seed(0)
        return torch.nn.Linear(3, 2).eval()

    def example(self):
        return torch.tensor(X, dtype=torch.float32)


class TestOnnxRuntime(RuntimeConformance):
    runtime, format = OnnxRuntime(), Onnx()

    def model(self):
        value = helper.make_tensor_value_info
        node = helper.make_node("Mul", ["X", "X"], ["y"])
        graph = helper.make_graph([node], "square", [value("X", 11, ["n", 3])], [value("y", 11, ["n", 3])])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)

    def example(self):
        return X


class TestOnnxReference(TestOnnxRuntime):
    runtime = OnnxReference()


class TestCallable(RuntimeConformance):
    runtime, format = CallableRuntime(), Python()

    @pytest.fixture(autouse=True)
    def side_module(self, tmp_path, monkeypatch):
        folder = tmp_path / "side"
        folder.mkdir()
        (folder / "side_conform.py").write_text("def double(X):\n    return X * 2\n")
        monkeypatch.syspath_prepend(str(folder))
        importlib.invalidate_caches()
        yield
        sys.modules.pop("side_conform", None)

    def model(self):
        return importlib.import_module("side_conform").double

    def example(self):
        return X
