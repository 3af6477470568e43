"""What a pickle may use of NumPy and SciPy: functions that compute on arrays, and objects that hold some."""

from __future__ import annotations

import importlib
import inspect
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_DISPATCHED = ("numpy", "numpy.linalg", "numpy.fft")
_NOT_PURE = frozenset(
    {
        *("save", "savetxt", "savez", "savez_compressed"),  # write files
        *("apply_along_axis", "apply_over_axes", "piecewise", "array2string"),  # call what they are given
        *("copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"),  # change what they are given
    }
)
_FUNCTION_MODULES = ("scipy.spatial.distance", "scipy.special._logsumexp")
_STATISTICS = (
    *("gmean", "hmean", "iqr", "kurtosis", "pearsonr", "rankdata", "sem", "skew", "spearmanr", "trim_mean", "tmean"),
    *("variation", "zscore"),
)
_MORE = frozenset({"numpy.eye", "numpy.identity", "numpy.linspace", "numpy.tri"})

_POLYNOMIALS = {
    "chebyshev": "Chebyshev",
    "hermite": "Hermite",
    "hermite_e": "HermiteE",
    "laguerre": "Laguerre",
    "legendre": "Legendre",
    "polynomial": "Polynomial",
}
VECTORIZE = "numpy.vectorize"
"""Calls a function for each item, which its state names: :mod:`vitrify.pickles.arguments` looks at that."""

_AXES = frozenset({"_y_axis", "_y_extra_shape", "dtype"})
_PIECES = frozenset({"_asarray", "_c", "_x", "axis", "extrapolate"})
SLOTS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "scipy.interpolate._interpolate.interp1d": _AXES,
        "scipy.interpolate._polyint.BarycentricInterpolator": _AXES,
        "scipy.interpolate._polyint.KroghInterpolator": _AXES,
        **{f"scipy.interpolate._interpolate.{name}": _PIECES for name in ("BPoly", "PPoly")},
        **{
            f"scipy.interpolate._cubic.{name}": _PIECES
            for name in ("Akima1DInterpolator", "CubicHermiteSpline", "CubicSpline", "PchipInterpolator")
        },
    }
)
"""Interpolators, and the attributes that their state sets one by one: their slots, none of them a property."""

STATES = frozenset(
    {
        VECTORIZE,
        "numpy.poly1d",
        *(f"numpy.polynomial.{module}.{name}" for module, name in _POLYNOMIALS.items()),
        *SLOTS,
        "scipy.optimize._constraints.Bounds",
        "scipy.optimize._constraints.LinearConstraint",
        "scipy.optimize._optimize.OptimizeResult",
        "scipy.optimize._zeros_py.RootResults",
    }
)
CALLS = frozenset({"numpy.ma.core.MaskedConstant", "numpy.linalg.LinAlgError"})
TYPES = frozenset({"numpy.char.chararray", "numpy.linalg.LinAlgError", "scipy.interpolate._interpolate.interp1d"})
_RESULTS = ("scipy.stats._stats_py", "scipy.stats._morestats", "scipy.stats._mannwhitneyu", "scipy.stats.contingency")
_DISCRETE = "scipy.stats._discrete_distns"
_DISTRIBUTIONS = ("scipy.stats._continuous_distns", _DISCRETE, "scipy.stats._levy_stable")


def functions() -> Iterator[str]:
    """Functions that compute on arrays."""
    import numpy as np

    for home in _DISPATCHED:
        for name, value in vars(importlib.import_module(home)).items():
            if type(value) is type(np.mean) and name not in _NOT_PURE:
                yield f"{value.__module__}.{name}"
    for home in _FUNCTION_MODULES:
        module = importlib.import_module(home)
        for name, _ in inspect.getmembers(module, inspect.isfunction):
            if getattr(module, name).__module__ == home and not name.startswith("_"):
                yield f"{home}.{name}"
    yield from (f"scipy.stats._stats_py.{name}" for name in _STATISTICS)
    yield from _MORE


def results() -> Iterator[str]:
    """What tests of statistics return: tuples with names."""
    for home in _RESULTS:
        for name, value in vars(importlib.import_module(home)).items():
            if isinstance(value, type) and issubclass(value, tuple) and value.__module__ == home:
                yield f"{home}.{name}"


def methods() -> Iterator[str]:
    """Methods that stand in the states of these objects."""
    for name, _ in inspect.getmembers(importlib.import_module("scipy.interpolate").interp1d, inspect.isfunction):
        if name.startswith("_call_"):
            yield f"scipy.interpolate._interpolate.interp1d.{name}"
    yield from (f"{name}._entropy" for name in distributions() if name.startswith(_DISCRETE))


def distributions() -> Iterator[str]:
    """Distributions that :mod:`vitrify.pickles.distributions` can make again."""
    from scipy.stats import rv_continuous, rv_discrete

    for home in _DISTRIBUTIONS:
        for name, value in vars(importlib.import_module(home)).items():
            makes = getattr(value, "__init__", None) if isinstance(value, type) else None
            if makes in {rv_continuous.__init__, rv_discrete.__init__} and value.__module__ == home:
                yield f"{home}.{name}"


def frozen() -> Iterator[str]:
    """Distributions with their parameters."""
    from scipy.stats._distn_infrastructure import rv_frozen

    for home in ("scipy.stats._distn_infrastructure", *_DISTRIBUTIONS):
        for name, value in vars(importlib.import_module(home)).items():
            if isinstance(value, type) and issubclass(value, rv_frozen) and value.__module__ == home:
                yield f"{home}.{name}"
