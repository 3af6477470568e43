"""scikit-learn's numeric preprocessing, in the order and types of its own expressions.

Source: ``sklearn/preprocessing/_data.py``, ``_discretization.py``, ``_function_transformer.py``, ``impute/_base.py``
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._data import FLOATS, NAN_TEXT, NONE_TEXT, Data, matrix
from vitrify.transforms.convert._graph import BOOL, F32, F64, TEXT, Array, Graph, Tensor
from vitrify.transforms.convert._steps import Outcome, Steps, converts, refuse

if TYPE_CHECKING:
    from vitrify.transforms.convert._graph import Operand


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
    """Return each row divided by its norm; a row whose norm is zero stays as it is."""
    size = graph.unary("Abs", x)
    if norm == "l1":
        norms = graph.reduce("ReduceSum", size, 1, keep=True)
    elif norm == "l2":
        norms = graph.unary("Sqrt", graph.reduce("ReduceSum", graph.binary("Mul", x, x), 1, keep=True))
    else:
        norms = graph.reduce("ReduceMax", size, 1, keep=True)
    zero = graph.compare("Equal", norms, np.zeros((), x.dtype))
    return graph.binary("Div", x, graph.where(zero, np.ones((), x.dtype), norms))


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


@converts("sklearn.KBinsDiscretizer")
def k_bins_discretizer(steps: Steps, step: Any, data: Data) -> Outcome:
    """Count the inner edges at or below a value; one column a bin for the one-hot encodings."""
    graph = steps.graph
    x = matrix(graph, data, FLOATS if step.dtype is None else np.dtype(step.dtype))
    bins = [
        graph.reduce("ReduceSum", graph.cast(_at_least(graph, x, column, edges[1:-1]), x.dtype), 1, keep=True)
        for column, edges in enumerate(step.bin_edges_)
    ]
    if step.encode == "ordinal":
        return Outcome(features=graph.concat(bins))
    hot = [
        graph.cast(graph.compare("Equal", bins[column], np.arange(count, dtype=x.dtype)), x.dtype)
        for column, count in enumerate(step.n_bins_)
    ]
    return Outcome(features=graph.concat(hot))


def _at_least(graph: Graph, x: Tensor, column: int, edges: Array) -> Tensor:
    # One edge that nothing reaches keeps the sum defined for a column of a single bin.
    values = np.append(edges, np.inf).reshape(1, -1)
    return graph.compare("GreaterOrEqual", graph.gather(x, np.array([column]), axis=1), values)


_FUNCTIONS = {"absolute": "Abs", "sqrt": "Sqrt", "exp": "Exp", "log": "Log", "negative": "Neg"}
"""NumPy's functions that one ONNX operator computes."""


def log1p(graph: Graph, x: Tensor) -> Tensor:
    """Return ``log(1 + x)`` to a few ulps also near zero (Goldberg 1991, theorem 4)."""
    one = np.ones((), x.dtype)
    grown = graph.binary("Add", x, one)
    exact = graph.binary("Div", graph.binary("Mul", graph.unary("Log", grown), x), graph.binary("Sub", grown, one))
    tiny = graph.compare("Equal", grown, one)
    infinite = graph.compare("Equal", grown, np.array(np.inf, x.dtype))
    return graph.where(tiny, x, graph.where(infinite, grown, exact))


def expm1(graph: Graph, x: Tensor) -> Tensor:
    """Return ``exp(x) - 1`` to a few ulps also near zero (Kahan's quotient)."""
    one = np.ones((), x.dtype)
    power = graph.unary("Exp", x)
    less = graph.binary("Sub", power, one)
    exact = graph.binary("Div", graph.binary("Mul", less, x), graph.unary("Log", power))
    tiny = graph.compare("Equal", power, one)
    lost = graph.compare("Equal", less, -one)
    infinite = graph.compare("Equal", power, np.array(np.inf, x.dtype))
    return graph.where(tiny, x, graph.where(lost, -one, graph.where(infinite, power, exact)))


def apply_function(graph: Graph, function: Any, x: Tensor) -> Tensor:
    """Return a function of NumPy of each element.

    Raises:
        UnsupportedModelError: It is none that can be converted.
    """
    name = getattr(function, "__name__", type(function).__name__)
    if not isinstance(function, np.ufunc) or name not in {*_FUNCTIONS, "log1p", "expm1"}:
        can = ", ".join(f"numpy.{known}" for known in sorted([*_FUNCTIONS, "log1p", "expm1"]))
        refuse(
            f"calls {name}, which is Python code and no ONNX operator", f"use one of {can}, or do it before the model"
        )
    if name in _FUNCTIONS:
        return graph.unary(_FUNCTIONS[name], x)
    return log1p(graph, x) if name == "log1p" else expm1(graph, x)


@converts("sklearn.FunctionTransformer")
def function_transformer(steps: Steps, step: Any, data: Data) -> Outcome:
    """Convert the functions that ONNX has; any other is code."""
    if step.func is None:
        return Outcome(features=data)
    if step.kw_args:
        refuse("calls its function with kw_args", "leave kw_args out")
    name = getattr(step.func, "__name__", "")
    wanted = None if name in {"absolute", "negative"} else FLOATS
    return Outcome(features=apply_function(steps.graph, step.func, matrix(steps.graph, data, wanted)))


@converts("sklearn.SimpleImputer")
def simple_imputer(steps: Steps, step: Any, data: Data) -> Outcome:
    """Put the statistic where a value is missing; a column that had none at all is dropped."""
    graph = steps.graph
    x = matrix(graph, data, None if step.strategy in {"most_frequent", "constant"} else FLOATS)
    missing = is_missing(graph, x, step.missing_values)
    statistics = np.asarray(step.statistics_)
    empty = np.array([value is None or value != value for value in statistics.tolist()])  # noqa: PLR0124 (NaN)
    filled = x
    if empty.any() and not step.keep_empty_features:
        kept = np.flatnonzero(~empty)
        filled, statistics = graph.gather(x, kept, axis=1), statistics[kept]
        filled_missing = graph.gather(missing, kept, axis=1)
    else:
        filled_missing = missing
    values = statistics.astype(str).astype(TEXT) if x.dtype == TEXT else statistics.astype(x.dtype)
    filled = graph.where(filled_missing, values, filled)
    if not step.add_indicator:
        return Outcome(features=filled)
    if x.dtype == TEXT:
        msg = "an indicator of missing text goes into one array of objects with it, which ONNX does not have"
        refuse(msg, "set add_indicator=False")
    flags = graph.gather(missing, np.asarray(step.indicator_.features_), axis=1)
    return Outcome(features=graph.concat([filled, graph.cast(flags, filled.dtype)]))


def is_missing(graph: Graph, x: Tensor, marker: Any) -> Tensor:
    """Return where a value is what a scikit-learn step calls missing."""
    nothing = marker is None or marker != marker or type(marker).__name__ == "NAType"  # noqa: PLR0124 (NaN)
    if x.dtype == TEXT:
        text = (NONE_TEXT if marker is None else NAN_TEXT) if nothing else marker
        return graph.compare("Equal", x, np.array(text, TEXT))
    if not nothing:
        return graph.compare("Equal", x, np.asarray(marker, x.dtype))
    if x.dtype in {F32, F64}:
        return graph.op("IsNaN", x, dtype=BOOL)
    never = graph.constant(np.array(np.iinfo(x.dtype).min if x.dtype.kind != "b" else False, x.dtype))
    return graph.op("And", graph.compare("Equal", x, never), np.array(False), dtype=BOOL)  # noqa: FBT003 (a constant)


@converts(
    *(
        f"sklearn.{name}"
        for name in (
            "VarianceThreshold", "SelectKBest", "SelectPercentile", "SelectFpr", "SelectFdr", "SelectFwe",
            "GenericUnivariateSelect", "SelectFromModel", "RFE", "RFECV", "SequentialFeatureSelector",
        )
    )
)  # fmt: skip
def selector(steps: Steps, step: Any, data: Data) -> Outcome:
    """Keep the selected columns; recursive elimination predicts from them too."""
    graph, kept = steps.graph, step.get_support(indices=True)
    if len(kept) == 0:
        refuse("selects no column at all", "leave the step out, or loosen it")
    features = graph.gather(matrix(graph, data), np.asarray(kept), axis=1)
    if not hasattr(step, "predict"):
        return Outcome(features=features)
    return replace(steps.run(step.estimator_, features, "estimator_"), features=features)
