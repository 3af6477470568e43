"""scikit-learn's calibrated probabilities, thresholds other than one half, and the isotonic regression under them.

Source: ``sklearn/calibration.py``, ``model_selection/_classification_threshold.py``, ``isotonic.py``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._building.data import Data, Frame, matrix
from vitrify.transforms.convert._building.graph import F64, I64, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._numerics.interpolate import interpolate
from vitrify.transforms.convert._sklearn.linear import two_columns


@converts("sklearn.CalibratedClassifierCV")
def calibrated_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """The mean over the folds of each fold's calibrated probabilities."""
    graph = steps.graph
    total: Tensor | None = None
    for index, fold in enumerate(model.calibrated_classifiers_):
        outcome = steps.run(fold.estimator, data, f"calibrated_classifiers_[{index}].estimator", str(index))
        part = _calibrated(graph, fold, outcome)
        total = part if total is None else graph.binary("Add", total, part)
    assert total is not None
    probability = graph.binary("Div", total, float(len(model.calibrated_classifiers_)))
    return Outcome(index=graph.argmax(probability), classes=model.classes_, probability=probability)


def _calibrated(graph: Graph, fold: Any, outcome: Outcome) -> Tensor:
    """Return one fold's probabilities: (rows, classes)."""
    raw = _raw(graph, outcome)
    if fold.method == "temperature":
        probability = _temperature(graph, fold.calibrators[0], raw, outcome)
    elif len(fold.classes) == 2:  # noqa: PLR2004 (binary)
        probability = two_columns(graph, calibrate(graph, fold.calibrators[0], graph.gather(raw, np.array(-1), axis=1)))
    else:
        probability = _one_by_one(graph, fold, raw)
    # scikit-learn repairs what rounding lifts just above one.
    over = graph.op(
        "And",
        graph.compare("Greater", probability, 1.0),
        graph.compare("LessOrEqual", probability, 1 + 1e-5),
        dtype=bool,
    )
    return graph.where(over, np.ones((), probability.dtype), probability)


def _raw(graph: Graph, outcome: Outcome) -> Tensor:
    """Return what is calibrated: the scores, or else the probabilities; a single score as a column."""
    if outcome.score is not None:
        binary = outcome.classes is not None and len(outcome.classes) <= 2  # noqa: PLR2004 (binary)
        return graph.reshape(outcome.score, -1, 1) if binary else outcome.score
    if outcome.probability is None:
        refuse("calibrates a classifier without scores or probabilities", "use one that has either")
    return outcome.probability


def _one_by_one(graph: Graph, fold: Any, raw: Tensor) -> Tensor:
    """Calibrate each class by itself; classes that were not in the fold get nothing; rows of zeros become uniform."""
    count, known = len(fold.classes), np.searchsorted(fold.classes, fold.estimator.classes_)
    width = len(known) if len(known) > 2 else 1  # noqa: PLR2004 (two classes have one score)
    columns = [
        graph.column(calibrate(graph, calibrator, graph.gather(raw, np.array(index - width), axis=1)))
        for index, calibrator in enumerate(fold.calibrators)
    ]
    if len(columns) < count:
        # The source pairs calibrators with classes until either ends.
        place = np.zeros((len(columns), count))
        place[np.arange(len(columns)), known[: len(columns)]] = 1.0
        values = graph.matmul(graph.concat(columns), place)
    else:
        values = graph.concat(columns)
    total = graph.reduce("ReduceSum", values, 1, keep=True)
    nothing = graph.compare("Equal", total, np.zeros((), total.dtype))
    shares = graph.binary("Div", values, graph.where(nothing, np.ones((), total.dtype), total))
    return graph.where(nothing, np.full((1, count), 1 / count), shares)


def _temperature(graph: Graph, calibrator: Any, raw: Tensor, outcome: Outcome) -> Tensor:
    """Return the softmax of the logits times the inverse temperature."""
    binary = outcome.classes is not None and len(outcome.classes) <= 2  # noqa: PLR2004 (binary)
    if outcome.score is None:
        raw = two_columns(graph, graph.gather(raw, np.array(1), axis=1)) if binary else raw
        logits = graph.unary("Log", graph.binary("Add", raw, 1e-12))
    else:
        logits = graph.concat([graph.unary("Neg", raw), raw]) if binary else raw
    return graph.unary("Softmax", graph.binary("Mul", logits, float(calibrator.beta_)), axis=1)


def calibrate(graph: Graph, calibrator: Any, x: Tensor) -> Tensor:
    """Return a calibrator's answer to a vector of scores."""
    if hasattr(calibrator, "a_"):
        fitted = graph.binary("Add", graph.binary("Mul", x, float(calibrator.a_)), float(calibrator.b_))
        return graph.sigmoid(graph.unary("Neg", fitted))
    return isotonic(graph, calibrator, x)


def isotonic(graph: Graph, model: Any, x: Tensor) -> Tensor:
    """Return an isotonic regression's answer to a vector, by linear interpolation between its knots."""
    knots, heights = np.asarray(model.X_thresholds_), np.asarray(model.y_thresholds_)
    x = graph.cast(x, knots.dtype)
    if len(knots) == 1:
        return graph.op("Expand", graph.constant(heights), graph.rows(x), dtype=heights.dtype)
    if model.out_of_bounds == "clip":
        x = graph.op("Clip", x, knots[0], knots[-1], dtype=x.dtype)
    answer = graph.cast(interpolate(graph, graph.cast(x, F64), knots, heights), heights.dtype)
    if model.out_of_bounds == "nan":
        inside = graph.op(
            "And", graph.compare("GreaterOrEqual", x, knots[0]), graph.compare("LessOrEqual", x, knots[-1]), dtype=bool
        )
        answer = graph.where(inside, answer, np.array(np.nan, answer.dtype))
    return answer


@converts("sklearn.IsotonicRegression")
def isotonic_regression(steps: Steps, model: Any, data: Data) -> Outcome:
    """Interpolate between the knots."""
    if model.out_of_bounds == "raise":
        refuse("raises for values beyond the training data", "use out_of_bounds='clip' or 'nan'")
    graph = steps.graph
    x = data if not isinstance(data, Frame) else graph.vector(matrix(graph, data))
    return Outcome(prediction=isotonic(graph, model, graph.reshape(graph.cast(x, F64), -1)))


@converts("sklearn.FixedThresholdClassifier", "sklearn.TunedThresholdClassifierCV")
def threshold_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """The positive class where its score is at least the threshold."""
    graph = steps.graph
    name = "estimator_" if hasattr(model, "estimator_") else "estimator"
    outcome = steps.run(getattr(model, name), data, name)
    classes = np.asarray(model.classes_)
    by_score = _by_score(model, getattr(model, name))
    score = _positive(graph, outcome, by_score=by_score)
    if hasattr(model, "best_threshold_"):
        threshold: float = float(model.best_threshold_)
        positive = model._curve_scorer._get_pos_label()  # noqa: SLF001 (no public name)
    else:
        threshold = (0.0 if by_score else 0.5) if model.threshold == "auto" else float(model.threshold)
        positive = model.pos_label
    place = 1 if positive is None else int(np.flatnonzero(classes == positive)[0])
    if place == 0:
        score = _other(graph, score, outcome, by_score=by_score)
    reached = graph.cast(graph.compare("GreaterOrEqual", score, threshold), I64)
    index = reached if place == 1 else graph.binary("Sub", np.array(1), reached)
    return Outcome(index=index, classes=classes, probability=outcome.probability, score=outcome.score)


def _by_score(model: Any, estimator: Any) -> bool:
    """Return whether the threshold is one of scores and not of probabilities."""
    if model.response_method == "auto":
        return not hasattr(estimator, "predict_proba")
    return bool(model.response_method == "decision_function")


def _positive(graph: Graph, outcome: Outcome, *, by_score: bool) -> Tensor:
    if by_score and outcome.score is not None:
        return graph.reshape(outcome.score, -1)
    if outcome.probability is None:
        refuse("holds a classifier without probabilities", "use one that has predict_proba")
    return graph.gather(outcome.probability, np.array(1), axis=1)


def _other(graph: Graph, score: Tensor, outcome: Outcome, *, by_score: bool) -> Tensor:
    """Return the score of the first class."""
    if by_score:
        return graph.unary("Neg", score)
    assert outcome.probability is not None
    return graph.gather(outcome.probability, np.array(0), axis=1)
