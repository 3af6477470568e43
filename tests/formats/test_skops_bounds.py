"""Models whose numbers compiled code would follow out of bounds: refused when they are read."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.neighbors import BallTree, KDTree
from sklearn.preprocessing import SplineTransformer
from sklearn.svm import SVC, SVR, OneClassSVM
from sklearn.tree import DecisionTreeClassifier

from vitrify.core.errors import MalformedError
from vitrify.core.protocols import Allow
from vitrify.formats.skops import Skops

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(int)


@pytest.fixture
def copied(files_and_sink):
    def copy(model):
        place = files_and_sink()
        written = Skops().write(model, place.sink, None)
        return Skops().read(place.files(), written.entry, Allow())

    return copy


@pytest.mark.parametrize("cls", [SVC, SVR, OneClassSVM])
@pytest.mark.parametrize("count", [10**6, -1])
def test_a_support_vector_machine_whose_counts_do_not_fit_is_refused(copied, cls, count):
    model = cls().fit(X, Y)
    np.testing.assert_array_equal(copied(model).predict(X), model.predict(X))
    model._n_support[0] = count
    with pytest.raises(MalformedError, match="point outside"):
        copied(model)


@pytest.mark.parametrize("attribute", ["support_vectors_", "_dual_coef_", "_intercept_"])
def test_a_support_vector_machine_whose_arrays_are_too_short_is_refused(copied, attribute):
    model = SVC().fit(X, Y)
    setattr(model, attribute, getattr(model, attribute)[..., :-1])
    with pytest.raises(MalformedError, match="point outside"):
        copied(model)


@pytest.mark.parametrize("cls", [KDTree, BallTree])
def test_a_neighbour_tree_whose_positions_point_outside_is_refused(copied, cls):
    tree = cls(X, leaf_size=5)
    np.testing.assert_array_equal(copied(tree).query(X, 2)[1], tree.query(X, 2)[1])
    state = list(tree.__getstate__())
    state[1] = state[1] + 10**6
    tree.__setstate__(tuple(state))
    with pytest.raises(MalformedError, match="point outside"):
        copied(tree)


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(),
        RandomForestClassifier(2),
        GradientBoostingClassifier(n_estimators=2),
        HistGradientBoostingClassifier(max_iter=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_model_that_lets_in_fewer_features_than_its_trees_use_is_refused(copied, model):
    model.fit(X[:, ::-1], Y)
    model.n_features_in_ = 1
    with pytest.raises(MalformedError, match="point outside"):
        copied(model)


def test_a_spline_with_fewer_coefficients_than_its_knots_need_is_refused(copied):
    model = SplineTransformer().fit(X)
    np.testing.assert_array_equal(copied(model).transform(X), model.transform(X))
    spline = model.bsplines_[0]
    spline.c = spline.c[:2]
    with pytest.raises(MalformedError, match="point outside"):
        copied(model)
