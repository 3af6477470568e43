"""Neighbours to ONNX: every search, metric and weight, on whole numbers too, where many points are equally far."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sklearn import neighbors
from transforms.convert.proving import assert_proven

CLASSIFIERS = {
    "k-d tree": neighbors.KNeighborsClassifier(),
    "ball tree": neighbors.KNeighborsClassifier(algorithm="ball_tree", leaf_size=5),
    "brute force": neighbors.KNeighborsClassifier(algorithm="brute"),
    "by distance": neighbors.KNeighborsClassifier(weights="distance"),
    "one": neighbors.KNeighborsClassifier(1),
    "all": neighbors.KNeighborsClassifier(120),
    "radius": neighbors.RadiusNeighborsClassifier(20.0, outlier_label="most_frequent"),
    "radius by distance": neighbors.RadiusNeighborsClassifier(20.0, weights="distance", outlier_label=10),
    "radius by brute force": neighbors.RadiusNeighborsClassifier(20.0, algorithm="brute", outlier_label=10),
    "centroids": neighbors.NearestCentroid(),
}

METRICS = {
    "manhattan": {},
    "chebyshev": {},
    "canberra": {},
    "braycurtis": {},
    "minkowski": {"p": 3},
    "cosine": {},
    "seuclidean": {"metric_params": {"V": np.arange(1.0, 5.0)}, "algorithm": "ball_tree"},
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_of_neighbours_is_proven(name, x, three, tmp_path):
    assert_proven(CLASSIFIERS[name].fit(x, three), x, tmp_path)


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_is_proven(metric, x, real, tmp_path):
    model = neighbors.KNeighborsRegressor(metric=metric, weights="distance", **METRICS[metric])
    assert_proven(model.fit(x, real), x, tmp_path)


@pytest.mark.parametrize("algorithm", ["kd_tree", "ball_tree", "brute"])
def test_whole_numbers_with_many_ties_are_proven(algorithm, x, three, tmp_path):
    whole = np.round(x / [1, 10, 100, 0.01])
    model = neighbors.KNeighborsClassifier(4, algorithm=algorithm, leaf_size=3)
    assert_proven(model.fit(whole, three), whole, tmp_path, rows=1200)


def test_several_targets_are_proven(x, real, three, tmp_path):
    regressor = neighbors.KNeighborsRegressor(weights="distance").fit(x, np.stack([real, -real], axis=1))
    assert_proven(regressor, x, tmp_path)
    (tmp_path / "labels").mkdir()
    classifier = neighbors.KNeighborsClassifier().fit(x, np.stack([three, three % 4], axis=1))
    assert_proven(classifier, x, tmp_path / "labels")


def test_single_precision_is_searched_in_double_as_the_source_does(x, real, tmp_path):
    narrow = x.astype(np.float32)
    assert_proven(neighbors.KNeighborsRegressor(algorithm="brute").fit(narrow, real), narrow, tmp_path)


def test_a_regressor_without_neighbours_answers_nan_as_the_source_does(x, real, tmp_path):
    assert_proven(neighbors.RadiusNeighborsRegressor(5.0).fit(x, real), x, tmp_path)


@pytest.mark.parametrize("contamination", ["auto", 0.1])
def test_the_local_outlier_factor_of_new_rows_is_proven(contamination, x, tmp_path):
    model = neighbors.LocalOutlierFactor(novelty=True, contamination=contamination)
    assert_proven(model.fit(x), x, tmp_path)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 9),
    leaf=st.integers(2, 12),
    algorithm=st.sampled_from(["kd_tree", "ball_tree", "brute"]),
)
def test_of_equally_far_points_the_same_ones_are_kept(seed, count, leaf, algorithm, convert):
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 4, (60, 2)).astype(float)
    # One target a point: the prediction shows which points were kept.
    model = neighbors.KNeighborsRegressor(count, algorithm=algorithm, leaf_size=leaf).fit(points, np.eye(60))
    rows = np.concatenate([points, rng.integers(-1, 6, (40, 2)) / 2, [[1e20, 0.5], [-1e300, 1e300], [2.0**53, 1]]])
    expected, got = convert(model, points).both(rows)
    np.testing.assert_array_equal(got["prediction"], expected["prediction"])


SOURCES = {
    "normal": lambda rng, n, width: rng.normal(size=(n, width)),
    "whole": lambda rng, n, width: rng.integers(-3, 4, (n, width)),
}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32 - 1),
    metric=st.sampled_from(["euclidean", "manhattan", "chebyshev", "cosine", "minkowski"]),
    p=st.sampled_from([1.0, 1.5, 3.0]),
    algorithm=st.sampled_from(["kd_tree", "ball_tree", "brute"]),
    weights=st.sampled_from(["uniform", "distance"]),
    count=st.integers(1, 9),
    width=st.integers(1, 9),
    points=st.sampled_from([40, 300]),
    source=st.sampled_from(sorted(SOURCES)),
    kind=st.sampled_from([np.float64, np.float32]),
)
def test_any_search_of_any_points_is_proven(
    proven, *, seed, metric, p, algorithm, weights, count, width, points, source, kind
):
    assume(not (weights == "distance" and algorithm == "brute" and metric == "euclidean"))  # both are refused
    assume(not (weights == "distance" and metric == "cosine" and kind == np.float32))
    rng = np.random.default_rng(seed)
    x = SOURCES[source](rng, points, width).astype(kind)
    algorithm = "brute" if metric == "cosine" else algorithm
    model = neighbors.KNeighborsRegressor(count, metric=metric, p=p, algorithm=algorithm, weights=weights)
    proven(model.fit(x, x.sum(axis=1) + rng.normal(size=points)), x)


@pytest.mark.parametrize("seed", range(3))
def test_where_the_length_of_a_row_overflows_all_points_are_equally_far(seed, convert):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(100, 4))
    pair = convert(neighbors.KNeighborsClassifier(metric="cosine").fit(x, x[:, 0] > 0), x)
    rows = x[:20].copy()
    rows[:, 1] = np.finfo(np.float64).max
    expected = pair.source.picking_first().predict(rows)
    for name, given_ in pair.graph.predict(rows).items():
        np.testing.assert_allclose(given_, expected[name])


def test_cosine_distances_are_weighed_in_double_only(x, real, problems):
    narrow = x.astype(np.float32)
    model = neighbors.KNeighborsRegressor(metric="cosine", weights="distance").fit(narrow, real)
    (problem,) = problems(model, narrow)
    assert "single precision" in problem.message
    assert "float64" in problem.remedy


REFUSED = {
    "a function": ({"metric": lambda a, b: np.abs(a - b).max()}, "function of Python code"),
    "weights by a function": ({"weights": np.sqrt}, "function of Python code"),
    "precomputed distances": ({"metric": "precomputed"}, "called with distances"),
    "ties that partition decides": ({"metric": "hamming", "algorithm": "brute"}, "NumPy's partition"),
    "distances that are rounding": ({"weights": "distance", "algorithm": "brute"}, "what rounding leaves"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_carried_is_refused_with_a_remedy(name, x, real, problems):
    options, message = REFUSED[name]
    data = np.abs(x[:, None, 0] - x[None, :, 0]) if options.get("metric") == "precomputed" else x
    (problem,) = problems(neighbors.KNeighborsRegressor(**options).fit(data, real), data)
    assert message in problem.message
    assert problem.remedy
