from __future__ import annotations

import numpy as np
import pytest

from vitrify.checks.parity import compare_sessions
from vitrify.core.signature import Field, Signature
from vitrify.testing.checks import FunctionSession

SIGNATURE = Signature(inputs=(Field(name="X", dtype="float64", shape=("batch", 2)),))
SAMPLES = {"X": np.random.default_rng(0).normal(size=(20, 2))}


def drawing(seed, scale=1.0, label="ab", p=0.5):
    rng = np.random.default_rng(seed)

    def run(inputs):
        X = inputs["X"]
        labels = np.where(rng.random(len(X)) < p, label[0], label[1]).astype(object)
        return {"noisy": X + scale * rng.normal(size=X.shape), "label": labels}

    return FunctionSession(SIGNATURE, run)


def test_two_models_that_draw_from_the_same_distribution_are_the_same():
    report = compare_sessions(drawing(1), drawing(2), SAMPLES, stochastic=True)
    assert report.passed, report
    assert report.details["distribution"]["draws"] == 300
    assert report.details["distribution"]["outputs"]["noisy"]["elements"] == 16


@pytest.mark.parametrize("wrong", [{"scale": 2.0}, {"label": "ac"}, {"p": 0.9}])
def test_another_spread_label_or_share_is_found(wrong):
    assert compare_sessions(drawing(1, **wrong), drawing(2), SAMPLES, stochastic=True).verdict == "found"


def test_a_model_that_draws_is_refused_unless_that_was_said():
    report = compare_sessions(drawing(1), drawing(2), SAMPLES)
    assert "different answers" in str(report)
