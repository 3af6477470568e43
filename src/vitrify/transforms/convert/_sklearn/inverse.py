"""What takes a transformation back: ``inverse_transform``, as a transformed target needs it.

Source: ``sklearn/preprocessing/_data.py``, ``_function_transformer.py``, ``pipeline.py``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.data import FLOATS, matrix
from vitrify.transforms.convert._building.steps import refuse
from vitrify.transforms.convert._numerics.elementary import log1p
from vitrify.transforms.convert._numerics.interpolate import interpolate
from vitrify.transforms.convert._numerics.ufuncs import apply_function, is_known
from vitrify.transforms.convert._sklearn.scale import in_place
from vitrify.transforms.convert._trace.custom import function as traced_function
from vitrify.transforms.convert._trace.tracing import prepared

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.transforms.convert._building.graph import Graph, Tensor


def inverse(graph: Graph, step: Any, x: Tensor) -> Tensor:
    """Return ``step.inverse_transform(x)``.

    Raises:
        UnsupportedModelError: It is a step that cannot be taken back here.
    """
    kind = type(step).__name__
    if not type(step).__module__.startswith("sklearn."):
        return matrix(graph, traced_function(graph, prepared(step).inverse_transform, x, step, {}))
    if kind not in _INVERSES:
        known = ", ".join(sorted(_INVERSES))
        refuse(f"takes back a {kind} from the target", f"use a function of NumPy or one of {known}")
    return _INVERSES[kind](graph, step, x)


def _function(graph: Graph, step: Any, x: Tensor) -> Tensor:
    if step.inverse_func is None:
        return x
    if is_known(step.inverse_func) and not step.inv_kw_args:
        return apply_function(graph, step.inverse_func, x)
    return matrix(graph, traced_function(graph, step.inverse_func, x, step, step.inv_kw_args or {}))


def _standard(graph: Graph, step: Any, x: Tensor) -> Tensor:
    x = matrix(graph, x, FLOATS)
    if step.with_std:
        x = graph.binary("Mul", x, step.scale_.astype(x.dtype))
    return graph.binary("Add", x, step.mean_.astype(x.dtype)) if step.with_mean else x


def _min_max(graph: Graph, step: Any, x: Tensor) -> Tensor:
    x = in_place(graph, "Sub", matrix(graph, x, FLOATS), step.min_)
    return in_place(graph, "Div", x, step.scale_)


def _max_abs(graph: Graph, step: Any, x: Tensor) -> Tensor:
    return in_place(graph, "Mul", matrix(graph, x, FLOATS), step.scale_)


def _robust(graph: Graph, step: Any, x: Tensor) -> Tensor:
    x = matrix(graph, x, FLOATS)
    x = in_place(graph, "Mul", x, step.scale_) if step.with_scaling else x
    return in_place(graph, "Add", x, step.center_) if step.with_centering else x


def _power(graph: Graph, step: Any, x: Tensor) -> Tensor:
    x = matrix(graph, x, FLOATS)
    if step.standardize:
        x = _standard(graph, step._scaler, x)  # noqa: SLF001 (scikit-learn keeps the fitted scaler there)
    straight = _box_cox if step.method == "box-cox" else _yeo_johnson
    columns = [
        graph.cast(straight(graph, graph.gather(x, np.array([place]), axis=1), float(power)), x.dtype)
        for place, power in enumerate(step.lambdas_)
    ]
    return graph.concat(columns)


def _box_cox(graph: Graph, x: Tensor, power: float) -> Tensor:
    """Return SciPy's ``inv_boxcox``."""
    if power == 0:
        return graph.unary("Exp", x)
    return graph.unary("Exp", graph.binary("Div", log1p(graph, graph.binary("Mul", x, power)), power))


def _yeo_johnson(graph: Graph, x: Tensor, power: float) -> Tensor:
    """Return scikit-learn's own expressions, one a side of zero."""
    one, tiny = np.ones((), x.dtype), np.spacing(1.0)
    if abs(power) < tiny:
        up = graph.binary("Sub", graph.unary("Exp", x), one)
    else:
        base = graph.binary("Add", graph.binary("Mul", x, power), one)
        up = graph.binary("Sub", graph.binary("Pow", base, np.array(1 / power, x.dtype)), one)
    if abs(power - 2) > tiny:
        base = graph.binary("Add", graph.binary("Mul", x, -(2 - power)), one)
        down = graph.binary("Sub", one, graph.binary("Pow", base, np.array(1 / (2 - power), x.dtype)))
    else:
        down = graph.binary("Sub", one, graph.unary("Exp", graph.unary("Neg", x)))
    return graph.where(graph.compare("GreaterOrEqual", x, np.zeros((), x.dtype)), up, down)


def _quantile(graph: Graph, step: Any, x: Tensor) -> Tensor:
    if step.output_distribution != "uniform":
        refuse(
            "takes back a normal distribution, whose integral ONNX does not have", "use output_distribution='uniform'"
        )
    x = matrix(graph, x, FLOATS)
    columns = []
    for place in range(step.quantiles_.shape[1]):
        column = graph.gather(x, np.array(place), axis=1)
        columns.append(graph.column(interpolate(graph, column, step.references_, step.quantiles_[:, place])))
    return graph.cast(graph.concat(columns), x.dtype)


def _pipeline(graph: Graph, step: Any, x: Tensor) -> Tensor:
    for _, part in reversed(step.steps):
        if part is not None and part != "passthrough":
            x = inverse(graph, part, x)
    return x


_INVERSES: dict[str, Callable[[Graph, Any, Tensor], Tensor]] = {
    "FunctionTransformer": _function,
    "StandardScaler": _standard,
    "MinMaxScaler": _min_max,
    "MaxAbsScaler": _max_abs,
    "RobustScaler": _robust,
    "PowerTransformer": _power,
    "QuantileTransformer": _quantile,
    "Pipeline": _pipeline,
}
