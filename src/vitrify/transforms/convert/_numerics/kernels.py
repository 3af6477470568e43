"""Kernels between rows and the points that a model holds.

Source: ``sklearn/metrics/pairwise.py`` (``pairwise_kernels``), ``gaussian_process/kernels.py``
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.steps import refuse
from vitrify.transforms.convert._numerics.distances import (
    Metric,
    cosine_similarity,
    squared_by_products,
    squared_distances,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vitrify.transforms.convert._building.graph import Array, Graph, Tensor

    Settings = Mapping[str, Any]


def pairwise_kernel(graph: Graph, name: Any, x: Tensor, points: Array, **settings: Any) -> Tensor:
    """Return (rows, points) of one of scikit-learn's named kernels.

    Args:
        graph: Where it is computed.
        name: ``linear``, ``poly``, ``rbf`` ...
        x: The rows.
        points: What the model was fitted on.
        settings: ``gamma``, ``degree``, ``coef0``; None for the default.
    """
    if name not in _NAMED:
        what = repr(name) if isinstance(name, str) else "Python code"
        refuse(f"has a kernel that is {what}", f"use one of the kernels {', '.join(sorted(_NAMED))}")
    return _NAMED[name](graph, x, points, {key: value for key, value in settings.items() if value is not None})


def _gamma(points: Array, given: Settings) -> float:
    return float(given.get("gamma", 1.0 / points.shape[1]))


def _score(graph: Graph, x: Tensor, points: Array, given: Settings) -> Tensor:
    product = graph.binary("Mul", graph.matmul(x, points.T), _gamma(points, given))
    return graph.binary("Add", product, float(given.get("coef0", 1)))


def _bell(graph: Graph, distances: Tensor, points: Array, given: Settings) -> Tensor:
    return graph.unary("Exp", graph.binary("Mul", distances, -_gamma(points, given)))


_NAMED: dict[str, Callable[[Graph, Tensor, Array, Settings], Tensor]] = {
    "linear": lambda graph, x, points, _: graph.matmul(x, points.T),
    "cosine": lambda graph, x, points, _: cosine_similarity(graph, x, points),
    "poly": lambda graph, x, points, given: _power(graph, _score(graph, x, points, given), given.get("degree", 3)),
    "sigmoid": lambda graph, x, points, given: graph.unary("Tanh", _score(graph, x, points, given)),
    "rbf": lambda graph, x, points, given: _bell(graph, squared_by_products(graph, x, points), points, given),
    "laplacian": lambda graph, x, points, given: _bell(
        graph, Metric("manhattan").reduced(graph, x, points), points, given
    ),
    "additive_chi2": lambda graph, x, points, _: _additive_chi2(graph, x, points),
    "chi2": lambda graph, x, points, given: graph.unary(
        "Exp", graph.binary("Mul", _additive_chi2(graph, x, points), float(given.get("gamma", 1.0)))
    ),
}
_NAMED["polynomial"] = _NAMED["poly"]


def _additive_chi2(graph: Graph, x: Tensor, points: Array) -> Tensor:
    total: Tensor | None = None
    for column in range(points.shape[1]):
        value, point = graph.gather(x, np.array([column]), axis=1), points[:, column].reshape(1, -1)
        apart, both = graph.binary("Sub", value, point), graph.binary("Add", value, point)
        nothing = graph.compare("Equal", both, np.zeros((), x.dtype))
        divisor = graph.where(nothing, np.ones((), x.dtype), both)
        part = graph.binary("Div", graph.binary("Mul", apart, apart), divisor)
        part = graph.where(nothing, np.zeros((), x.dtype), part)
        total = part if total is None else graph.binary("Add", total, part)
    assert total is not None
    return graph.unary("Neg", total)


def _power(graph: Graph, x: Tensor, exponent: Any) -> Tensor:
    return graph.binary("Pow", x, float(exponent))


def process_kernel(graph: Graph, kernel: Any, x: Tensor, points: Array) -> Tensor:
    """Return (rows, points) of the kernel of a Gaussian process."""
    name = type(kernel).__name__
    if name not in _KERNELS or not type(kernel).__module__.startswith("sklearn."):
        known = ", ".join(sorted(_KERNELS))
        refuse(f"has the kernel {name}, which is Python code", f"use a kernel made of {known}")
    return _KERNELS[name](graph, kernel, x, points)


def _full(graph: Graph, x: Tensor, points: Array, value: float) -> Tensor:
    width = graph.constant(np.array([len(points)]))
    return graph.op(
        "Expand", np.array([[value]]), graph.concat([graph.rows(x), width], axis=0), dtype=graph.real(np.float64)
    )


def _scaled(graph: Graph, x: Tensor, points: Array, length: Any) -> Tensor:
    """Return squared distances after division by the length scale."""
    scale = np.squeeze(np.asarray(length, np.float64))
    return squared_distances(graph, graph.binary("Div", x, scale), points / scale)


def _rbf(graph: Graph, kernel: Any, x: Tensor, points: Array) -> Tensor:
    return graph.unary("Exp", graph.binary("Mul", _scaled(graph, x, points, kernel.length_scale), -0.5))


def _matern(graph: Graph, kernel: Any, x: Tensor, points: Array) -> Tensor:
    distance = graph.unary("Sqrt", _scaled(graph, x, points, kernel.length_scale))
    if kernel.nu == np.inf:
        square = graph.binary("Mul", distance, distance)
        return graph.unary("Exp", graph.binary("Div", graph.unary("Neg", square), 2.0))
    if kernel.nu == 0.5:  # noqa: PLR2004 (the exponential kernel)
        return graph.unary("Exp", graph.unary("Neg", distance))
    if kernel.nu not in {1.5, 2.5}:
        refuse(f"has a Matern kernel with nu={kernel.nu}, a Bessel function", "use nu=0.5, 1.5, 2.5 or inf")
    scaled = graph.binary("Mul", distance, sqrt(2 * kernel.nu))
    front = graph.binary("Add", np.ones(()), scaled)
    if kernel.nu == 2.5:  # noqa: PLR2004 (twice differentiable)
        third = graph.binary("Div", graph.binary("Mul", scaled, scaled), 3.0)
        front = graph.binary("Add", front, third)
    return graph.binary("Mul", front, graph.unary("Exp", graph.unary("Neg", scaled)))


def _rational_quadratic(graph: Graph, kernel: Any, x: Tensor, points: Array) -> Tensor:
    distance = squared_distances(graph, x, points)
    scaled = graph.binary("Div", distance, float(2 * kernel.alpha * kernel.length_scale**2))
    return _power(graph, graph.binary("Add", np.ones(()), scaled), -kernel.alpha)


def _exp_sine_squared(graph: Graph, kernel: Any, x: Tensor, points: Array) -> Tensor:
    distance = graph.unary("Sqrt", squared_distances(graph, x, points))
    wave = graph.unary("Sin", graph.binary("Mul", distance, float(np.pi / kernel.periodicity)))
    wave = graph.binary("Div", wave, float(kernel.length_scale))
    return graph.unary("Exp", graph.binary("Mul", graph.binary("Mul", wave, wave), -2.0))


def _dot_product(graph: Graph, kernel: Any, x: Tensor, points: Array) -> Tensor:
    return graph.binary("Add", graph.matmul(x, points.T), float(kernel.sigma_0**2))


def _pairwise(graph: Graph, kernel: Any, x: Tensor, points: Array) -> Tensor:
    settings = dict(kernel.pairwise_kernels_kwargs or {})
    if kernel.metric in {"rbf", "laplacian", "chi2", "poly", "polynomial", "sigmoid"}:
        settings["gamma"] = kernel.gamma
    return pairwise_kernel(graph, kernel.metric, x, points, **settings)


_KERNELS: dict[str, Callable[[Graph, Any, Tensor, Array], Tensor]] = {
    "ConstantKernel": lambda graph, kernel, x, points: _full(graph, x, points, float(kernel.constant_value)),
    "WhiteKernel": lambda graph, _, x, points: _full(graph, x, points, 0.0),
    "RBF": _rbf,
    "Matern": _matern,
    "RationalQuadratic": _rational_quadratic,
    "ExpSineSquared": _exp_sine_squared,
    "DotProduct": _dot_product,
    "PairwiseKernel": _pairwise,
    "Sum": lambda graph, kernel, x, points: graph.binary(
        "Add", process_kernel(graph, kernel.k1, x, points), process_kernel(graph, kernel.k2, x, points)
    ),
    "Product": lambda graph, kernel, x, points: graph.binary(
        "Mul", process_kernel(graph, kernel.k1, x, points), process_kernel(graph, kernel.k2, x, points)
    ),
    "Exponentiation": lambda graph, kernel, x, points: _power(
        graph, process_kernel(graph, kernel.kernel, x, points), kernel.exponent
    ),
}


def process_variance(graph: Graph, kernel: Any, x: Tensor) -> Tensor:
    """Return the kernel of each row with itself: (rows,)."""
    name = type(kernel).__name__
    if name in {"Sum", "Product"}:
        parts = (process_variance(graph, part, x) for part in (kernel.k1, kernel.k2))
        return graph.binary("Add" if name == "Sum" else "Mul", *parts)
    if name == "Exponentiation":
        return _power(graph, process_variance(graph, kernel.kernel, x), kernel.exponent)
    if name == "DotProduct":
        square = graph.reduce("ReduceSum", graph.binary("Mul", x, x), 1)
        return graph.binary("Add", square, float(kernel.sigma_0**2))
    if name == "PairwiseKernel" and kernel.metric not in {"rbf", "laplacian", "cosine", "chi2"}:
        refuse(f"has a PairwiseKernel {kernel.metric!r} in a classifier", "use RBF, Matern or DotProduct")
    value = {"ConstantKernel": "constant_value", "WhiteKernel": "noise_level"}.get(name)
    return graph.op(
        "Expand",
        np.array([float(getattr(kernel, value)) if value else 1.0]),
        graph.rows(x),
        dtype=graph.real(np.float64),
    )
