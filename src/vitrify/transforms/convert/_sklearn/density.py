"""scikit-learn's densities: Gaussian mixtures, kernels around points, one robust Gaussian.

Source: ``sklearn/mixture/_gaussian_mixture.py``, ``_bayesian_mixture.py``, ``neighbors/_kde.py``,
``covariance/_elliptic_envelope.py``
"""

from __future__ import annotations

from math import lgamma, log, nan, pi
from typing import Any

import numpy as np

from vitrify.transforms.convert._building.data import FLOATS, Data, matrix
from vitrify.transforms.convert._building.graph import F64, Array, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts
from vitrify.transforms.convert._numerics.distances import Metric
from vitrify.transforms.convert._sklearn.linear import inlier


@converts("sklearn.GaussianMixture", "sklearn.BayesianGaussianMixture")
def gaussian_mixture(steps: Steps, model: Any, data: Data) -> Outcome:
    """Each component's log density and weight; the likeliest component."""
    graph, x = steps.graph, matrix(steps.graph, data, FLOATS)
    chol, features = np.asarray(model.precisions_cholesky_), model.means_.shape[1]
    squares = _mahalanobis(graph, model, x)
    constant = graph.binary("Add", squares, features * np.log(2 * np.pi))
    density = graph.binary("Add", graph.binary("Mul", constant, -0.5), _log_det(chol, model.covariance_type, features))
    joint = graph.binary("Add", density, _log_weights(model, features))
    largest = graph.reduce("ReduceMax", joint, 1, keep=True)
    sums = graph.reduce("ReduceSum", graph.unary("Exp", graph.binary("Sub", joint, largest)), 1, keep=True)
    total = graph.binary("Add", graph.unary("Log", sums), largest)
    probability = graph.unary("Exp", graph.binary("Sub", joint, total))
    return Outcome(prediction=graph.argmax(joint, unknown=True), probability=probability, score=graph.vector(total))


def _mahalanobis(graph: Graph, model: Any, x: Tensor) -> Tensor:
    """Return the squared standardised distance to each mean: (rows, components)."""
    means, chol, kind = model.means_, np.asarray(model.precisions_cholesky_), model.covariance_type
    if kind == "spherical":
        precisions = chol**2
        linear = graph.binary("Mul", graph.binary("Mul", graph.matmul(x, means.T), precisions), 2.0)
        square = graph.binary("Mul", graph.reduce("ReduceSum", graph.binary("Mul", x, x), 1, keep=True), precisions)
        return graph.binary("Add", graph.binary("Sub", np.sum(means**2, axis=1) * precisions, linear), square)
    if kind == "diag":
        precisions = chol**2
        linear = graph.binary("Mul", graph.matmul(x, (means * precisions).T), 2.0)
        square = graph.matmul(graph.binary("Mul", x, x), precisions.T)
        return graph.binary("Add", graph.binary("Sub", np.sum(means**2 * precisions, axis=1), linear), square)
    parts = []
    for index, mean in enumerate(means):
        factor = chol[index] if kind == "full" else chol
        apart = graph.binary("Sub", graph.matmul(x, factor), mean @ factor)
        parts.append(graph.reduce("ReduceSum", graph.binary("Mul", apart, apart), 1, keep=True))
    return graph.concat(parts)


def _log_det(chol: Array, kind: str, features: int) -> Array:
    """Return the logarithm of the determinant of each component's Cholesky factor."""
    if kind == "spherical":
        spread: Array = features * np.log(chol)
        return spread
    diagonal = {"full": lambda: np.diagonal(chol, axis1=1, axis2=2), "tied": lambda: np.diag(chol)}
    logarithms: Array = np.log(diagonal.get(kind, lambda: chol)())
    return np.asarray(np.sum(logarithms, axis=-1))


def _log_weights(model: Any, features: int) -> Array:
    """Return the logarithm of each component's weight, and for the Bayesian one what the uncertainty takes off."""
    weights: Array = model._estimate_log_weights()  # noqa: SLF001 (constants of the fitted model)
    if type(model).__name__ == "GaussianMixture":
        return weights
    from scipy.special import digamma

    freedom = np.asarray(model.degrees_of_freedom_)
    log_lambda = features * log(2.0) + np.sum(digamma(0.5 * (freedom - np.arange(features)[:, None])), axis=0)
    off: Array = -0.5 * features * np.log(freedom) + 0.5 * (log_lambda - features / model.mean_precision_)
    return weights + off


@converts("sklearn.EllipticEnvelope")
def elliptic_envelope(steps: Steps, model: Any, data: Data) -> Outcome:
    """The negative squared Mahalanobis distance, above its offset; 1 for an inlier and -1 for an outlier."""
    graph, x = steps.graph, matrix(steps.graph, data, F64)
    apart = graph.binary("Sub", x, model.location_)
    square = graph.reduce("ReduceSum", graph.binary("Mul", graph.matmul(apart, model.get_precision()), apart), 1)
    score = graph.binary("Sub", graph.unary("Neg", square), float(model.offset_))
    return Outcome(prediction=inlier(graph, score, "GreaterOrEqual"), score=score)


@converts("sklearn.KernelDensity")
def kernel_density(steps: Steps, model: Any, data: Data) -> Outcome:
    """The logarithm of the sum of a kernel around each point."""
    graph, tree = steps.graph, model.tree_
    points, width = np.asarray(tree.data, np.float64), float(model.bandwidth_)
    metric = Metric(model.metric, model.metric_params)
    distance = metric.distance(graph, metric.reduced(graph, matrix(graph, data, F64), points))
    kernels = _log_kernel(graph, model.kernel, distance, width)
    total = float(len(points))
    if tree.sample_weight is not None:
        weights = np.asarray(tree.sample_weight, np.float64)
        kernels, total = graph.binary("Add", kernels, np.log(weights)), float(np.sum(weights))
    largest = graph.reduce("ReduceMax", kernels, 1, keep=True)
    shift = graph.where(graph.compare("Equal", largest, np.array(-np.inf)), np.zeros(()), largest)
    sums = graph.reduce("ReduceSum", graph.unary("Exp", graph.binary("Sub", kernels, shift)), 1, keep=True)
    summed = graph.vector(graph.binary("Add", graph.unary("Log", sums), shift))
    return Outcome(score=graph.binary("Add", summed, _log_norm(model.kernel, width, points.shape[1]) - log(total)))


def _log_kernel(graph: Graph, name: str, distance: Tensor, width: float) -> Tensor:
    """Return the logarithm of a kernel that is 1 at its centre."""
    ratio = graph.binary("Div", distance, width)
    if name == "gaussian":
        return graph.binary("Mul", graph.binary("Mul", ratio, ratio), -0.5)
    if name == "exponential":
        return graph.unary("Neg", ratio)
    inside = graph.compare("Less", distance, width)
    held = graph.where(inside, ratio, np.zeros(()))
    if name == "epanechnikov":
        value = graph.binary("Sub", np.ones(()), graph.binary("Mul", held, held))
    elif name == "linear":
        value = graph.binary("Sub", np.ones(()), held)
    elif name == "cosine":
        value = graph.unary("Cos", graph.binary("Mul", held, 0.5 * pi))
    else:
        value = graph.binary("Add", graph.binary("Mul", held, 0.0), 1.0)
    return graph.where(inside, graph.unary("Log", value), np.array(-np.inf))


def _log_norm(name: str, width: float, features: int) -> float:
    """Return the logarithm of what makes a kernel's integral one."""
    ball = _log_ball(features)
    shell = log(2 * pi) + _log_ball(features - 2)
    match name:
        case "gaussian":
            factor = 0.5 * features * log(2 * pi)
        case "tophat":
            factor = ball
        case "epanechnikov":
            factor = ball + log(2.0 / (features + 2.0))
        case "exponential":
            factor = shell + lgamma(features)
        case "linear":
            factor = ball - log(features + 1.0)
        case _:
            factor, term = 0.0, 2.0 / pi
            for order in range(1, features + 1, 2):
                factor += term
                term *= -(features - order) * (features - order - 1) * (2.0 / pi) ** 2
            # In some dimensions the source's sum is negative, and its answer NaN.
            factor = log(factor) + shell if factor > 0 else nan
    return -factor - features * log(width)


def _log_ball(dimensions: int) -> float:
    """Return the logarithm of the unit ball's volume."""
    return 0.5 * dimensions * log(pi) - lgamma(0.5 * dimensions + 1)
