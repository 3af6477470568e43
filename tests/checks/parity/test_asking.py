from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.checks.parity.asking import ask, per_row
from vitrify.core.errors import ModelError, StoreError
from vitrify.core.signature import Field, Signature
from vitrify.testing.checks import FunctionSession

SIGNATURE = Signature(inputs=(Field(name="x", dtype="int64"),))


def refusing(bad):
    def run(arrays):
        if np.isin(arrays["x"], list(bad)).any():
            raise ModelError("bad row")
        return {"y": arrays["x"] * 2}

    return FunctionSession(SIGNATURE, run)


@given(st.sets(st.integers(0, 199), max_size=12))
def test_exactly_the_refused_rows_are_left_out_and_the_rest_stays_in_order(bad):
    answer = ask(refusing(bad), {"x": np.arange(200)}, rowwise=True)
    good = [i for i in range(200) if i not in bad]
    assert answer.accepted.tolist() == good
    assert answer.outputs["y"].tolist() == [2 * i for i in good]
    assert bool(answer.refusal) == bool(bad)


def test_the_search_is_bounded_and_what_it_did_not_reach_counts_as_refused():
    calls = []

    def run(arrays):
        calls.append(len(arrays["x"]))
        if (arrays["x"] % 2).any():
            raise ModelError("odd")
        return {"y": arrays["x"]}

    answer = ask(FunctionSession(SIGNATURE, run), {"x": np.arange(5000)}, rowwise=True)
    assert len(calls) == 200
    assert all(row % 2 == 0 for row in answer.accepted)


def test_an_error_that_is_no_refusal_is_not_swallowed():
    def run(arrays):
        raise StoreError("disk gone")

    with pytest.raises(StoreError):
        ask(FunctionSession(SIGNATURE, run), {"x": np.arange(3)}, rowwise=True)


def test_what_libraries_warn_about_does_not_become_a_refusal():
    def run(arrays):
        warnings.warn("unknown category", UserWarning, stacklevel=1)
        return {"y": np.log(arrays["x"].astype(np.float64))}

    answer = ask(FunctionSession(SIGNATURE, run), {"x": np.array([-1, 0, 1])}, rowwise=True)
    assert answer.accepted.tolist() == [0, 1, 2]


def test_masked_answers_stay_masked_when_batches_were_split():
    def run(arrays):
        if (arrays["x"] == 3).any():
            raise ModelError("three")
        return {"y": np.ma.MaskedArray(arrays["x"], arrays["x"] % 2 == 0)}

    answer = ask(FunctionSession(SIGNATURE, run), {"x": np.arange(6)}, rowwise=True)
    assert answer.outputs["y"].tolist() == [None, 1, None, None, 5]


def test_parts_of_different_widths_are_refused_with_the_reason():
    def run(arrays):
        if (arrays["x"] == 0).any():
            raise ModelError("zero")
        return {"y": np.zeros((len(arrays["x"]), len(arrays["x"])))}

    answer = ask(FunctionSession(SIGNATURE, run), {"x": np.arange(8)}, rowwise=True)
    assert answer.outputs is None
    assert "has shape" in answer.refusal


@pytest.mark.parametrize(
    ("shape", "rowwise", "lines"),
    [
        ((4, 2, 3), True, (4, 6)),
        ((4,), True, (4, 1)),
        ((0, 3), True, (0, 3)),
        ((4, 2), False, (1, 8)),
        ((), False, (1, 1)),
    ],
)
def test_outputs_become_lines(shape, rowwise, lines):
    assert per_row(np.zeros(shape), rowwise=rowwise).shape == lines
