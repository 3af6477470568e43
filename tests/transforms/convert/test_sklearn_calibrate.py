"""Calibrated probabilities and moved thresholds: every method, of scores and of probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import calibration, ensemble, isotonic, linear_model, model_selection, svm
from transforms.convert.proving import assert_proven

PARTS = {
    "scores": svm.LinearSVC(dual=False),
    "probabilities": ensemble.RandomForestClassifier(5, max_depth=3, random_state=0),
}


@pytest.fixture(scope="module")
def rows(x):
    return x / [1, 10, 100, 0.01]


@pytest.fixture(scope="module")
def labels_of(binary, three):
    return {"binary": binary, "three": three}


@pytest.mark.parametrize("target", ["binary", "three"])
@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
def test_calibration_is_proven(method, target, rows, labels_of, tmp_path):
    for name, part in PARTS.items():
        model = calibration.CalibratedClassifierCV(part, method=method, cv=2, ensemble=name == "scores")
        (tmp_path / name).mkdir()
        assert_proven(model.fit(rows, labels_of[target]), rows, tmp_path / name, rows=400)


THRESHOLDS = {
    "of a probability": model_selection.FixedThresholdClassifier(linear_model.LogisticRegression(), threshold=0.3),
    "of the first class": model_selection.FixedThresholdClassifier(
        linear_model.LogisticRegression(), threshold=0.3, pos_label="no"
    ),
    "of a score": model_selection.FixedThresholdClassifier(svm.SVC(), threshold=-0.2),
    "of the first class's score": model_selection.FixedThresholdClassifier(svm.SVC(), threshold=-0.2, pos_label="no"),
    "by itself": model_selection.FixedThresholdClassifier(svm.SVC()),
    "tuned": model_selection.TunedThresholdClassifierCV(
        linear_model.LogisticRegression(), scoring="balanced_accuracy", cv=2
    ),
}


@pytest.mark.parametrize("name", THRESHOLDS)
def test_a_threshold_is_proven(name, rows, binary, tmp_path):
    model = THRESHOLDS[name]
    if getattr(model, "pos_label", None) is None and name != "tuned":
        model.set_params(pos_label="yes")
    assert_proven(model.fit(rows, binary), rows, tmp_path, rows=400)


@pytest.mark.parametrize("out_of_bounds", ["clip", "nan"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_isotonic_regression_is_proven(out_of_bounds, dtype, rows, real, tmp_path):
    x = rows[:, 0].astype(dtype)
    assert_proven(isotonic.IsotonicRegression(out_of_bounds=out_of_bounds).fit(x, real.astype(dtype)), x, tmp_path)


def test_an_isotonic_regression_that_raises_is_refused(rows, real, problems):
    model = isotonic.IsotonicRegression(out_of_bounds="raise").fit(rows[:, 0], real)
    (problem,) = problems(model, rows[:, 0])
    assert "clip" in problem.remedy
