"""NumPy's and SciPy's functions of each element, in the element type that each of them computes in.

Source: https://numpy.org/doc/stable/reference/ufuncs.html#available-ufuncs, ``scipy/special``
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.graph import BOOL, F32, F64, TEXT, Graph, Tensor
from vitrify.transforms.convert._building.steps import refuse
from vitrify.transforms.convert._numerics import elementary

if TYPE_CHECKING:
    from vitrify.transforms.convert._building.graph import DType

_Function = Callable[[Graph, Tensor], Tensor]


def _operator(kind: str) -> _Function:
    return lambda graph, x: graph.unary(kind, x)


def _scaled(kind: str, by: float) -> _Function:
    return lambda graph, x: graph.binary(kind, x, by)


def _log(base: float) -> _Function:
    return lambda graph, x: graph.binary("Div", graph.unary("Log", x), float(np.log(base)))


def _power(base: float) -> _Function:
    return lambda graph, x: graph.binary("Pow", np.array(base, x.dtype), x)


def _test(kind: str, *, negated: bool = False) -> _Function:
    def test(graph: Graph, x: Tensor) -> Tensor:
        found = graph.op(kind, x, dtype=BOOL)
        return graph.op("Not", found, dtype=BOOL) if negated else found

    return test


def _same(_graph: Graph, x: Tensor) -> Tensor:
    return x


def _finite(graph: Graph, x: Tensor) -> Tensor:
    return graph.compare("Less", graph.unary("Abs", x), np.array(np.inf, x.dtype))


_FUNCTIONS: dict[str, _Function] = {
    **{name: _operator(name.capitalize()) for name in ("sqrt", "exp", "log", "sin", "cos", "tanh", "floor", "ceil")},
    **{name: _operator(name.capitalize()) for name in ("sign", "reciprocal")},
    "absolute": _operator("Abs"),
    "fabs": _operator("Abs"),
    "negative": _operator("Neg"),
    "rint": _operator("Round"),
    "positive": _same,
    "conjugate": _same,
    "square": lambda graph, x: graph.binary("Mul", x, x),
    "degrees": _scaled("Mul", 180 / np.pi),
    "rad2deg": _scaled("Mul", 180 / np.pi),
    "radians": _scaled("Mul", np.pi / 180),
    "deg2rad": _scaled("Mul", np.pi / 180),
    "log2": _log(2),
    "log10": _log(10),
    "exp2": _power(2),
    "exp10": _power(10),
    "isnan": _test("IsNaN"),
    "isinf": _test("IsInf"),
    "isfinite": _finite,
    "logical_not": lambda graph, x: graph.compare("Equal", x, np.zeros((), x.dtype)),
    **{
        name: getattr(elementary, name)
        for name in (
            *("log1p", "expm1", "tan", "sinh", "cosh", "arcsinh", "arccosh", "arctanh", "arctan", "arcsin", "arccos"),
            *("cbrt", "trunc", "expit", "logit", "log_expit"),
        )
    },
}
"""By the ufunc's own name, which ``numpy.abs`` and the like share."""


def _always(graph: Graph, x: Tensor) -> Tensor:
    return graph.compare("Equal", x, x)


def _never(graph: Graph, x: Tensor) -> Tensor:
    return graph.op("Not", _always(graph, x), dtype=BOOL)


_ON_WHOLE: dict[str, _Function] = {
    **dict.fromkeys(("floor", "ceil", "trunc", "rint"), _same),
    **dict.fromkeys(("isnan", "isinf"), _never),
    "absolute": lambda graph, x: x if x.dtype == BOOL else graph.unary("Abs", x),
    "isfinite": _always,
}
"""The same for loops over whole numbers, where ONNX has the operator for real ones only."""


def apply_function(graph: Graph, function: Any, x: Tensor) -> Tensor:
    """Return a ufunc of each element, in the type in which its own loop computes.

    Raises:
        UnsupportedModelError: It is none that can be converted, or takes no such values.
    """
    name = getattr(function, "__name__", type(function).__name__)
    if not is_known(function):
        known = ", ".join(sorted(_FUNCTIONS))
        message = f"calls {name}, which is Python code or no function that ONNX can compute"
        refuse(message, f"use one of NumPy's or SciPy's {known}; or do it before the model")
    taken, given = _loop(function, x.dtype)
    inner = F32 if taken == np.float16 else taken
    whole = inner.kind in "iub"
    if inner.kind == "u" and name == "negative":
        refuse("calls negative on unsigned numbers, which wrap around", "turn the column into signed numbers")
    if whole and name == "reciprocal":
        refuse(
            "calls reciprocal on whole numbers, which is 0 for all but 1 and -1", "turn the column into real numbers"
        )
    compute = _ON_WHOLE.get(name, _FUNCTIONS[name]) if whole else _FUNCTIONS[name]
    value = compute(graph, graph.cast(x, inner))
    return graph.cast(value, given)


def is_known(function: Any) -> bool:
    """Return whether a function is a ufunc that the graph can compute."""
    return isinstance(function, np.ufunc) and function.nin == 1 and function.__name__ in _FUNCTIONS


def _loop(function: np.ufunc, dtype: DType) -> tuple[DType, DType]:
    """Return the element types that the ufunc's loop for such values takes and gives."""
    if dtype == TEXT:
        refuse(f"calls {function.__name__} on text", "encode the text first")
    try:
        taken, given = function.resolve_dtypes((dtype, None))
    except (TypeError, AttributeError):  # SciPy's ufuncs before NumPy could be asked: they know float and double
        kinds = [kind for kind in (F32, F64) if np.can_cast(dtype, kind)]
        return kinds[0], kinds[0]
    return taken, given
