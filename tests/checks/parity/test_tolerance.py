from __future__ import annotations

import numpy as np
import pytest

from vitrify.checks.parity import Tolerance
from vitrify.core.errors import UsageError


@pytest.mark.parametrize(
    ("expected", "got", "precision"),
    [
        (np.float64, np.float64, "float64"),
        (np.float64, np.float32, "float32"),
        (np.float32, np.float64, "float32"),
        (np.float16, np.float32, "float16"),
        (np.complex64, np.complex128, "float32"),
        (np.complex128, np.complex128, "float64"),
    ],
)
def test_the_least_precise_type_decides(expected, got, precision):
    values = np.array([[1 / 3], [2 / 3]])
    assert Tolerance().bound(values.astype(expected), values.astype(got), columns=True).precision == precision


def test_values_that_went_through_float32_are_recognised_behind_a_float64_type():
    values = np.array([[1 / 3], [2 / 3]])
    seen = Tolerance().bound(values, values.astype(np.float32).astype(np.float64), columns=True)
    assert (seen.precision, seen.measured) == ("float32", True)


def test_whole_numbers_say_nothing_about_precision():
    values = np.array([[1.0], [2.0]])
    bound = Tolerance().bound(values, values, columns=True)
    assert (bound.precision, bound.measured) == ("float64", False)


def test_the_absolute_part_follows_the_size_of_each_column():
    values = np.array([[1e6, 1e-3], [-1e6, 1e-3]])
    assert Tolerance().bound(values, values, columns=True).atol == pytest.approx([1e-3, 1e-12])


def test_probabilities_share_one_size_however_rare_a_class_is():
    values = np.array([[1 - 1e-9, 1e-9], [1 - 2e-9, 2e-9]])
    assert Tolerance().bound(values, values, columns=True).atol == pytest.approx([1e-9, 1e-9])


def test_missing_and_infinite_values_do_not_count_in_the_size():
    values = np.array([[np.nan], [np.inf], [3.0], [4.0]])
    assert Tolerance().bound(values, values, columns=True).atol == pytest.approx([1e-9 * 2.5])


def test_an_outlier_does_not_widen_the_tolerance_of_the_usual_rows():
    usual = np.linspace(1.0, 2.0, 99)[:, None]
    alone = Tolerance().bound(usual, usual, columns=True)
    values = np.concatenate([usual, [[1e12]]])
    bound = Tolerance().bound(values, values, columns=True)
    assert bound.atol <= 2 * alone.atol
    assert bound.allowed(values[-1:]).item() >= 1e3


def test_a_column_that_is_mostly_zero_is_as_large_as_what_it_holds():
    values = np.zeros((100, 1))
    values[:5] = 3.0
    assert Tolerance().bound(values, values, columns=True).atol == pytest.approx([1e-9 * 3 * 0.05**0.5])


def test_enormous_values_do_not_overflow_the_size():
    values = np.full((3, 1), 1e300)
    assert Tolerance().bound(values, values, columns=True).atol == pytest.approx([1e291])


def test_what_the_user_sets_is_taken_and_the_rest_is_chosen():
    values = np.array([[10.0], [1 / 3]])
    bound = Tolerance(atol=0.5).bound(values, values, columns=True)
    assert (bound.rtol, bound.atol.tolist()) == (1e-9, [0.5])
    assert bound.allowed(np.array([[2.0]])).item() == pytest.approx(0.5)


@pytest.mark.parametrize("options", [{"rtol": -1.0}, {"atol": np.inf}, {"rtol": np.nan}])
def test_what_bounds_nothing_is_refused(options):
    with pytest.raises(UsageError, match="not a tolerance"):
        Tolerance(**options)


def test_an_output_that_is_no_table_is_as_large_as_its_largest_element():
    values = np.ones((5, 3, 2)) * [1.0, 7.0]
    assert Tolerance().bound(values, values, columns=False).atol == pytest.approx([7e-9])


def test_a_row_beyond_the_typical_size_is_held_to_its_largest_element():
    samples = np.array([[1.0, 100.0], [-1.0, -100.0]])
    bound = Tolerance().bound(samples, None, columns=True)
    usual, beyond = bound.allowed(np.array([[1.0, 0.0], [1e6, 0.0]]))
    np.testing.assert_allclose(usual, [2e-9, 1e-7])
    np.testing.assert_allclose(beyond, [2e-3, 1e-1])
    fixed = Tolerance(rtol=1e-9, atol=1e-9).bound(samples, None, columns=True)
    np.testing.assert_allclose(fixed.allowed(np.array([[1e6, 0.0]])), [[1e-3 + 1e-9, 1e-9]])


def test_a_column_that_is_zero_in_all_samples_takes_the_smallest_size_of_the_others():
    expected = np.array([[0.0, 2.0, 300.0], [0.0, 2.0, 300.0]], np.float32)
    bound = Tolerance().bound(expected, expected, columns=True)
    assert bound.atol.tolist() == pytest.approx([2e-5, 2e-5, 3e-3], rel=1e-4)
    assert Tolerance().bound(np.zeros((3, 2), np.float32), None, columns=True).atol.tolist() == [0.0, 0.0]
