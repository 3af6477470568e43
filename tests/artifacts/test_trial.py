from __future__ import annotations

import numpy as np
import pytest

from vitrify.artifacts.trial import _compare


def verdict(expected, given):
    report = _compare({"y": np.array(expected)}, {"y": np.array(given)})
    return report.verdict, report.details["bit_equal"]


@pytest.mark.parametrize(
    ("expected", "given", "result"),
    [
        ([1.0, np.nan, np.inf], [1.0, np.nan, np.inf], ("clean", True)),
        ([1.0, 1e6], [1.0, 1e6 + 0.5], ("clean", False)),
        ([1.0, 1e6], [1.0, 1e6 + 2.0], ("found", False)),
        ([np.inf, 1.0], [np.inf, 2.0], ("found", False)),
        ([np.nan, 1.0], [0.0, 1.0], ("found", False)),
        ([1.0], [np.nan], ("found", False)),
        ([1, 2], [1, 3], ("found", False)),
        (["a", "b"], ["a", "b"], ("clean", True)),
        ([1.0, 2.0], [1.0], ("found", False)),
    ],
)
def test_only_the_order_of_additions_may_show(expected, given, result):
    assert verdict(expected, given) == result


def test_an_output_that_is_absent_is_found():
    assert not _compare({"y": np.ones(2)}, {}).passed
