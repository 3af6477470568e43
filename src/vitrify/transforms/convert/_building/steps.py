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
from vitrify.transforms.convert._building.graph import F64, I64, Array, Graph, Tensor

if TYPE_CHECKING:
    from vitrify.transforms.convert._building.data import Data


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
        *("_sklearn.scale", "_sklearn.encode", "_sklearn.text", "_sklearn.linear", "_sklearn.models"),
        *("_sklearn.trees", "_sklearn.meta", "_sklearn.compose", "_sklearn.function"),
        *("_sklearn.neighbors", "_sklearn.density", "_sklearn.process", "_sklearn.cluster", "_sklearn.chain"),
        *(
            "_sklearn.discriminant",
            "_sklearn.calibrate",
            "_sklearn.support",
            "_sklearn.impute",
            "_sklearn.select",
            "_sklearn.bins",
        ),
        *("_sklearn.kernel", "_sklearn.decompose", "_sklearn.factorise", "_sklearn.label", "_sklearn.manifold"),
        *("_sklearn.dict", "_sklearn.refused"),
    ),
    "xgboost": ("xgboost_onnx",),
    "lightgbm": ("lightgbm_onnx",),
    "catboost": ("catboost_onnx",),
}
"""The modules that hold the converters of a package's classes; imported when one of them is met."""

_FITTING = frozenset(
    {"fit", "fit_transform", "fit_predict", "partial_fit", "get_params", "set_params", "score", "_more_tags"}
    | {"get_feature_names_out", "_parameter_constraints", "_abc_impl", "_doc_link_module", "_doc_link_template"}
)
"""What a user's class may do otherwise than its parent and still predict as the parent does."""

_ANSWERS = frozenset({"transform", "predict", "predict_proba", "decision_function", "score_samples"})

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


def _is_known(kind: type) -> bool:
    """Return whether a class is of a package whose classes have converters or none, but are never traced."""
    return kind.__module__.partition(".")[0] in _HOMES


def _as_parent(kind: type) -> Converter | None:
    """Return the converter of the library's class that a user's class is one of, where it only fits otherwise."""
    own: set[str] = set()
    for base in kind.__mro__:
        if _is_known(base):
            changed = {name for name in own & {*dir(base)} - _FITTING if not name.endswith("_request")}
            return None if changed else _converter(base)
        own |= {name for name in vars(base) if not name.startswith("__") or name == "__call__"}
    return None


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
        except Exception as error:  # noqa: BLE001 (attributes of an estimator may raise anything)
            remedy = "if it is fitted, by the installed version, then replace this step by one that converts"
            self._note(kind.__name__, f"{type(error).__name__}: {error}", remedy)
        finally:
            self._place = outer
        return _STAND_IN

    def _convert(self, estimator: Any, data: Data) -> Outcome:
        kind = type(estimator)
        if own := sorted(_ANSWERS & getattr(estimator, "__dict__", {}).keys()):
            msg = f"answers with a function that was put on this one object ({', '.join(own)})"
            raise UnsupportedModelError(msg, remedy="write a class of your own with that method")
        converter = _converter(kind) or (None if _is_known(kind) else _as_parent(kind))
        if converter is None and not _is_known(kind):
            # The tracer knows the steps: imported by name, so that the modules form no circle.
            tracer = importlib.import_module("vitrify.transforms.convert._trace.custom")
            outcome: Outcome = tracer.traced(self, estimator, data)
            return outcome
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
