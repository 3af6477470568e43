"""scikit-learn's kernel methods: Gaussian processes, kernel ridge, labels that spread over a graph.

Source: ``sklearn/gaussian_process/_gpr.py``, ``_gpc.py``, ``sklearn/kernel_ridge.py``,
``sklearn/semi_supervised/_label_propagation.py``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._building.data import FLOATS, Data, matrix
from vitrify.transforms.convert._building.graph import F32, F64, Array, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._numerics.erf import erf
from vitrify.transforms.convert._numerics.kernels import pairwise_kernel, process_kernel, process_variance
from vitrify.transforms.convert._numerics.neighbors import nearest
from vitrify.transforms.convert._sklearn.linear import above, two_columns


@converts("sklearn.GaussianProcessRegressor")
def gaussian_process_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """The kernel with the training rows, weighted; then the target's scale is put back."""
    graph, x = steps.graph, matrix(steps.graph, data, F64)
    kernel = process_kernel(graph, model.kernel_, x, _rows(model))
    alpha = np.asarray(model.alpha_)
    mean = graph.matmul(kernel, alpha.reshape(len(alpha), -1))
    scaled = graph.binary("Mul", mean, np.asarray(model._y_train_std, np.float64))  # noqa: SLF001 (no public name)
    prediction = graph.binary("Add", scaled, np.asarray(model._y_train_mean, np.float64))  # noqa: SLF001
    one = alpha.ndim == 1 or alpha.shape[1] == 1
    return Outcome(prediction=graph.vector(prediction) if one else prediction)


def _rows(model: Any) -> Array:
    rows = np.asarray(model.X_train_)
    if rows.dtype.kind not in "biuf":
        refuse("was fitted on text or objects", "fit it on numbers")
    return rows.astype(np.float64)


def _floats(points: Array) -> Array:
    """Return numbers in single or double precision, as scikit-learn's kernels take them."""
    return points if points.dtype in {F32, F64} else points.astype(np.float64)


@converts("sklearn.GaussianProcessClassifier")
def gaussian_process_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """The Laplace approximation of two classes; for more, one of each pair or of each class."""
    outcome = steps.run(model.base_estimator_, data, "base_estimator_")
    return Outcome(index=outcome.index, classes=model.classes_, probability=outcome.probability)


_SLOPES = np.array([0.41, 0.4, 0.37, 0.44, 0.39])
_SHARES = np.array([-1854.8214151, 3516.89893646, 221.29346712, 128.12323805, -2010.49422654])
"""The logistic function as a sum of error functions (Williams and Barber 1998), as in the source."""


@converts("sklearn._BinaryGaussianProcessClassifierLaplace")
def laplace_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """The latent mean decides; its variance widens the logistic function (Rasmussen and Williams, algorithm 3.2)."""
    graph, x = steps.graph, matrix(steps.graph, data, F64)
    kernel = process_kernel(graph, model.kernel_, x, _rows(model))
    mean = graph.vector(graph.matmul(kernel, (model.y_train_ - model.pi_).reshape(-1, 1)))
    from scipy.linalg import solve_triangular

    inverse = solve_triangular(model.L_, np.diag(model.W_sr_), lower=True)
    spread = graph.matmul(kernel, inverse.T)
    taken = graph.reduce("ReduceSum", graph.binary("Mul", spread, spread), 1)
    variance = graph.binary("Sub", process_variance(graph, model.kernel_, x), taken)
    probability = two_columns(graph, _widened(graph, mean, variance))
    return Outcome(index=above(graph, mean), classes=model.classes_, probability=probability)


def _widened(graph: Graph, mean: Tensor, variance: Tensor) -> Tensor:
    alpha = graph.column(graph.binary("Div", np.ones(()), graph.binary("Mul", variance, 2.0)))
    inner = graph.binary("Div", alpha, graph.binary("Add", alpha, _SLOPES**2))
    gamma = graph.binary("Mul", graph.column(mean), _SLOPES)
    wave = erf(graph, graph.binary("Mul", gamma, graph.unary("Sqrt", inner)))
    front = graph.unary("Sqrt", graph.binary("Div", np.array(np.pi), alpha))
    root = graph.unary("Sqrt", graph.binary("Mul", graph.column(variance), 2.0 * np.pi))
    integrals = graph.binary("Div", graph.binary("Mul", front, wave), graph.binary("Mul", root, 2.0))
    total = graph.reduce("ReduceSum", graph.binary("Mul", integrals, _SHARES), 1)
    return graph.binary("Add", total, 0.5 * float(_SHARES.sum()))


@converts("sklearn.KernelRidge")
def kernel_ridge(steps: Steps, model: Any, data: Data) -> Outcome:
    """The kernel with the training rows, weighted."""
    graph, x = steps.graph, matrix(steps.graph, data, FLOATS)
    if model.kernel == "precomputed":
        refuse("is called with kernels and not with rows (kernel='precomputed')", "name the kernel")
    points = model.X_fit_.toarray() if hasattr(model.X_fit_, "toarray") else np.asarray(model.X_fit_)
    settings = {"gamma": model.gamma, "degree": model.degree, "coef0": model.coef0}
    kernel = pairwise_kernel(graph, model.kernel, x, _floats(points), **settings)
    dual = np.asarray(model.dual_coef_)
    answer = graph.matmul(kernel, dual.reshape(len(dual), -1))
    return Outcome(prediction=graph.vector(answer) if dual.ndim == 1 else answer)


@converts("sklearn.LabelPropagation", "sklearn.LabelSpreading")
def label_propagation(steps: Steps, model: Any, data: Data) -> Outcome:
    """The labels that the training rows came to have, weighted by the kernel."""
    graph, x = steps.graph, matrix(steps.graph, data, FLOATS)
    labels, count = np.asarray(model.label_distributions_, np.float64), len(model.classes_)
    if model.kernel == "knn":
        found = nearest(graph, model.nn_fit, x, model.n_neighbors)
        total = graph.reduce("ReduceSum", graph.gather(labels, found.index), 1)
    elif model.kernel == "rbf":
        points = _floats(np.asarray(model.X_))
        total = graph.matmul(pairwise_kernel(graph, "rbf", x, points, gamma=model.gamma), labels)
    else:
        refuse("has a kernel that is Python code", "use kernel='rbf' or 'knn'")
    assert labels.shape[1] == count
    probability = graph.binary("Div", total, graph.reduce("ReduceSum", total, 1, keep=True))
    return Outcome(index=graph.argmax(probability), classes=model.classes_, probability=probability)
