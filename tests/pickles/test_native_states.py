"""States that compiled code takes apart by position are refused before it does."""

from __future__ import annotations

import copyreg
import pickle

import numpy as np
import pandas as pd
import pytest
from pandas._libs.sparse import IntIndex
from scipy import interpolate
from sklearn.metrics import DistanceMetric
from sklearn.neighbors import BallTree, KDTree

from vitrify.core.errors import MalformedError
from vitrify.core.protocols import Allow
from vitrify.pickles.dialect import PLAIN
from vitrify.pickles.machine import load
from vitrify.pickles.older import Older

X = np.random.default_rng(0).random((50, 3))


class Forged:
    """Pickled as an empty instance of a class that gets a state."""

    def __init__(self, cls, state):
        self.reduced = copyreg.__newobj__, (cls,), state

    @property
    def __class__(self):
        """The pickler makes sure that an object is made by its own class."""
        return self.reduced[1][0]

    def __reduce_ex__(self, protocol):
        return self.reduced


def read(value, dialect=PLAIN):
    return load(memoryview(pickle.dumps(value, 4)), where="x", allow=Allow(), dialect=dialect)


def changed(state, place, value):
    return (*state[:place], value, *state[place + 1 :])


@pytest.mark.parametrize("dialect", [PLAIN, Older()])
@pytest.mark.parametrize("kind", [KDTree, BallTree])
@pytest.mark.parametrize("length", [0, 1, 3, 11, 14, 40])
def test_a_tree_with_another_number_of_parts_is_refused(kind, length, dialect):
    state = kind(X).__getstate__()
    with pytest.raises(MalformedError):
        read(Forged(kind, (state * 4)[:length]), dialect)


PARTS = {
    "data of one dimension": (0, X[0].copy()),
    "data that is a list": (0, X.tolist()),
    "an index of two": (1, np.zeros((50, 1), np.int64)),
    "fewer nodes than it counts": (6, 10**6),
    "more levels than any": (5, 10**9),
    "no place in a leaf": (4, 0),
    "a negative count": (8, -1),
    "no distance": (11, None),
    "weights of others": (12, np.ones(3)),
    "a distance of another width": (11, DistanceMetric.get_metric("seuclidean", V=np.ones(2))),
}


@pytest.mark.parametrize(("place", "value"), PARTS.values(), ids=PARTS)
def test_a_tree_whose_parts_do_not_fit_each_other_is_refused(place, value):
    state = KDTree(X, leaf_size=5).__getstate__()
    assert read(Forged(KDTree, state)).query(X[:1], 2)[1].shape == (1, 2)
    with pytest.raises(MalformedError):
        read(Forged(KDTree, changed(state, place, value)))


STATES = {
    "too short": (2.0,),
    "too long": (2.0, np.zeros(1), np.zeros((1, 1)), 1),
    "a list": [2.0, np.zeros(1), np.zeros((1, 1))],
    "a matrix that is not square": (2.0, np.zeros(1), np.zeros((1, 3))),
    "a vector of two dimensions": (2.0, np.zeros((1, 1)), np.zeros((1, 1))),
    "a power that is text": ("2", np.zeros(1), np.zeros((1, 1))),
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_a_distance_with_another_state_is_refused(state):
    cls = type(DistanceMetric.get_metric("mahalanobis", V=np.eye(2)))
    with pytest.raises(MalformedError):
        read(Forged(cls, state))


def test_pieces_of_a_curve_without_a_stretch_between_two_places_are_refused():
    curve = interpolate.CubicSpline(np.arange(5.0), np.arange(5.0))
    slots = {"_c": curve.c, "_x": curve.x, "axis": 0, "extrapolate": True, "_asarray": np.asarray}
    np.testing.assert_array_equal(read(Forged(type(curve), (None, slots)))([1.5]), curve([1.5]))
    for broken in ({"_x": curve.x[:1], "_c": curve.c[:, :0]}, {"_x": curve.x[:3]}, {"_c": curve.c[0]}, {"_c": [1]}):
        with pytest.raises(MalformedError):
            read(Forged(type(curve), (None, slots | broken)))


def test_a_sparse_column_with_fewer_values_than_places_is_refused():
    column = pd.arrays.SparseArray([0, 1, 2])
    assert list(read(column)) == [0, 1, 2]
    with pytest.raises(MalformedError):
        read(Forged(type(column), {**vars(column), "_sparse_values": np.ones(1, np.int64)}))


def test_places_of_a_sparse_column_are_never_taken_unchecked():
    class Unchecked:
        def __reduce__(self):
            return IntIndex, (2, np.array([10**6], np.int32), False)

    with pytest.raises(MalformedError):
        read(Unchecked())
