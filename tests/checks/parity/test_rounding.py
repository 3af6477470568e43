from __future__ import annotations

import numpy as np
import pytest

from vitrify.checks.parity import Tolerance, compare_sessions
from vitrify.checks.parity.rounding import widened

WEIGHTS = np.random.default_rng(0).normal(size=(600, 2)).astype(np.float32)


def dense(add):
    """A float32 layer whose sums are made by ``add``: the products of a row, to one number an output."""
    return lambda x: {"y": np.stack([add(x["X"] * column) for column in WEIGHTS.T], axis=1)}


def one_by_one(products):
    return np.cumsum(products, axis=1, dtype=np.float32)[:, -1]


def pairwise(products):
    return products.sum(axis=1)


def by_batch(products):
    return one_by_one(products) if len(products) == 1 else pairwise(products)


@pytest.fixture
def samples():
    return {"X": np.random.default_rng(1).normal(size=(20, 600)).astype(np.float32)}


def bounds_of(source, samples, tolerance=None):
    expected = source.run(samples)
    bound = (tolerance or Tolerance()).bound(expected["y"], None, columns=True)
    return bound, widened(source, samples, expected, {"y": bound})["y"]


def test_a_source_whose_rows_round_otherwise_when_alone_gets_room_for_that_and_no_more(matrix, session, samples):
    source = session(matrix(600, "float32"), dense(by_batch))
    before, after = bounds_of(source, samples)
    assert after.rounding > 0
    assert (after.atol >= before.atol).all()
    assert (after.atol <= 10 * before.atol).all()
    assert after.details()["rounding"] == after.rounding


def test_a_copy_that_adds_in_another_order_is_the_same_model(matrix, session, samples):
    source = session(matrix(600, "float32"), dense(by_batch))
    copy = session(matrix(600, "float32"), dense(one_by_one))
    assert compare_sessions(copy, source, samples, row_count=300).passed


def test_a_source_that_answers_rows_alone_as_among_others_gets_no_room(matrix, session, samples):
    before, after = bounds_of(session(matrix(600, "float32"), dense(one_by_one)), samples)
    assert after.rounding == 0
    assert (after.atol == before.atol).all()


def test_a_model_that_depends_on_its_batch_is_not_forgiven_for_it(matrix, session, samples):
    source = session(matrix(600, "float32"), lambda x: {"y": x["X"] - x["X"].mean(axis=0)})
    before, after = bounds_of(source, samples)
    assert (after.atol <= 10 * before.atol).all()
    shifted = session(matrix(600, "float32"), lambda x: {"y": x["X"] - x["X"].mean(axis=0) + np.float32(0.01)})
    assert not compare_sessions(shifted, source, samples, row_count=300).passed


def test_what_the_user_sets_stays(matrix, session, samples):
    source = session(matrix(600, "float32"), dense(by_batch))
    before, after = bounds_of(source, samples, Tolerance(rtol=1e-7, atol=0.0))
    assert after is before
