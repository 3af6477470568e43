"""Small arrays in pickles, read from their inert form."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from vitrify.formats._pickled.arrays import values
from vitrify.pickles.machine import audit


def root(value, protocol=4):
    return audit(memoryview(pickle.dumps(value, protocol=protocol)), where="x").root


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "array",
    [
        np.array(["no", "é", "√"]),
        np.array(["no", 1, None, 2.5], dtype=object),
        np.array([1, -2, 3]),
        np.array([1, 2], dtype=">i2"),
        np.array([True, False]),
        np.array([b"a", b"bc"]),
        np.array([]),
    ],
    ids=lambda array: array.dtype.str,
)
def test_the_items_are_those_of_the_array(array, protocol):
    def shown(one):
        return one.decode() if isinstance(one, bytes) else "NoneType" if one is None else one

    assert values(root(array, protocol)) == [shown(one) for one in array.tolist()]


@pytest.mark.parametrize(
    "value", [np.zeros((2, 2)), np.zeros(20_000), np.zeros(2, "M8[D]"), {"a": 1}, [1], None, np.float64(1)], ids=str
)
def test_what_is_no_short_list_of_plain_values_is_left_out(value):
    assert values(root(value)) is None
