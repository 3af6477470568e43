"""Real models against twins in another precision: what must pass, and what must not."""

from __future__ import annotations

import numpy as np
import pytest

from vitrify.checks.parity import Tolerance, compare_sessions


@pytest.fixture
def twin(matrix, session):
    """Return sessions over a prediction in float64 and over the same, rounded or computed another way."""

    def make(width, right, wrong):
        def over(function):
            return lambda a: {"y": function(a["X"]) if len(a["X"]) else np.zeros(0)}

        return session(matrix(width), over(wrong)), session(matrix(width), over(right))

    return make


@pytest.mark.parametrize("kind", ["RandomForestRegressor", "GradientBoostingRegressor"])
def test_predictions_of_a_million_in_float32_pass_on_relative_terms(twin, kind):
    from sklearn import ensemble

    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)) * 1000
    model = getattr(ensemble, kind)(n_estimators=10, random_state=0).fit(x, 1e6 + 40 * x[:, 0])
    candidate, source = twin(3, model.predict, lambda rows: model.predict(rows).astype(np.float32).astype(np.float64))
    report = compare_sessions(candidate, source, {"X": x}, model=model)
    figures = report.details["outputs"]["y"]
    assert report.verdict == "clean", str(report)
    assert figures["absolute"]["max"] > 0.01
    assert figures["tolerance"]["precision"] == "float32"
    assert report.details["rows"]["compared"] > 15_000
    assert compare_sessions(candidate, source, {"X": x}, Tolerance(rtol=0.0, atol=1e-3)).verdict == "found"


@pytest.fixture(scope="module")
def process():
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    x = np.random.default_rng(0).uniform(0, 100, size=(300, 3))
    kernel = ConstantKernel(1e5) * RBF(1000.0)
    return GaussianProcessRegressor(kernel, alpha=1e-6, optimizer=None).fit(x, x[:, 0]), x


def by_hand(model, dtype):
    known, weights = model.X_train_.astype(dtype), model.alpha_.astype(dtype)

    def predict(rows):
        apart = ((rows.astype(dtype)[:, None] - known) ** 2).sum(axis=2) / dtype(1000.0**2)
        return (dtype(1e5) * np.exp(dtype(-0.5) * apart) @ weights).astype(np.float64)

    return predict


def test_a_gaussian_process_in_float32_is_off_and_the_cause_is_named(twin, process):
    model, x = process
    candidate, source = twin(3, model.predict, by_hand(model, np.float32))
    report = compare_sessions(candidate, source, {"X": x}, row_count=2000)
    assert report.verdict == "found"
    assert report.details["outputs"]["y"]["absolute"]["max"] > 1
    assert any("more precision than float32" in finding.remedy for finding in report.findings)


def test_a_gaussian_process_in_float64_passes(twin, process):
    model, x = process
    candidate, source = twin(3, model.predict, by_hand(model, np.float64))
    report = compare_sessions(candidate, source, {"X": x}, row_count=2000)
    assert report.verdict == "clean", str(report)
    assert report.details["outputs"]["y"]["tolerance"]["precision"] == "float64"
