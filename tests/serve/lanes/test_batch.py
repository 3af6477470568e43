"""Putting together and taking apart are inverse to each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from vitrify.core.errors import ModelError
from vitrify.core.signature import BATCH, Field
from vitrify.serve.lanes._batch import Joiner, chosen, rejoin, size

WIDE = Field(name="x", dtype="float64", shape=(BATCH, "length", 2, "depth"))
dtypes = st.sampled_from(["f4", "f8", "i8", "u1", "bool", "M8[s]", "m8[ns]", "c8", "U3", "S2", ">i4", "f2"])


@given(data=st.data(), dtype=dtypes, counts=st.lists(st.integers(0, 4), min_size=1, max_size=5))
def test_what_was_joined_is_cut_apart_again(data, dtype, counts):
    field = Field(name="x", dtype="float64", shape=(BATCH, 2))
    joiner = Joiner([field], [field], {})
    pieces = [{"x": data.draw(arrays.arrays(np.dtype(dtype), (count, 2)))} for count in counts]
    joined = joiner.join(pieces)
    joiner.check(joined, sum(counts), [{}] * len(counts))
    for got, piece in zip(joiner.cut(joined, counts, [{}] * len(counts)), pieces, strict=True):
        assert got["x"].dtype == piece["x"].dtype
        assert got["x"].tobytes() == piece["x"].tobytes()


@given(
    shapes=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=5),
    value=st.sampled_from([0.0, -1.0, float("nan")]),
)
def test_what_was_filled_up_is_cut_back_again(shapes, value):
    joiner = Joiner([WIDE], [WIDE], {"x": value})
    pieces = [{"x": np.arange(1.0, 1 + a * b * 2 * c).reshape(a, b, 2, c)} for a, b, c in shapes]
    assert len({joiner.key(piece) for piece in pieces}) == 1
    sizes = [joiner.padding.sizes(piece) for piece in pieces]
    joined = joiner.join(pieces)
    longest = np.max([shape[1:] for shape in shapes], axis=0)
    assert joined["x"].shape == (sum(shape[0] for shape in shapes), longest[0], 2, longest[1])
    filled = joined["x"].size - sum(piece["x"].size for piece in pieces)
    assert np.isclose(joined["x"], value, equal_nan=True).sum() == filled
    joiner.check(joined, len(joined["x"]), sizes)
    for got, piece in zip(joiner.cut(joined, [shape[0] for shape in shapes], sizes), pieces, strict=True):
        np.testing.assert_array_equal(got["x"], piece["x"], strict=True)


@pytest.mark.parametrize(
    "other",
    [
        {"x": np.zeros((1, 3), np.float64)},
        {"x": np.zeros((1, 4), np.float32)},
        {"x": np.zeros((1, 3, 1), np.float32)},
        {"x": np.zeros((1, 3), ">f4")},
        {"x": np.ma.zeros((1, 3), np.float32)},
        {"x": np.zeros((1, 3), np.float32), "y": np.zeros((1, 3), np.float32)},
        {"y": np.zeros((1, 3), np.float32)},
    ],
    ids=lambda value: " ".join(f"{name} {array.dtype.str} {array.shape}" for name, array in value.items()),
)
def test_what_is_not_alike_has_another_key(other):
    joiner = Joiner([WIDE], [], {})
    assert joiner.key(other) != joiner.key({"x": np.zeros((5, 3), np.float32)})


def test_inputs_that_do_not_agree_in_their_rows_have_none():
    field = Field(name="x", dtype="float64")
    joiner = Joiner([field, field.replace(name="y")], [], {})
    assert joiner.rows({"x": np.zeros(2), "y": np.zeros(3)}) is None
    assert joiner.rows({"x": np.zeros(2), "y": np.zeros(())}) is None
    assert joiner.rows({"x": np.zeros(2), "y": np.zeros(2)}) == 2
    assert joiner.rows({}) is None


def test_what_is_chosen_is_a_copy():
    outputs = {"a": np.zeros(2), "b": np.zeros(2)}
    got = chosen(outputs, ("b",))
    outputs["b"][:] = 1
    assert got["b"].tolist() == [0, 0]
    with pytest.raises(ModelError, match=r"no output \['c'\] \(it gave: \['a', 'b'\]\)"):
        chosen(outputs, ("a", "c"))


def test_pieces_that_do_not_fit_together_are_an_error_that_says_their_shapes():
    with pytest.raises(ModelError, match=r"\(1, 2\).*\(1, 3\)"):
        rejoin([{"x": np.zeros((1, 2))}, {"x": np.zeros((1, 3))}])


@pytest.mark.parametrize(
    ("array", "at_least", "at_most"),
    [
        (np.zeros((3, 4)), 96, 96),
        (np.ma.MaskedArray(np.zeros(8), np.zeros(8, bool)), 72, 72),
        (np.ma.MaskedArray(np.zeros(8)), 64, 64),
        (np.array(["x" * 1000, None, b"y" * 500], object), 1524, 1800),
    ],
)
def test_the_bytes_of_inputs_are_those_that_they_hold(array, at_least, at_most):
    assert at_least <= size({"x": array}) <= at_most
