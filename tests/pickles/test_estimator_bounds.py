"""Estimators whose fitted parts do not fit each other: refused before compiled code follows them, honest ones read."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import BisectingKMeans, KMeans
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.metrics.pairwise import linear_kernel
from sklearn.neighbors import BallTree, KDTree, KNeighborsClassifier
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import Bunch

from vitrify.core.errors import MalformedError
from vitrify.core.protocols import Allow
from vitrify.pickles.machine import load
from vitrify.pickles.older import Older

RANDOM = np.random.default_rng(0)
X = np.abs(RANDOM.normal(size=(60, 4)))
Y = np.arange(60) % 3
SPARSE = sparse.csr_matrix(X)
CATEGORIES = RANDOM.integers(0, 5, (60, 4)).astype(float)
WORDS = ["one two", "three four", "two four"]
PAIRS = [{"a": 1, "b": 2}, {"c": 3}]


def read(model):
    return load(memoryview(pickle.dumps(model, 4)), where="x", allow=Allow(), dialect=Older())


def histogram():
    return HistGradientBoostingClassifier(categorical_features=[0, 1], max_iter=2, min_samples_leaf=2)


MODELS = {
    "a tree": lambda: DecisionTreeClassifier().fit(X, Y),
    "a forest": lambda: RandomForestClassifier(3).fit(X, Y),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=2).fit(X, Y),
    "boosting from nothing": lambda: GradientBoostingClassifier(n_estimators=2, init="zero").fit(X, Y),
    "boosting on histograms": lambda: histogram().fit(CATEGORIES, Y),
    "boosting on histograms without categories": lambda: HistGradientBoostingClassifier(max_iter=2).fit(X, Y),
    "a machine": lambda: SVC().fit(X, Y),
    "a machine on sparse rows": lambda: SVC().fit(SPARSE, Y),
    "a machine for numbers": lambda: SVR().fit(SPARSE, Y),
    "a machine with a function": lambda: SVC(kernel=linear_kernel).fit(X, Y),
    "a machine on a kernel": lambda: SVC(kernel="precomputed").fit(X @ X.T, Y),
    "neighbours": lambda: KNeighborsClassifier(algorithm="brute").fit(X, Y),
    "neighbours of sparse rows": lambda: KNeighborsClassifier().fit(SPARSE, Y),
    "means": lambda: KMeans(3, n_init=1).fit(X),
    "means by halves": lambda: BisectingKMeans(3).fit(X),
    "means by halves of sparse rows": lambda: BisectingKMeans(3).fit(SPARSE),
    "words": lambda: CountVectorizer().fit(WORDS),
    "pairs": lambda: DictVectorizer().fit(PAIRS),
    "hashes": lambda: FeatureHasher(8),
    "hashes of words": lambda: HashingVectorizer(n_features=8),
    "an unfitted machine": SVC,
    "an unfitted boosting": GradientBoostingClassifier,
    "unfitted means": KMeans,
}


def lacks(name):
    return lambda model: delattr(model, name)


def becomes(name, make):
    return lambda model: setattr(model, name, make(getattr(model, name)))


def false_tree(model):
    model.estimators_[1, 0] = Bunch(tree_=b"A" * 4096, n_features_in_=4)


def other_guess(model):
    model.init_ = DummyClassifier(strategy="prior").fit(X, Y > 0)


def narrow_bits(model):
    for predictor in (one for several in model._predictors for one in several):
        predictor.raw_left_cat_bitsets = predictor.raw_left_cat_bitsets[:, :1]
        predictor.binned_left_cat_bitsets = predictor.raw_left_cat_bitsets


def misplaced(model):
    model.vocabulary_ = dict.fromkeys(model.vocabulary_, 10**9)


def dropping(model):
    """Leave the numbers out before they are asked for."""
    model._preprocessor.transformers_[1] = ("numerical", "drop", model._preprocessor.transformers_[1][2])


BROKEN = {
    "a tree that counts no columns": ("a tree", lacks("n_features_in_")),
    "a tree that lets in fewer columns": ("a tree", becomes("n_features_in_", lambda n: n - 3)),
    "a tree that counts by something else": ("a tree", becomes("n_features_in_", lambda n: np.array([n]))),
    "a tree that is none": ("a tree", becomes("tree_", lambda _: b"A" * 4096)),
    "rounds of more trees": ("boosting", becomes("estimators_", lambda trees: np.hstack([trees] * 50))),
    "a round with what is no tree": ("boosting", false_tree),
    "a first guess of fewer columns": ("boosting", other_guess),
    "a boosting of no rounds": ("boosting", becomes("estimators_", lambda trees: trees[:0])),
    "histograms that count no columns": ("boosting on histograms without categories", lacks("n_features_in_")),
    "histograms of other categories": (
        "boosting on histograms",
        lambda model: setattr(model._bin_mapper, "is_categorical_", np.zeros(0, np.uint8)),
    ),
    "histograms of no categories": (
        "boosting on histograms",
        lambda model: setattr(model._bin_mapper, "is_categorical_", np.zeros(4, np.uint8)),
    ),
    "histograms with short sets": ("boosting on histograms", narrow_bits),
    "histograms that take data for bins": ("boosting on histograms", lambda model: setattr(model, "_in_fit", True)),
    "histograms that lose columns": ("boosting on histograms", dropping),
    "a machine with fewer chances": ("a machine", becomes("_probA", lambda _: np.zeros(1))),
    "a machine with chances that it has not": (
        "a machine on sparse rows",
        becomes("_effective_probability", lambda _: True),
    ),
    "a machine with fewer coefficients": (
        "a machine on sparse rows",
        becomes("_dual_coef_", lambda kept: sparse.csr_matrix(kept.shape)),
    ),
    "a machine whose function sees fewer rows": (
        "a machine with a function",
        becomes("_BaseLibSVM__Xfit", lambda rows: rows[:1]),
    ),
    "a machine whose function compares nothing": ("a machine with a function", becomes("kernel", lambda _: np.add)),
    "a machine with far support": ("a machine with a function", becomes("support_", lambda kept: kept + 10**8)),
    "a machine with far support in a kernel": ("a machine on a kernel", becomes("support_", lambda kept: kept + 10**8)),
    "neighbours of other columns": ("neighbours", becomes("_fit_X", lambda rows: rows[:, :1])),
    "neighbours that count no columns": ("neighbours", lacks("n_features_in_")),
    "means of other columns": ("means", becomes("cluster_centers_", lambda rows: rows[:, :1])),
    "means in a million threads": ("means", becomes("_n_threads", lambda _: 10**6)),
    "halves of other columns": (
        "means by halves",
        lambda model: setattr(model._bisecting_tree.left, "center", np.zeros(1)),
    ),
    "words without a column": ("words", misplaced),
    "pairs without a column": ("pairs", misplaced),
    "hashes over nothing": ("hashes", becomes("n_features", lambda _: 0)),
    "hashes of words over nothing": ("hashes of words", becomes("n_features", lambda _: -(2**40))),
}


@cache
def kept(name):
    return pickle.dumps(MODELS[name]())


@pytest.mark.parametrize("name", MODELS)
def test_what_fitting_makes_is_read(name):
    model = pickle.loads(kept(name))
    copy = read(model)
    assert type(copy) is type(model)
    assert vars(copy).keys() == vars(model).keys()


@pytest.mark.parametrize(("name", "change"), BROKEN.values(), ids=BROKEN)
def test_parts_that_do_not_fit_are_refused(name, change):
    model = pickle.loads(kept(name))
    change(model)
    with pytest.raises(MalformedError):
        read(model)


@pytest.mark.parametrize("cls", [KDTree, BallTree])
@pytest.mark.parametrize(
    ("part", "value"),
    [(3, np.zeros((0, 15, 4))), (6, 1), (11, None), (12, np.zeros(1))],
    ids=["bounds", "nodes", "distance", "weights"],
)
def test_a_tree_of_neighbours_whose_parts_do_not_fit_is_refused(cls, part, value):
    tree = cls(RANDOM.normal(size=(400, 4)))
    state = list(tree.__getstate__())
    state[part] = value
    broken = cls.__new__(cls)
    broken.__setstate__(tuple(state))
    assert read(tree).query(X[:2])[0].shape == (2, 1)
    with pytest.raises(MalformedError):
        read(broken)


def test_a_tree_deeper_than_it_says_or_with_two_ways_to_a_node_is_refused():
    model = DecisionTreeClassifier().fit(X, Y)
    function, arguments, state = model.tree_.__reduce__()
    nodes = state["nodes"].copy()
    nodes["right_child"][0] = nodes["left_child"][0]
    for change in ({"max_depth": 0}, {"nodes": nodes}):
        tree = function(*arguments)
        tree.__setstate__({**state, **change})
        with pytest.raises(MalformedError):
            read(tree)
