from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vitrify.checks.parity import compare_sessions
from vitrify.checks.parity.nested import Flat, widths
from vitrify.core.signature import Field, Signature
from vitrify.testing.checks import FunctionSession

SIGNATURE = Signature(inputs=(Field(name="X", dtype="float64", shape=("batch", 3)),))


def objects(items):
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def boxes(inputs, shift=0.0, name="cat", more=0):
    """Return for each row as many boxes as its first value says: a map of text, numbers and an array."""
    rows = []
    for row in np.asarray(inputs["X"]):
        count = int(abs(np.nan_to_num(row[0], posinf=3, neginf=3))) % 4 + more
        rows.append([{"label": name, "score": float(row[1]) + shift, "box": np.arange(4.0) + row[2]}] * count)
    return {"boxes": objects(rows)}


def report(candidate):
    samples = {"X": np.random.default_rng(0).normal(scale=3, size=(40, 3))}
    return compare_sessions(
        FunctionSession(SIGNATURE, candidate), FunctionSession(SIGNATURE, boxes), samples, row_count=400
    )


def test_ragged_lists_of_maps_are_compared_value_by_value():
    found = report(boxes)
    assert found.passed, found
    assert set(found.details["outputs"]) == {"boxes[structure]", "boxes[values]"}


def test_a_float_inside_a_map_that_is_off_is_found():
    found = report(lambda inputs: boxes(inputs, shift=1e-3))
    assert found.verdict == "found"
    assert "boxes[values]" in str(found)


def test_rounding_inside_a_map_is_allowed():
    assert report(lambda inputs: boxes(inputs, shift=1e-14)).passed


def test_another_label_or_one_box_more_is_found():
    for wrong in ({"name": "dog"}, {"more": 1}):
        found = report(lambda inputs, wrong=wrong: boxes(inputs, **wrong))
        assert "boxes[structure]" in str(found)


def test_plain_outputs_stay_as_they_are():
    assert widths({"a": np.ones(3), "text": objects(["x", None, 1.5])}) == {}


trees = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=2), st.floats(-1e6, 1e6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.lists(st.floats(-9, 9), max_size=3).map(np.array),
    ),
    max_leaves=8,
)


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@given(st.lists(trees, min_size=1, max_size=3), st.lists(trees, min_size=1, max_size=3))
def test_two_answers_come_out_the_same_only_if_they_are(left, right):
    left, right = [[item] for item in left], [[item] for item in right]
    flat = []
    for items in (left, right):
        session = FunctionSession(SIGNATURE, lambda _, items=items: {"out": objects(items)})
        flat.append(Flat(session, {"out": 64}).run({"X": np.zeros((1, 3))}))
    equal = all(np.array_equal(flat[0][name], flat[1][name]) for name in flat[0])
    assert equal == (len(left) == len(right) and all(map(same, left, right)))
