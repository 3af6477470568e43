"""The steps of a model: each is converted by the function that knows its class, and what cannot be is listed.

A converter takes an estimator and the data that reaches it, adds nodes, and returns an :class:`Outcome`. It
raises UnsupportedModelError for what it cannot do; that is noted with the step's place, and the walk goes on
with a stand-in, so that one walk finds every problem.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.report import Finding
from vitrify.transforms.convert._graph import F64, I64, Array, Graph, Tensor

if TYPE_CHECKING:
    from vitrify.transforms.convert._data import Data


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an estimator answers with; what it does not have is None. What nobody asks for costs nothing.

    Attributes:
        features: What ``transform`` returns.
        prediction: What ``predict`` of a regressor or clusterer returns: (rows,) or (rows, targets).
        index: For a classifier, the position in ``classes`` of what ``predict`` returns: (rows,) of int64.
        classes: Its labels in order.
        probability: What ``predict_proba`` returns: (rows, classes).
        score: What ``decision_function`` returns: (rows,) or (rows, classes).
        parts: For several targets, the outcome of each.
    """

    features: Data | None = None
    prediction: Tensor | None = None
    index: Tensor | None = None
    classes: Array | None = None
    probability: Tensor | None = None
    score: Tensor | None = None
    parts: tuple[Outcome, ...] = ()


Converter = Callable[["Steps", Any, "Data"], Outcome]
_CONVERTERS: dict[str, Converter] = {}

_HOMES = {
    "sklearn": (
        *("_sklearn_scale", "_sklearn_encode", "_sklearn_text", "_sklearn_linear", "_sklearn_models"),
        *("_sklearn_trees", "_sklearn_meta", "_sklearn_library"),
    ),
    "xgboost": ("xgboost_onnx",),
    "lightgbm": ("lightgbm_onnx",),
    "catboost": ("catboost_onnx",),
}
"""The modules that hold the converters of a package's classes; imported when one of them is met."""

_STAND_IN = Outcome(
    features=Tensor("unsupported", F64),
    prediction=Tensor("unsupported", F64),
    index=Tensor("unsupported", I64),
    classes=np.arange(2),
    probability=Tensor("unsupported", F64),
    score=Tensor("unsupported", F64),
)


def converts(*names: str) -> Callable[[Converter], Converter]:
    """Register a converter for classes, each named by its top-level package and its own name."""

    def register(converter: Converter) -> Converter:
        _CONVERTERS.update(dict.fromkeys(names, converter))
        return converter

    return register


def _converter(kind: type) -> Converter | None:
    package = kind.__module__.partition(".")[0]
    for module in _HOMES.get(package, ()):
        importlib.import_module(f"vitrify.transforms.convert.{module}")
    return _CONVERTERS.get(f"{package}.{kind.__name__}")


@dataclass
class Steps:
    """One walk through a model.

    Attributes:
        graph: Where the nodes go.
        problems: What could not be converted so far.
        notes: What a person should know about the result.
    """

    graph: Graph
    problems: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _place: tuple[str, ...] = ()

    def run(self, estimator: Any, data: Data, place: str, name: str | None = None) -> Outcome:
        """Convert one estimator.

        Args:
            estimator: A fitted estimator.
            data: What reaches it.
            place: Where it stands inside its parent, such as ``steps[1] 'log'``.
            name: What stands before the names of its nodes; by default its class, and nothing for the empty text.
        """
        kind = type(estimator)
        outer = self._place
        self._place = (*outer, place)
        try:
            with self.graph.scope(kind.__name__ if name is None else name):
                return self._convert(estimator, data)
        except UnsupportedModelError as error:
            self._note(kind.__name__, error.message, error.remedy)
        except Exception as error:  # noqa: BLE001 (attributes of an estimator, or skl2onnx, may raise anything)
            remedy = "if it is fitted, by the installed version, then replace this step by one that converts"
            self._note(kind.__name__, f"{type(error).__name__}: {error}", remedy)
        finally:
            self._place = outer
        return _STAND_IN

    def _convert(self, estimator: Any, data: Data) -> Outcome:
        converter = _converter(type(estimator))
        if converter is None:
            msg = "no converter to ONNX"
            raise UnsupportedModelError(msg, remedy="do this step before the model, or replace it by one that converts")
        return converter(self, estimator, data)

    def _note(self, kind: str, message: str, remedy: str) -> None:
        self.problems.append(Finding(place=f"{'.'.join(self._place)} ({kind})", message=message, remedy=remedy))


def refuse(message: str, remedy: str) -> NoReturn:
    """Say what a converter cannot do with this estimator, and what to do instead.

    Raises:
        UnsupportedModelError: Always.
    """
    raise UnsupportedModelError(message, remedy=remedy)
