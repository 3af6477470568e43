from __future__ import annotations

import numpy as np
import pytest

from vitrify.checks.parity import compare_sessions
from vitrify.core.errors import UsageError
from vitrify.core.signature import Field, Signature
from vitrify.testing.checks import FunctionSession

X = Field(name="x", dtype="float32", shape=("batch", 2))
H = Field(name="h", dtype="float32", shape=("batch", 2))
OUT = Field(name="y", dtype="float32", shape=("batch", 2))
CELL = Signature(inputs=(X, H), outputs=(OUT, Field(name="h_next", dtype="float32", shape=("batch", 2))))
SAMPLES = {name: np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32) for name in ("x", "h")}


def cell(inputs, keep=0.5):
    h = np.tanh(inputs["h"] * np.float32(keep) + inputs["x"])
    return {"y": h + inputs["x"], "h_next": h}


class Remembering(FunctionSession):
    """A session with a memory of its own: the mean of what it saw."""

    def __init__(self, forgets=True, keep=0.5):
        super().__init__(Signature(inputs=(X,), outputs=(OUT,)), self._step)
        self._keep, self._forgets, self._h = keep, forgets, np.float32(0)

    def reset(self):
        if self._forgets:
            self._h = np.float32(0)

    def _step(self, inputs):
        y = inputs["x"] + self._h
        self._h = np.float32(self._keep) * self._h + np.float32(np.nan_to_num(inputs["x"]).clip(-9, 9).mean())
        return {"y": y}


def test_a_state_that_goes_in_and_out_is_compared_over_several_calls():
    one = FunctionSession(CELL, cell)
    report = compare_sessions(one, FunctionSession(CELL, cell), SAMPLES, state={"h": "h_next"}, row_count=300)
    assert report.passed, report
    assert report.details["steps"]["calls"] == 12
    assert report.details["steps"]["absolute"] == {"y": 0.0, "h_next": 0.0}


def test_a_state_that_the_model_does_not_have_is_refused():
    one = FunctionSession(CELL, cell)
    with pytest.raises(UsageError, match=r"c=h_next.*x, h"):
        compare_sessions(one, one, SAMPLES, state={"c": "h_next"})


def test_a_memory_inside_the_model_is_reset_before_every_row_and_compared_over_calls():
    report = compare_sessions(Remembering(), Remembering(), {"x": SAMPLES["x"]}, row_count=300)
    assert report.passed, report
    assert report.details["steps"]["absolute"]["y"] == 0.0


@pytest.mark.parametrize("wrong", [{"keep": 0.6}, {"forgets": False}])
def test_a_memory_that_fades_faster_or_is_not_forgotten_is_found(wrong):
    report = compare_sessions(Remembering(**wrong), Remembering(), {"x": SAMPLES["x"]}, row_count=300)
    assert report.verdict == "found"


def test_a_copy_that_has_lost_the_memory_is_found_by_its_later_calls():
    forgetful = FunctionSession(Signature(inputs=(X,), outputs=(OUT,)), lambda inputs: {"y": inputs["x"]})
    report = compare_sessions(forgetful, Remembering(), {"x": SAMPLES["x"]}, row_count=300)
    assert "step 2 of 12" in str(report)
