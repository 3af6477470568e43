from __future__ import annotations

import numpy as np
import pytest

from vitrify.checks.parity.measure import differ, errors
from vitrify.checks.parity.tolerance import Bound

BOUND = Bound("float64", "test", 1e-6, np.array([1e-3]))


def column(*values, dtype=np.float64):
    return np.array(values, dtype).reshape(-1, 1)


def test_each_error_of_a_row_is_right():
    found = errors(column(10.0, 2.5), column(10.0, 2.0), BOUND)
    assert found.absolute.tolist() == [0.0, 0.5]
    assert found.relative.tolist() == [0.0, 0.25]
    assert found.ulp.tolist() == [0.0, 0.5 / np.spacing(2.0)]
    assert found.scaled == pytest.approx([0.0, 0.5 / (2.0 + 1e3)])
    assert found.excess == pytest.approx([0.0, 0.5 / (1e-3 + 2e-6)])


def test_the_worst_element_is_the_rows_error():
    bound = Bound("float64", "test", 0.0, np.array([1.0, 1.0]))
    assert errors(np.array([[1.0, 5.0]]), np.array([[2.0, 1.0]]), bound).absolute.tolist() == [4.0]


@pytest.mark.parametrize(
    ("got", "expected", "unlike"),
    [
        (np.nan, np.nan, False),
        (np.inf, np.inf, False),
        (np.nan, 1.0, True),
        (1.0, np.nan, True),
        (np.inf, -np.inf, True),
        (np.inf, np.nan, True),
        (np.inf, 1e300, True),
        (-0.0, 0.0, False),
    ],
)
def test_what_is_not_finite_has_to_be_in_the_same_place(got, expected, unlike):
    found = errors(column(got), column(expected), BOUND)
    assert found.unlike.tolist() == [unlike]
    assert (found.excess > 1).tolist() == [unlike]


def test_infinity_is_what_a_number_too_large_for_float32_becomes():
    bound = Bound("float32", "test", 1e-5, np.array([0.0]))
    assert errors(column(np.inf, -np.inf), column(1e300, 1e300), bound).unlike.tolist() == [False, True]


def test_a_tolerance_of_zero_allows_equality_only():
    bound = Bound("float64", "test", 0.0, np.array([0.0]))
    assert errors(column(1.0, np.nextafter(1.0, 2.0), 0.0), column(1.0, 1.0, 0.0), bound).excess.tolist() == [
        0.0,
        np.inf,
        0.0,
    ]


def test_complex_numbers_are_as_far_apart_as_their_points():
    found = errors(column(3 + 4j, dtype=np.complex128), column(0j, dtype=np.complex128), BOUND)
    assert found.absolute.tolist() == [5.0]


@pytest.mark.parametrize("shape", [(0, 1), (3, 0), (0, 0)])
def test_nothing_is_never_wrong(shape):
    bound = Bound("float64", "test", 1e-6, np.zeros(shape[1]))
    assert not errors(np.zeros(shape), np.zeros(shape), bound).excess.any()
    assert not differ(np.zeros(shape, int), np.zeros(shape, int)).any()


def test_none_nan_and_text_are_three_things():
    a = column(None, float("nan"), "nan", "a", dtype=object)
    assert differ(a, a).tolist() == [False] * 4
    assert differ(a, np.roll(a, 1)).all()
    assert differ(column("1", dtype=object), column(1, dtype=object)).tolist() == [True]


def test_text_of_fixed_width_equals_text():
    assert not differ(column("ab", "c", dtype="U2"), column("ab", "c", dtype=object)).any()


def test_masked_places_have_to_agree_and_hide_their_values():
    a = np.ma.MaskedArray([[1], [2], [3]], [[False], [True], [False]])
    b = np.ma.MaskedArray([[1], [9], [3]], [[False], [True], [True]])
    assert differ(a, b).tolist() == [False, False, True]


def test_large_integers_are_not_compared_as_floats():
    assert differ(column(2**53, dtype=np.int64), column(2**53 + 1, dtype=np.int64)).tolist() == [True]


def test_times_that_are_missing_are_equal_to_each_other_only():
    a = column("NaT", "2020-01-01", dtype="datetime64[s]")
    assert differ(a, a).tolist() == [False, False]
    assert differ(a, a[::-1]).tolist() == [True, True]
