"""The nearest of the points that a model holds, found as scikit-learn finds them.

Equally near points are common: whole numbers, repeated rows, a value so large that the points beside it are all the
same. Which of them count depends on the order in which a search meets them. A tree goes into the nearer half first; so
the points are numbered in the order in which its search meets them, and of equals the first stay. A blocked
search goes through them as they stand. A distance that is infinite is never entered into the list, which
begins with the first point in every place.

Source: ``sklearn/neighbors/_base.py``, ``_binary_tree.pxi.tp``, ``metrics/_pairwise_distances_reduction``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vitrify.transforms.convert._building.graph import BOOL, F32, F64, I64, Array, Graph, Tensor
from vitrify.transforms.convert._building.steps import refuse
from vitrify.transforms.convert._numerics.distances import Metric, reduced_by_products
from vitrify.transforms.convert._numerics.heap import first_known, first_smallest

_LARGEST = float(np.finfo(np.float64).max)
_PARTITIONED = frozenset({"cosine", "mahalanobis"})
"""Metrics that scikit-learn's blocked search does not know; NumPy's partition then finds the nearest."""


@dataclass(frozen=True)
class Neighbors:
    """The nearest points of each row, the nearest first.

    Attributes:
        index: Which points: (rows, k).
        distance: How far: (rows, k) in double.
    """

    index: Tensor
    distance: Tensor


def nearest(graph: Graph, model: Any, x: Tensor, count: int) -> Neighbors:
    """Return the ``count`` nearest of the points that a neighbours' estimator was fitted on."""
    metric = _metric(model)
    if model._fit_method == "brute" and metric.name in _PARTITIONED:  # noqa: SLF001 (only it says which search was chosen)
        _require_products(model, metric, x)
        far = metric.distance(graph, metric.blocked(graph, x, _own_points(model)))
        distance, index = first_known(graph, far, count)
        return Neighbors(index, distance)
    if model._fit_method == "brute":  # noqa: SLF001
        _require_blocked(model, metric)
        met, order = _reduced(graph, model, metric, x), None
    else:
        met, order = _in_order_of_visit(graph, model, metric, graph.cast(x, F64))
    reduced, place = first_smallest(graph, met, count, len(points_of(model)), unknown=metric.may_be_unknown)
    index = place if order is None else graph.op("GatherElements", order, place, dtype=I64, axis=1)
    # The list begins with the first point in every place, at a distance that nothing reaches.
    beyond = graph.compare("GreaterOrEqual", reduced, np.array(np.inf if order is not None else _LARGEST))
    return Neighbors(graph.where(beyond, np.array(0), index), _distance(graph, model, metric, x, reduced))


def within(graph: Graph, model: Any, x: Tensor, radius: float) -> tuple[Tensor, Tensor]:
    """Return which points are within a radius, (rows, points) of bool, and all distances."""
    metric = _metric(model)
    if model._fit_method == "brute":  # noqa: SLF001
        _require_blocked(model, metric)
    reduced = _reduced(graph, model, metric, x)
    return graph.compare("LessOrEqual", reduced, metric.reduce(radius)), _distance(graph, model, metric, x, reduced)


def _distance(graph: Graph, model: Any, metric: Metric, x: Tensor, reduced: Tensor) -> Tensor:
    """Return distances from reduced ones, rounded where the source rounds them."""
    distance = metric.distance(graph, reduced)
    by_products = metric.name in {"euclidean", "sqeuclidean"}
    if model._fit_method != "brute" or by_products or not _is_narrow(model, x):  # noqa: SLF001 (no public name)
        return distance
    return graph.cast(graph.cast(distance, F32), F64)


def _is_narrow(model: Any, x: Tensor) -> bool:
    """Return whether both the rows and the points are in single precision."""
    return bool(np.result_type(x.dtype, model._fit_X.dtype) == F32)  # noqa: SLF001 (no public name)


def _metric(model: Any) -> Metric:
    if model.effective_metric_ == "precomputed":
        refuse("is called with distances and not with rows (metric='precomputed')", "fit it on the rows themselves")
    return Metric(model.effective_metric_, model.effective_metric_params_)


def _require_blocked(model: Any, metric: Metric) -> None:
    """Refuse what NumPy's partition decides: which of equally far points it keeps depends on the processor."""
    whole = model._fit_X.dtype.kind in "biu"  # noqa: SLF001 (no public name)
    if metric.name == "hamming" or whole:
        why = "whole numbers" if whole else "the metric 'hamming'"
        msg = f"searches by brute force among {why}, where many points are equally far and NumPy's partition picks some"
        refuse(msg, "use algorithm='ball_tree', or fit it on floats")
    if metric.name in {"euclidean", "sqeuclidean"} and getattr(model, "weights", None) == "distance":
        msg = "weighs by distances computed from products: that of a training row to itself is what rounding leaves"
        refuse(msg, "use algorithm='kd_tree' or 'ball_tree'")


def _require_products(model: Any, metric: Metric, x: Tensor) -> None:
    """Refuse weights that show what a product in single precision loses, which no two libraries lose alike."""
    if metric.name == "cosine" and _is_narrow(model, x) and getattr(model, "weights", None) == "distance":
        refuse(
            "weighs by cosine distances in single precision: close ones are what rounding leaves", "fit it on float64"
        )


def points_of(model: Any) -> Array:
    """Return the points that a neighbours' estimator was fitted on, in double."""
    return _own_points(model).astype(np.float64)


def _own_points(model: Any) -> Array:
    points = model._fit_X  # noqa: SLF001 (no public name)
    return np.asarray(points.toarray() if hasattr(points, "toarray") else points)


def _reduced(graph: Graph, model: Any, metric: Metric, x: Tensor) -> Tensor:
    if model._fit_method != "brute":  # noqa: SLF001
        return metric.reduced(graph, x, points_of(model))
    if metric.name in {"euclidean", "sqeuclidean"}:
        return reduced_by_products(graph, x, points_of(model))
    return metric.blocked(graph, x, _own_points(model))


def _in_order_of_visit(graph: Graph, model: Any, metric: Metric, x: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the reduced distances in the order in which a tree's search meets the points, and which those are."""
    _, order, nodes, _ = model._tree.get_arrays()  # noqa: SLF001 (no public name)
    reduced = metric.reduced(graph, x, points_of(model)[order])
    rows = graph.op("Shape", reduced, dtype=I64)
    points = graph.op("Expand", order.astype(np.int64).reshape(1, -1), rows, dtype=I64)
    if len(nodes) == 1:
        return reduced, points
    place = _places(graph, nodes, _left_first(graph, model, metric, x))
    empty = graph.op("ConstantOfShape", rows, dtype=graph.real(F64), value=np.zeros(1, graph.real(F64)))
    nobody = graph.op("ConstantOfShape", rows, dtype=I64, value=np.zeros(1, np.int64))
    return (
        graph.op("ScatterElements", empty, place, reduced, dtype=graph.real(F64), axis=1),
        graph.op("ScatterElements", nobody, place, points, dtype=I64, axis=1),
    )


def _left_first(graph: Graph, model: Any, metric: Metric, x: Tensor) -> Tensor:
    """Return, for each inner node, whether its left child is at most as far as its right one: (rows, nodes)."""
    _, _, nodes, bounds = model._tree.get_arrays()  # noqa: SLF001 (no public name)
    if model._fit_method == "kd_tree":  # noqa: SLF001
        least = _to_boxes(graph, metric, x, bounds[0], bounds[1])
    else:
        far = metric.distance(graph, metric.reduced(graph, x, bounds[0]))
        beyond = graph.binary("Sub", far, nodes["radius"])
        least = graph.where(graph.compare("Greater", beyond, 0.0), beyond, np.zeros(()))  # of NaN: 0, as fmax has it
        if metric.name in {"euclidean", "seuclidean", "mahalanobis"}:
            least = graph.binary("Mul", least, least)
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    left, right = (graph.gather(least, 2 * inner + side, axis=1) for side in (1, 2))
    return graph.compare("LessOrEqual", left, right)


def _to_boxes(graph: Graph, metric: Metric, x: Tensor, low: Array, high: Array) -> Tensor:
    """Return the least reduced distance from each row to each box."""
    power = {"manhattan": 1.0, "euclidean": 2.0}.get(metric.name, float(metric.parameters.get("p", 2)))
    total: Tensor | None = None
    for column in range(low.shape[1]):
        value = graph.gather(x, np.array([column]), axis=1)
        below = graph.binary("Sub", low[:, column].reshape(1, -1), value)
        above = graph.binary("Sub", value, high[:, column].reshape(1, -1))
        outside = graph.op("Max", below, above, np.zeros(()), dtype=graph.real(F64))
        if metric.name == "chebyshev":
            total = outside if total is None else graph.op("Max", total, outside, dtype=graph.real(F64))
            continue
        part = graph.binary("Mul", outside, outside) if power == 2 else graph.binary("Pow", outside, power)  # noqa: PLR2004 (a square)
        total = part if total is None else graph.binary("Add", total, part)
    assert total is not None
    return total


def _places(graph: Graph, nodes: Array, left_first: Tensor) -> Tensor:
    """Return at which place each point is met, the points numbered as the tree keeps them: (rows, points)."""
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    start, end = nodes["idx_start"], nodes["idx_end"]
    fixed = np.zeros(end[0])
    turned = np.zeros((len(inner), end[0]))
    for row, node in enumerate(inner):
        left, right = 2 * node + 1, 2 * node + 2
        # Left first: the right half waits for the left one. Right first: the other way round.
        fixed[start[left] : end[left]] += end[right] - start[right]
        turned[row, start[left] : end[left]] = -(end[right] - start[right])
        turned[row, start[right] : end[right]] = end[left] - start[left]
    for leaf in np.flatnonzero(nodes["is_leaf"]):
        fixed[start[leaf] : end[leaf]] += np.arange(end[leaf] - start[leaf])
    return graph.cast(graph.affine(graph.cast(left_first, F64), turned, fixed), I64)


def vote(graph: Graph, chosen: Tensor, count: int, weights: Tensor | None) -> Tensor:
    """Return the sum of the weights of each class's neighbours: (rows, classes) in double.

    Args:
        graph: Where it is computed.
        chosen: The class of each neighbour: (rows, k) of int64.
        count: Number of classes.
        weights: (rows, k); None for one each.
    """
    hot = graph.gather(np.eye(count), chosen)
    if weights is not None:
        hot = graph.binary("Mul", hot, graph.op("Unsqueeze", weights, np.array([2]), dtype=graph.real(F64)))
    return graph.reduce("ReduceSum", hot, 1)


def weights_of(graph: Graph, model: Any, distance: Tensor) -> Tensor | None:
    """Return the neighbours' weights: None for equal ones; where a distance is zero only such points count."""
    if model.weights in (None, "uniform"):
        return None
    if model.weights != "distance":
        refuse("weighs by a function of Python code", "use weights='uniform' or 'distance'")
    inverse = graph.binary("Div", np.ones(()), distance)
    endless = graph.op("IsInf", inverse, dtype=BOOL)
    one = graph.cast(endless, F64)
    some = graph.cast(graph.op("ReduceMax", graph.cast(endless, I64), np.array([1]), dtype=I64, keepdims=1), BOOL)
    return graph.where(some, one, inverse)
