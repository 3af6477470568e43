"""What honest people pickle is clean and loads as it was: each test is a family, not an example."""

from __future__ import annotations

import argparse
import array
import collections
import http
import math
import operator
import pickle
import re
import statistics
import string
import types
import uuid

import numpy as np
import pandas as pd
import pytest
from scipy import interpolate, optimize, stats
from sklearn import cluster, ensemble, impute, linear_model, model_selection, neighbors
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 (makes the imputer importable)
from sklearn.metrics import DistanceMetric

from vitrify.core.errors import VitrifyError
from vitrify.core.protocols import Allow
from vitrify.pickles.machine import audit, load

X = np.random.default_rng(0).random((40, 4))
Y = (X[:, 0] > 0.5).astype(int)
GRID = np.arange(10.0)


def again(value, protocol=4):
    content = memoryview(pickle.dumps(value, protocol))
    assert audit(content, where="x").findings == ()
    return load(content, where="x", allow=Allow())


PLAIN = {
    "numbers in an array": array.array("d", [1.5, -2.0]),
    "letters in an array": array.array("u", "ab"),
    "an empty array": array.array("q"),
    "flags of patterns": re.IGNORECASE | re.MULTILINE,
    "a pattern for bytes": re.compile(b"x", re.ASCII),
    "a status": http.HTTPStatus.NOT_FOUND,
    "where an identifier came from": uuid.SafeUUID.unknown,
    "options of a program": argparse.Namespace(rate=0.1, layers=[1, 2]),
    "factories": [collections.defaultdict(collections.Counter), collections.defaultdict(collections.deque)],
    "functions of numbers": [math.sqrt, operator.add, statistics.median, isinstance, any],
    "what a user's list extends": collections.UserList([1]),
    "an error": KeyError,
}


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("value", PLAIN.values(), ids=PLAIN)
def test_values_of_python_itself_come_back_equal(value, protocol):
    assert again(value, protocol) == value


@pytest.mark.parametrize("protocol", range(6))
def test_what_has_no_equality_comes_back_with_what_it_holds(protocol):
    assert again(string.Template("$a"), protocol).template == "$a"
    assert again(OSError(2, "gone"), protocol).errno == 2
    assert list(map(again(operator.itemgetter((0, 1)), protocol), [{(0, 1): 5}])) == [5]
    assert again(str.lower, protocol)("A") == "a"


@pytest.mark.parametrize("protocol", range(6))
def test_what_holds_itself_comes_back_holding_itself(protocol):
    space, line, table = types.SimpleNamespace(), [], {}
    space.me, table["me"] = space, table
    line.append((line, space))
    made = again([space, line, table], protocol)
    assert made[0].me is made[0]
    assert made[1][0][0] is made[1]
    assert made[1][0][1] is made[0]
    assert made[2]["me"] is made[2]


def test_text_of_protocol_0_may_be_as_long_as_an_array():
    value = np.arange(200_000.0)
    np.testing.assert_array_equal(again(value, 0), value)


NAMES = ("norm", "loguniform", "uniform", "randint", "truncnorm", "poisson", "gamma", "beta", "levy_stable")
SHAPES = {"loguniform": (1e-3, 1), "randint": (1, 5), "truncnorm": (-1, 1), "poisson": (3,), "gamma": (2,)}
SHAPES |= {"beta": (1, 2), "levy_stable": (1.5, 0)}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_distribution_draws_the_same_numbers(name, protocol):
    frozen = getattr(stats, name)(*SHAPES.get(name, ()))
    frozen.random_state = np.random.RandomState(7)
    made = again(frozen, protocol)
    np.testing.assert_array_equal(made.rvs(5), pickle.loads(pickle.dumps(frozen)).rvs(5))
    assert made.mean() == frozen.mean() or np.isnan(frozen.mean())
    assert made.dist.shapes == frozen.dist.shapes


def test_a_search_over_distributions_comes_back():
    wanted = {"alpha": stats.loguniform(1e-4, 1), "max_iter": stats.randint(5, 9)}
    search = model_selection.RandomizedSearchCV(linear_model.Lasso(), wanted, n_iter=2, random_state=0)
    assert again(search).fit(X, Y).best_params_ == search.fit(X, Y).best_params_


METRICS = {"minkowski": {"p": 3}, "seuclidean": {"V": np.ones(4)}, "mahalanobis": {"VI": np.eye(4)}, "chebyshev": {}}


@pytest.mark.parametrize("kind", [neighbors.KDTree, neighbors.BallTree])
@pytest.mark.parametrize(("metric", "parameters"), METRICS.items(), ids=METRICS)
def test_neighbours_are_the_same_by_every_metric(kind, metric, parameters):
    if metric not in kind.valid_metrics:
        pytest.skip("this tree has no such metric")
    tree = kind(X, leaf_size=5, metric=metric, **parameters)
    for mine, theirs in zip(again(tree).query(X, 3), tree.query(X, 3), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_distance_and_a_callable_one_come_back():
    from scipy.spatial import distance

    metric = DistanceMetric.get_metric("minkowski", p=3)
    np.testing.assert_array_equal(again(metric).pairwise(X), metric.pairwise(X))
    model = neighbors.KNeighborsClassifier(3, metric=distance.cosine, algorithm="ball_tree").fit(X, Y)
    np.testing.assert_array_equal(again(model).predict_proba(X), model.predict_proba(X))


MODELS = {
    "clusters of clusters": lambda: cluster.Birch(n_clusters=2).fit(X),
    "an imputer of its own rounds": lambda: impute.IterativeImputer(max_iter=2, random_state=0).fit(X),
    "one that keeps its own method": lambda: ensemble.HistGradientBoostingClassifier(
        max_iter=2, early_stopping=True, scoring="roc_auc"
    ).fit(X, Y),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_estimators_with_parts_of_their_own_come_back(make):
    model = make()
    use = "predict" if hasattr(model, "predict") else "transform"
    np.testing.assert_array_equal(getattr(again(model), use)(X), getattr(model, use)(X))


CURVES = {
    **{kind: interpolate.interp1d(GRID, np.sin(GRID), kind=kind) for kind in ("linear", "nearest", "next", "cubic")},
    "pieces": interpolate.CubicSpline(GRID, np.sin(GRID)),
    "a monotonic one": interpolate.PchipInterpolator(GRID, np.sin(GRID)),
    "a polynomial": np.polynomial.Chebyshev([1, 2, 3]),
    "an old polynomial": np.poly1d([1, 2]),
    "a function for each number": np.vectorize(math.sqrt),
}


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
def test_curves_give_the_same_values(curve, protocol):
    np.testing.assert_array_equal(again(curve, protocol)(GRID), curve(GRID))


def test_what_optimisers_and_tests_return_comes_back():
    found = again(optimize.minimize(lambda x: (x**2).sum(), [1.0], method="Nelder-Mead"))
    assert found.success
    assert again(stats.describe(GRID)).nobs == len(GRID)


FRAMES = {
    "sparse": pd.Series(pd.arrays.SparseArray([0, 0, 1])),
    "sparse blocks": pd.Series(pd.arrays.SparseArray([0.0, 1.0], kind="block")),
    "intervals": pd.Series(pd.interval_range(0, 3)),
    "categories": pd.Series(list("aba"), dtype="category"),
    "moments": pd.Series([pd.Timestamp("2020", tz="UTC"), pd.NaT], dtype=object),
}


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("series", FRAMES.values(), ids=FRAMES)
def test_columns_come_back_equal(series, protocol):
    pd.testing.assert_series_equal(again(series, protocol), series)


def test_a_step_in_a_calendar_comes_back():
    assert again(pd.DateOffset(months=2)) == pd.DateOffset(months=2)


class Compiled:
    """What PyTorch's compiler leaves behind: attributes with names like Python's own, but only text in them."""

    def __init__(self):
        self.__overloads__ = {"forward": ["forward_a"]}
        self.__doc__ = "what it does"


def test_names_like_python_s_own_are_no_finding_where_they_are_text():
    content = memoryview(pickle.dumps(Compiled(), 4))
    assert {one.rule for one in audit(content, where="x").findings} == {"untrusted-global"}
    made = load(content, where="x", allow=Allow.of([f"{__name__}.Compiled"]))
    assert made.__overloads__ == {"forward": ["forward_a"]}


REACHES = {
    "a method that fills in a template": b"c__builtin__\ngetattr\n(c__builtin__\nstr\nU\x06formattR.",
    "a method of another class": b"c__builtin__\ngetattr\n(c__builtin__\nlist\nU\x05lowertR.",
    "something behind a method": b"\x80\x04cbuiltins\nstr.lower.__class__\n.",
    "a template by its dotted name": b"\x80\x04cbuiltins\nstr.format\n.",
    "what is not text": b"cargparse\nNamespace\n)\x81}(U\x07__doc__cmath\nsqrt\nub.",
    "a table that is not of text": b"cargparse\nNamespace\n)\x81}(U\x0d__overloads__}U\x01a](cmath\nsqrt\nesub.",
    "a slot that is none": b"cscipy.interpolate._interpolate\ninterp1d\n)\x81N}(U\x0a__init____I1\nu\x86b.",
}


@pytest.mark.parametrize("content", REACHES.values(), ids=REACHES)
def test_what_only_looks_like_them_is_found(content):
    assert audit(memoryview(content), where="x").findings
    with pytest.raises(VitrifyError):
        load(memoryview(content), where="x", allow=Allow())
