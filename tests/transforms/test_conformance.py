"""Every built-in transform keeps the promises that third parties have to keep."""

from __future__ import annotations

import catboost as cb
import lightgbm as lgb
import numpy as np
import pytest
import torch
import xgboost as xgb
from sklearn.decomposition import MiniBatchNMF
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from vitrify.testing.transforms import TransformConformance

X = np.random.default_rng(0).normal(size=(80, 3))
Y = np.where(X[:, 0] > 0, "yes", "no")

pytestmark = pytest.mark.slow


class TestSklearnToOnnx(TransformConformance):
    name = "skops-to-onnx"

    def model(self):
        return make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)).fit(X, Y)

    def example(self):
        return X

    def impossible(self):
        return make_pipeline(MinMaxScaler(), MiniBatchNMF(3, tol=0), MiniBatchNMF(2, tol=0), LogisticRegression()).fit(
            X, Y
        )


class TestLogisticToOnnx(TransformConformance):
    name = "skops-to-onnx"

    def model(self):
        return LogisticRegression().fit(X, Y)

    def example(self):
        return X


class TestXGBoostToOnnx(TransformConformance):
    name = "xgboost-to-onnx"

    def model(self):
        return xgb.XGBRegressor(n_estimators=4).fit(X, X[:, 0])

    def example(self):
        return X


class TestLightGBMToOnnx(TransformConformance):
    name = "lightgbm-to-onnx"

    def model(self):
        return lgb.LGBMClassifier(n_estimators=4, verbose=-1).fit(X, Y)

    def example(self):
        return X


class TestCatBoostToOnnx(TransformConformance):
    name = "catboost-to-onnx"

    def model(self):
        return cb.CatBoostClassifier(iterations=4, verbose=0, allow_writing_files=False).fit(X, Y)

    def example(self):
        return X


class TestTorchToOnnx(TransformConformance):
    name = "torch-export-to-onnx"

    def model(self):
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).eval()

    def example(self):
        return torch.tensor(X[:4], dtype=torch.float32)
