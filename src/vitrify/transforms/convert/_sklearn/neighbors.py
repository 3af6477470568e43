"""scikit-learn's neighbours: votes, means and densities of the points nearby.

Source: ``sklearn/neighbors/_classification.py``, ``_regression.py``, ``_lof.py``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._building.data import Data, matrix
from vitrify.transforms.convert._building.graph import F64, Array, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._numerics.neighbors import nearest, vote, weights_of, within
from vitrify.transforms.convert._sklearn.linear import inlier


@converts("sklearn.KNeighborsClassifier")
def k_neighbors_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """The shares of the classes among the nearest; the largest share, of equal ones the first."""
    graph = steps.graph
    found = nearest(graph, model, matrix(graph, data), model.n_neighbors)
    weights = weights_of(graph, model, found.distance)
    if not model.outputs_2d_:
        votes = vote(graph, graph.gather(_labels(model)[:, 0], found.index), len(model.classes_), weights)
        return _voted(graph, votes, model.classes_)
    return Outcome(
        parts=tuple(
            _voted(graph, vote(graph, graph.gather(labels, found.index), len(classes), weights), classes)
            for labels, classes in zip(_labels(model).T, model.classes_, strict=True)
        )
    )


def _labels(model: Any) -> Array:
    labels = np.asarray(model._y, np.int64)  # noqa: SLF001 (no public name)
    return labels.reshape(len(labels), -1)


def _voted(graph: Graph, votes: Tensor, classes: Array) -> Outcome:
    total = graph.reduce("ReduceSum", votes, 1, keep=True)
    nothing = graph.compare("Equal", total, 0.0)
    probability = graph.binary("Div", votes, graph.where(nothing, np.ones(()), total))
    return Outcome(index=graph.argmax(votes), classes=classes, probability=probability)


@converts("sklearn.KNeighborsRegressor")
def k_neighbors_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """The mean of the nearest points' targets."""
    graph = steps.graph
    found = nearest(graph, model, matrix(graph, data), model.n_neighbors)
    targets = np.asarray(model._y)  # noqa: SLF001 (no public name)
    values = graph.gather(targets.reshape(len(targets), -1), found.index)
    weights = weights_of(graph, model, found.distance)
    if weights is None:
        mean = graph.reduce("ReduceMean", graph.cast(values, F64), 1)
    else:
        wide = graph.op("Unsqueeze", weights, np.array([2]), dtype=graph.real(F64))
        total = graph.reduce("ReduceSum", graph.binary("Mul", values, wide), 1)
        mean = graph.binary("Div", total, graph.reduce("ReduceSum", weights, 1, keep=True))
    return Outcome(prediction=graph.vector(mean) if targets.ndim == 1 else mean)


@converts("sklearn.RadiusNeighborsRegressor")
def radius_neighbors_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """The mean of the targets within the radius; NaN where there are none."""
    graph = steps.graph
    weights = _within(graph, model, matrix(graph, data))
    targets = np.asarray(model._y, np.float64)  # noqa: SLF001 (no public name)
    total = graph.matmul(weights, targets.reshape(len(targets), -1))
    mean = graph.binary("Div", total, graph.reduce("ReduceSum", weights, 1, keep=True))
    return Outcome(prediction=graph.vector(mean) if targets.ndim == 1 else mean)


def _within(graph: Graph, model: Any, x: Tensor) -> Tensor:
    """Return each point's weight, zero outside of the radius: (rows, points) in double."""
    inside, distance = within(graph, model, x, float(model.radius))
    if model.weights in (None, "uniform"):
        return graph.cast(inside, F64)
    weights = weights_of(graph, model, graph.where(inside, distance, np.array(np.inf)))
    assert weights is not None
    return weights


@converts("sklearn.RadiusNeighborsClassifier")
def radius_neighbors_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """The shares of the classes within the radius; where there are none, the outlier's label, if it has one."""
    graph = steps.graph
    weights = _within(graph, model, matrix(graph, data))
    labels = _labels(model)
    if not model.outputs_2d_:
        return _around(graph, weights, labels[:, 0], model.classes_, model.outlier_label_)
    outliers = model.outlier_label_ or [None] * len(model.classes_)
    return Outcome(
        parts=tuple(_around(graph, weights, *column) for column in zip(labels.T, model.classes_, outliers, strict=True))
    )


def _around(graph: Graph, weights: Tensor, labels: Array, classes: Array, outlier: Any) -> Outcome:
    votes = graph.matmul(weights, np.eye(len(classes))[labels])
    outlier = np.ravel(outlier)[0] if outlier is not None else None
    known = np.flatnonzero(classes == outlier) if outlier is not None else np.zeros(0, int)
    alone = graph.compare("Equal", graph.reduce("ReduceSum", weights, 1, keep=True), 0.0)
    if len(known):
        votes = graph.where(alone, np.eye(len(classes))[known], votes)
    outcome = _voted(graph, votes, classes)
    if outlier is None or len(known):
        return outcome
    assert outcome.index is not None
    index = graph.where(graph.vector(alone), np.array(len(classes)), outcome.index)
    return Outcome(index=index, classes=np.append(classes, outlier), probability=outcome.probability)


@converts("sklearn.LocalOutlierFactor")
def local_outlier_factor(steps: Steps, model: Any, data: Data) -> Outcome:
    """How much denser the neighbours stand than the row does; 1 for an inlier and -1 for an outlier."""
    graph = steps.graph
    if not model.novelty:
        refuse("has no answer for new rows (novelty=False)", "fit it with novelty=True")
    found = nearest(graph, model, matrix(graph, data), model.n_neighbors_)
    reach = model._distances_fit_X_[:, model.n_neighbors_ - 1]
    distance = graph.op("Max", found.distance, graph.gather(reach, found.index), dtype=graph.real(F64))
    mean = graph.reduce("ReduceMean", distance, 1, keep=True)
    density = graph.binary("Div", np.ones(()), graph.binary("Add", mean, 1e-10))
    ratios = graph.binary("Div", graph.gather(np.asarray(model._lrd), found.index), density)  # noqa: SLF001
    score = graph.unary("Neg", graph.reduce("ReduceMean", ratios, 1))
    score = graph.binary("Sub", score, float(model.offset_))
    return Outcome(prediction=inlier(graph, score, "GreaterOrEqual"), score=score)
