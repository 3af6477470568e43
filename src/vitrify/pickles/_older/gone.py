"""Stand-ins for classes and functions that scikit-learn no longer has.

A pickle that names one gets a stand-in instead: an inert record of the name and the attributes. What an estimator
needs of it is made from that by the steps of :mod:`._older.trees` and :mod:`._older.others`; the rest is dropped there,
so that none remains in a model.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

_LOSSES = "sklearn._loss._loss"
_CY_LOSSES = (
    *("CyAbsoluteError", "CyExponentialLoss", "CyHalfBinomialLoss", "CyHalfGammaLoss", "CyHalfMultinomialLoss"),
    *("CyHalfPoissonLoss", "CyHalfSquaredError", "CyHalfTweedieLoss", "CyHalfTweedieLossIdentity", "CyHuberLoss"),
    "CyPinballLoss",
)


class Gone:
    """The record of an instance of a class that is gone; ``name`` is what the class was called."""

    name = ""

    def __init__(self, *args: Any) -> None:
        """Keep what its constructor was given."""
        self.args = args
        self.state: dict[str, Any] = {}

    def __setstate__(self, state: Any) -> None:
        """Keep its attributes; it may have been made past its constructor."""
        self.args = getattr(self, "args", ())
        self.state = state if isinstance(state, dict) else {}


def passthrough(estimator: Any, *args: Any, **kwargs: Any) -> Any:
    """Score by the estimator's own score: the function that scikit-learn had for it until 1.2."""
    return estimator.score(*args, **kwargs)


def _loss(cls: Any, checksum: Any, state: Any = ()) -> Any:  # noqa: ARG001 (the checksum of another release's layout)
    """Return a loss that Cython's own reduction wrote; today's have the same parameters."""
    known = isinstance(cls, type) and cls.__module__ == _LOSSES and cls.__name__ in _CY_LOSSES
    if not known or not all(type(one) is float for one in state or ()):
        refuse("pickle", f"a loss {cls!r:.60} with {state!r:.60}")
    return cls(*(state or ()))


def _ufunc(module: Any, name: Any) -> Any:
    """Return a universal function by its name, as NumPy before 1.25 asked for it."""
    import importlib

    import numpy as np

    home = _UFUNCS.get(module) if isinstance(module, str) else None
    found = getattr(importlib.import_module(home), name, None) if home and isinstance(name, str) else None
    if not isinstance(found, np.ufunc):
        refuse("pickle", f"a universal function {name!r:.60} of {module!r:.60}")
    return found


def _record(name: str) -> type[Gone]:
    return type("Gone", (Gone,), {"name": name})


_UFUNCS = {
    "numpy": "numpy",
    "numpy.core._multiarray_umath": "numpy",
    "numpy.core.umath": "numpy",
    "scipy.special": "scipy.special",
    "scipy.special._ufuncs": "scipy.special",
}
"""Where universal functions said that they live, and where they are found."""

_GRADIENT_BOOSTING = (
    *("BinomialDeviance", "ExponentialLoss", "HuberLossFunction", "LeastAbsoluteError", "LeastSquaresError"),
    *("MultinomialDeviance", "QuantileLossFunction"),
)
_INITIAL = (
    *("LogOddsEstimator", "MeanEstimator", "PriorProbabilityEstimator", "QuantileEstimator", "ScaledLogOddsEstimator"),
    "ZeroEstimator",
)
_HISTOGRAM = ("BinaryCrossEntropy", "CategoricalCrossEntropy", "LeastAbsoluteDeviation", "LeastSquares", "Poisson")
_FAMILIES = ("GammaDistribution", "InverseGaussianDistribution", "NormalDistribution", "PoissonDistribution")

_RECORDS = {
    "sklearn.ensemble._gb": (*_GRADIENT_BOOSTING, *_INITIAL),
    "sklearn.ensemble._gb_losses": _GRADIENT_BOOSTING,
    "sklearn.ensemble._hist_gradient_boosting.loss": _HISTOGRAM,
    "sklearn._loss.glm_distribution": (*_FAMILIES, "DistributionBoundary", "TweedieDistribution"),
    "sklearn.linear_model._sgd_fast": ("Log", "SquaredLoss"),
}

STAND_INS: dict[str, Callable[..., Any]] = {
    **{f"{module}.{name}": _record(name) for module, names in _RECORDS.items() for name in names},
    **{f"{_LOSSES}.__pyx_unpickle_{name}": _loss for name in _CY_LOSSES if name != "CyHalfMultinomialLoss"},
    "collections.OrderedDict": collections.OrderedDict,  # for a dictionary that warned about some of its keys
    "numpy._core._ufunc_reconstruct": _ufunc,
    "sklearn.metrics._scorer._passthrough_scorer": passthrough,
}

REFERRED = frozenset(
    {
        *("builtins.DeprecationWarning", "builtins.FutureWarning", "sklearn.metrics._scorer._passthrough_scorer"),
        *(f"{_LOSSES}.{name}" for name in _CY_LOSSES),
    }
)
"""Names that older pickles hold as values."""
