"""scikit-learn's numeric preprocessing, in the order and types of its own expressions.

Source: ``sklearn/preprocessing/_data.py``, ``_polynomial.py``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.data import FLOATS, Data, matrix
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts
from vitrify.transforms.convert._numerics.distances import lengths
from vitrify.transforms.convert._numerics.elementary import expm1, log1p

if TYPE_CHECKING:
    from vitrify.transforms.convert._building.graph import Array, Graph, Operand, Tensor


def in_place(graph: Graph, kind: str, x: Tensor, value: Operand) -> Tensor:
    """Return ``x op= value``: computed in the promoted type, kept in the type of ``x``."""
    return graph.cast(graph.binary(kind, x, value), x.dtype)


def clip(graph: Graph, x: Tensor, low: float, high: float) -> Tensor:
    """Return ``numpy.clip(x, low, high)``: NaN stays NaN."""
    low_, high_ = (np.asarray(bound, x.dtype) for bound in (low, high))
    return graph.op("Clip", x, low_, high_, dtype=x.dtype)


@converts("sklearn.StandardScaler")
def standard_scaler(steps: Steps, scaler: Any, data: Data) -> Outcome:
    """Subtract the mean, divide by the scale; both in the type of the data."""
    graph, x = steps.graph, matrix(steps.graph, data, FLOATS)
    if scaler.with_mean:
        x = graph.binary("Sub", x, scaler.mean_.astype(x.dtype))
    if scaler.with_std:
        x = graph.binary("Div", x, scaler.scale_.astype(x.dtype))
    return Outcome(features=x)


@converts("sklearn.MinMaxScaler")
def min_max_scaler(steps: Steps, scaler: Any, data: Data) -> Outcome:
    """Multiply, then add, then clip."""
    graph, x = steps.graph, matrix(steps.graph, data, FLOATS)
    x = in_place(graph, "Mul", x, scaler.scale_)
    x = in_place(graph, "Add", x, scaler.min_)
    return Outcome(features=clip(graph, x, *scaler.feature_range) if scaler.clip else x)


@converts("sklearn.MaxAbsScaler")
def max_abs_scaler(steps: Steps, scaler: Any, data: Data) -> Outcome:
    """Divide by the largest magnitude."""
    graph = steps.graph
    x = in_place(graph, "Div", matrix(graph, data, FLOATS), scaler.scale_)
    return Outcome(features=clip(graph, x, -1, 1) if getattr(scaler, "clip", False) else x)


@converts("sklearn.RobustScaler")
def robust_scaler(steps: Steps, scaler: Any, data: Data) -> Outcome:
    """Subtract the median, divide by the range."""
    graph, x = steps.graph, matrix(steps.graph, data, FLOATS)
    if scaler.with_centering:
        x = in_place(graph, "Sub", x, scaler.center_)
    if scaler.with_scaling:
        x = in_place(graph, "Div", x, scaler.scale_)
    return Outcome(features=x)


@converts("sklearn.Normalizer")
def normalizer(steps: Steps, scaler: Any, data: Data) -> Outcome:
    """Divide each row by its norm."""
    return Outcome(features=normalize(steps.graph, matrix(steps.graph, data, FLOATS), scaler.norm))


def normalize(graph: Graph, x: Tensor, norm: str) -> Tensor:
    """Return each row divided by its norm; a row whose norm is next to nothing stays as it is."""
    size = graph.unary("Abs", x)
    if norm == "l1":
        norms = graph.reduce("ReduceSum", size, 1, keep=True)
    elif norm == "l2":
        norms = graph.unary("Sqrt", graph.reduce("ReduceSum", graph.binary("Mul", x, x), 1, keep=True))
    else:
        norms = graph.reduce("ReduceMax", size, 1, keep=True)
    return graph.binary("Div", x, lengths(graph, norms))


@converts("sklearn.Binarizer")
def binarizer(steps: Steps, step: Any, data: Data) -> Outcome:
    """Return 1 above the threshold, else 0, in the type of the data."""
    graph, x = steps.graph, matrix(steps.graph, data)
    return Outcome(features=graph.cast(graph.compare("Greater", x, step.threshold), x.dtype))


@converts("sklearn.PolynomialFeatures")
def polynomial_features(steps: Steps, step: Any, data: Data) -> Outcome:
    """Multiply the columns of each combination, from left to right as scikit-learn does."""
    graph, x = steps.graph, matrix(steps.graph, data, FLOATS)
    powers = np.asarray(step.powers_)
    product: Tensor | None = None
    width = int(powers.sum(axis=1).max(initial=0))
    ones = graph.constant(np.ones((1, 1), x.dtype))
    factors = np.full((len(powers), max(width, 1)), powers.shape[1])
    for row, exponents in enumerate(powers):
        names = np.repeat(np.arange(len(exponents)), exponents)
        # A degree-d feature is the degree-(d-1) feature of the later columns times the earliest column.
        factors[row, : len(names)] = names[::-1]
    padded = graph.concat([x, graph.op("Expand", ones, _rows_by_one(graph, x), dtype=x.dtype)])
    for position in range(factors.shape[1]):
        part = graph.gather(padded, factors[:, position], axis=1)
        product = part if product is None else graph.binary("Mul", product, part)
    assert product is not None
    return Outcome(features=product)


def _rows_by_one(graph: Graph, x: Tensor) -> Tensor:
    return graph.concat([graph.rows(x), graph.constant(np.array([1]))], axis=0)


@converts("sklearn.PowerTransformer")
def power_transformer(steps: Steps, step: Any, data: Data) -> Outcome:
    """Yeo-Johnson or Box-Cox a column, then standardise."""
    graph, x = steps.graph, matrix(steps.graph, data, FLOATS)
    lambdas = np.asarray(step.lambdas_, np.float64)
    if step.method == "box-cox":
        x = graph.cast(_bent(graph, graph.unary("Log", x), lambdas), x.dtype)
    else:
        x = _yeo_johnson(graph, x, lambdas)
    if not step.standardize:
        return Outcome(features=x)
    return standard_scaler(steps, step._scaler, x)  # noqa: SLF001 (scikit-learn keeps the fitted scaler there)


def _yeo_johnson(graph: Graph, x: Tensor, lambdas: Array) -> Tensor:
    zero = np.zeros((), x.dtype)
    below = graph.compare("Less", x, zero)
    up = _bent(graph, log1p(graph, graph.where(below, zero, x)), lambdas)
    down = _bent(graph, log1p(graph, graph.unary("Neg", graph.where(below, x, zero))), 2 - lambdas)
    return graph.cast(graph.where(below, graph.unary("Neg", down), up), x.dtype)


def _bent(graph: Graph, log: Tensor, power: Array) -> Tensor:
    """Return ``expm1(power * log) / power``, which for a power of zero is ``log``."""
    flat = np.abs(power) <= np.finfo(np.float64).eps
    curved = graph.binary("Div", expm1(graph, graph.binary("Mul", log, power)), np.where(flat, 1, power))
    return graph.where(graph.constant(flat), log, curved)
