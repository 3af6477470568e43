"""Custom functions and classes among a model's steps: traced, and answered as the step's own methods answer.

A class is asked through its public methods: ``transform``, ``predict``, ``predict_proba``, ``decision_function``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.convert._building.data import Data, Frame
from vitrify.transforms.convert._building.graph import BOOL, TEXT, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps
from vitrify.transforms.convert._trace.tracing import Answer, prepared, trace

if TYPE_CHECKING:
    from collections.abc import Callable

_PREDICTING = ("predict", "predict_proba", "decision_function")
_METHODS = ("transform", *_PREDICTING)


def traced(steps: Steps, model: Any, data: Data) -> Outcome:
    """Convert a step of a class that no converter knows.

    Raises:
        UnsupportedModelError: It has none of the methods, or one of them cannot be traced.
    """
    called = [name for name in _METHODS if callable(getattr(model, name, None))]
    if not called:
        msg = f"no converter to ONNX, and no method to trace ({', '.join(_METHODS)})"
        raise UnsupportedModelError(msg, remedy="give it transform or predict, written in NumPy")
    answers: dict[str, Answer] = {}
    for name in called:
        try:
            answers[name] = _call(steps, model, data, name)
        except UnsupportedModelError:
            if name == "transform" and "predict" in called:  # a predictor is asked to predict
                continue
            raise
    steps.notes.append(f"{type(model).__name__} was traced: its NumPy code became operators of the graph")
    return _outcome(steps.graph, model, answers)


def function(graph: Graph, call: Callable[..., Any], data: Data, model: Any, arguments: dict[str, Any]) -> Data:
    """Return what a function of the user's own gives.

    Args:
        graph: Where it is computed.
        call: The function.
        data: What reaches it.
        model: The step that calls it, which knows how many columns there are and what they are called.
        arguments: Its other arguments.

    Raises:
        UnsupportedModelError: It cannot be traced.
    """
    name = getattr(call, "__qualname__", type(call).__name__)
    width, names = _known(model)
    return _explained(name, lambda: trace(graph, lambda x: call(x, **arguments), data, width=width, names=names)).data


def _call(steps: Steps, model: Any, data: Data, name: str) -> Answer:
    width, names = _known(model)
    where = f"{type(model).__qualname__}.{name}"
    # A copy for every call: what one of them leaves behind shows in none of the others, but in the module it does.
    shared = prepared(model)
    return _explained(where, lambda: trace(steps.graph, getattr(shared, name), data, width=width, names=names))


def _known(model: Any) -> tuple[int | None, Any]:
    return getattr(model, "n_features_in_", None), getattr(model, "feature_names_in_", None)


def _explained(name: str, call: Callable[[], Answer]) -> Answer:
    """Say of whatever the user's code raises that it was raised while tracing."""
    try:
        return call()
    except UnsupportedModelError as error:
        msg = (
            f"cannot be traced: {error.message}"
            if name in error.message
            else f"{name} cannot be traced: {error.message}"
        )
        raise UnsupportedModelError(msg, remedy=error.remedy) from error
    except Exception as error:
        msg = f"{name} cannot be traced: it raised {type(error).__name__}: {error}"
        remedy = "write it in NumPy alone, so that it works on whole columns"
        raise UnsupportedModelError(msg, remedy=remedy) from error


def _outcome(graph: Graph, model: Any, answers: dict[str, Answer]) -> Outcome:
    features = answers["transform"].data if "transform" in answers else None
    prediction = _tensor(answers, "predict")
    classes = getattr(model, "classes_", None)
    index = None
    if prediction is not None and classes is not None and "predict" in answers:
        labels = np.asarray(classes)
        index = _index(graph, prediction, labels.astype(TEXT) if labels.dtype.kind in "US" else labels)
    return Outcome(
        features=features,
        prediction=prediction,
        index=index,
        classes=None if index is None else np.asarray(classes),
        probability=_tensor(answers, "predict_proba"),
        score=_tensor(answers, "decision_function"),
    )


def _tensor(answers: dict[str, Answer], name: str) -> Tensor | None:
    if name not in answers:
        return None
    data = answers[name].data
    if isinstance(data, Frame):
        msg = f"{name} returns a data frame"
        raise UnsupportedModelError(msg, remedy="return an array")
    return data


def _index(graph: Graph, labels: Tensor, classes: np.ndarray[Any, Any]) -> Tensor | None:
    """Return the place of each predicted label among the classes; None where they are of another kind."""
    if (labels.dtype == TEXT) != (classes.dtype == TEXT) or (labels.dtype == BOOL) != (classes.dtype == BOOL):
        return None
    column = graph.column(labels)
    if labels.dtype in {TEXT, BOOL}:
        same = graph.op("Equal", column, classes.reshape(1, -1), dtype=BOOL)
    else:
        same = graph.compare("Equal", column, classes.reshape(1, -1))
    return graph.argmax(graph.cast(same, np.int32))
