"""A trial in a process that was forked from a warm one says what one in a new interpreter says."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from warm_trials import COMMAND

import vitrify

X = np.random.default_rng(0).normal(size=(20, 3))


def estimator():
    from sklearn.linear_model import LinearRegression

    return LinearRegression().fit(X, X[:, 0])


def xgboost():
    import xgboost

    return xgboost.XGBRegressor(n_estimators=2).fit(X, X[:, 0])


def lightgbm():
    import lightgbm

    return lightgbm.LGBMRegressor(n_estimators=2, verbose=-1).fit(X, X[:, 0])


def catboost():
    import catboost

    return catboost.CatBoostRegressor(iterations=2, verbose=0, allow_writing_files=False).fit(X, X[:, 0])


def torch():
    import torch

    return torch.nn.Linear(3, 2)


def keras():
    import keras

    return keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)])


@pytest.fixture
def told(warm, monkeypatch):
    """Return what the last trial said, as the two kinds of process say it."""
    said = []

    def run(command, **options):
        said[:] = [warm.run(command, **options), subprocess.run(command, **options)]  # noqa: PLW1510 (among the options)
        return said[0]

    monkeypatch.setattr("vitrify.artifacts.trial.subprocess", SimpleNamespace(run=run))
    return said


@pytest.mark.slow
@pytest.mark.parametrize("make", [estimator, xgboost, lightgbm, catboost, torch, keras])
def test_it_is_answered_alike_with_the_same_environment(make, told):
    data = X.astype(np.float32) if make in (torch, keras) else X
    vitrify.save(make(), "m", example=data)
    forked, started = told
    assert json.loads(forked.stdout) == json.loads(started.stdout)
    assert forked.returncode == started.returncode == 0
    assert "numpy" in json.loads(forked.stdout)["environment"]["distributions"]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["onnx", "jax-export", "saved-model"])
def test_what_is_converted_is_answered_alike(target, told):
    result = vitrify.convert(vitrify.save(estimator(), "m", example=X), to=target)
    assert result.document.format == target
    forked, started = told
    assert json.loads(forked.stdout) == json.loads(started.stdout)


def test_a_process_that_fails_ends_alike(warm):
    request = json.dumps({"document": {"format": "onnx", "runtime": "onnxruntime"}, "read": True, "files": {}}).encode()
    asked = {"input": request, "capture_output": True, "check": False}
    command = [sys.executable, *COMMAND]
    forked, started = warm.run(command, **asked), subprocess.run(command, **asked)  # noqa: PLW1510 (among the options)
    assert forked.returncode == started.returncode != 0
    assert forked.stderr.splitlines()[-1] == started.stderr.splitlines()[-1]


def test_other_commands_are_run_as_they_are(warm):
    done = warm.run([sys.executable, "-c", "print(6 * 7)"], input=b"null", capture_output=True, check=True)
    assert done.stdout == b"42\n"
