"""scikit-learn's estimators of estimators: each runs its parts and joins what they answer.

Source: ``sklearn/ensemble``, ``model_selection``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._building.data import Data, beside, matrix
from vitrify.transforms.convert._building.graph import I64, Array, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._sklearn.linear import above


def _prediction(outcome: Outcome) -> Tensor:
    """Return what ``predict`` returns for one target: the value, or the label as a number."""
    if outcome.prediction is None:
        refuse("holds a part that predicts no number", "use regressors inside it")
    return outcome.prediction


def _index(outcome: Outcome) -> Tensor:
    if outcome.index is None:
        refuse("holds a part that is no classifier", "use classifiers inside it")
    return outcome.index


def _probability(outcome: Outcome) -> Tensor:
    if outcome.probability is None:
        refuse("holds a classifier without probabilities", "use classifiers that have predict_proba")
    return outcome.probability


@converts(
    "sklearn.GridSearchCV", "sklearn.RandomizedSearchCV", "sklearn.HalvingGridSearchCV", "sklearn.HalvingRandomSearchCV"
)
def search(steps: Steps, model: Any, data: Data) -> Outcome:
    """Run the best estimator found."""
    if not hasattr(model, "best_estimator_"):
        refuse("was fitted with refit=False: there is no best estimator", "fit it with refit=True")
    return steps.run(model.best_estimator_, data, "best_estimator_")


@converts("sklearn.RANSACRegressor", "sklearn.FrozenEstimator", "sklearn.SelfTrainingClassifier")
def delegate(steps: Steps, model: Any, data: Data) -> Outcome:
    """Run the one estimator inside."""
    name = "estimator_" if hasattr(model, "estimator_") else "estimator"
    return steps.run(getattr(model, name), data, name)


def _average(graph: Graph, values: list[Tensor], weights: Array | None) -> Tensor:
    """Return ``numpy.average`` over a list of tensors of one shape."""
    scale = float(len(values)) if weights is None else float(np.sum(weights))
    total: Tensor | None = None
    for index, value in enumerate(values):
        part = value if weights is None else graph.binary("Mul", value, float(weights[index]))
        total = part if total is None else graph.binary("Add", total, part)
    assert total is not None
    return graph.binary("Div", total, scale)


def _members(steps: Steps, model: Any, data: Data) -> list[Outcome]:
    names = [name for name, part in model.estimators if not (isinstance(part, str) and part == "drop")]
    return [
        steps.run(part, data, f"estimators_[{index}] {name!r}", name)
        for index, (name, part) in enumerate(zip(names, model.estimators_, strict=True))
    ]


@converts("sklearn.VotingRegressor")
def voting_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """The weighted mean of the predictions."""
    graph, values = steps.graph, [_prediction(outcome) for outcome in _members(steps, model, data)]
    mean = _average(graph, values, model._weights_not_none)  # noqa: SLF001 (without dropped ones)
    return Outcome(prediction=mean, features=graph.concat([graph.column(value) for value in values]))


@converts("sklearn.VotingClassifier")
def voting_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """The weighted mean of the probabilities, or the most votes."""
    graph, weights = steps.graph, model._weights_not_none  # noqa: SLF001 (without dropped ones)
    outcomes = _members(steps, model, data)
    if model.voting == "soft":
        parts = [_probability(outcome) for outcome in outcomes]
        probability = _average(graph, parts, weights)
        flat = graph.concat(parts) if model.flatten_transform else None
        return Outcome(index=graph.argmax(probability), classes=model.classes_, probability=probability, features=flat)
    chosen = np.eye(len(model.classes_))
    numbers = [_numbered(graph, outcome) for outcome in outcomes]
    votes = _average(graph, [graph.gather(chosen, number) for number in numbers], weights)
    columns = graph.concat([graph.column(number) for number in numbers])
    return Outcome(index=graph.argmax(votes), classes=model.classes_, features=columns)


def _numbered(graph: Graph, outcome: Outcome) -> Tensor:
    """Return the label that a part predicts, where the parts were fitted on the labels' numbers."""
    assert outcome.classes is not None
    return graph.cast(graph.gather(np.asarray(outcome.classes), _index(outcome)), I64)


def _stacked(steps: Steps, model: Any, data: Data) -> tuple[Outcome, Tensor]:
    """Return the last estimator's answer, and what it was asked about."""
    graph = steps.graph
    parts: list[Data] = []
    for outcome, method in zip(_members(steps, model, data), model.stack_method_, strict=True):
        if method == "predict_proba":
            answer = _probability(outcome)
            if outcome.classes is not None and len(outcome.classes) == 2:  # noqa: PLR2004 (binary)
                answer = graph.gather(answer, np.array([1]), axis=1)
        elif method == "decision_function":
            assert outcome.score is not None
            binary = outcome.classes is not None and len(outcome.classes) == 2  # noqa: PLR2004 (binary)
            answer = graph.column(outcome.score) if binary else outcome.score
        else:
            value = _prediction(outcome) if outcome.index is None else _numbered(graph, outcome)
            answer = graph.column(value)
        parts.append(answer)
    if model.passthrough:
        parts.append(data)
    features = beside(graph, parts)
    return steps.run(model.final_estimator_, features, "final_estimator_"), features


@converts("sklearn.StackingRegressor")
def stacking_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """Let the last regressor judge the others' predictions."""
    outcome, features = _stacked(steps, model, data)
    return Outcome(prediction=_prediction(outcome), features=features)


@converts("sklearn.StackingClassifier")
def stacking_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """Let the last classifier judge the others' probabilities."""
    if isinstance(model.classes_, list):
        refuse("was fitted on several label columns at once", "fit one classifier a column")
    outcome, features = _stacked(steps, model, data)
    return Outcome(
        index=_numbered(steps.graph, outcome),
        classes=model.classes_,
        probability=outcome.probability,
        score=outcome.score,
        features=features,
    )


def _bag(steps: Steps, model: Any, data: Data) -> list[Outcome]:
    graph, x = steps.graph, matrix(steps.graph, data)
    everything = np.arange(model.n_features_in_)
    return [
        steps.run(
            part,
            x if np.array_equal(features, everything) else graph.gather(x, np.asarray(features), axis=1),
            f"estimators_[{index}]",
            str(index),
        )
        for index, (part, features) in enumerate(zip(model.estimators_, model.estimators_features_, strict=True))
    ]


@converts("sklearn.BaggingRegressor")
def bagging_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """The mean of the predictions."""
    values = [_prediction(outcome) for outcome in _bag(steps, model, data)]
    return Outcome(prediction=_average(steps.graph, values, None))


@converts("sklearn.BaggingClassifier")
def bagging_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """The mean of the probabilities, or the share of the votes."""
    graph, count = steps.graph, len(model.classes_)
    values = []
    for outcome in _bag(steps, model, data):
        known = np.asarray(outcome.classes, np.int64)
        if outcome.probability is None:
            values.append(graph.gather(np.eye(count), _numbered(graph, outcome)))
        elif len(known) == count:
            values.append(outcome.probability)
        else:  # a bag in which a class was missing
            values.append(graph.matmul(outcome.probability, np.eye(count)[known]))
    probability = _average(graph, values, None)
    return Outcome(index=graph.argmax(probability), classes=model.classes_, probability=probability)


@converts("sklearn.AdaBoostClassifier")
def ada_boost_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """Each part votes with its weight, and against the others with what is left."""
    graph, classes = steps.graph, model.classes_
    count = len(classes)
    x = matrix(graph, data)
    total: Tensor | None = None
    for index, (part, weight) in enumerate(zip(model.estimators_, model.estimator_weights_, strict=False)):
        outcome = steps.run(part, x, f"estimators_[{index}]", str(index))
        known = np.flatnonzero(np.isin(classes, np.asarray(outcome.classes)))
        votes = np.where(np.eye(count)[known] > 0, weight, -1 / (count - 1) * weight)
        vote = graph.gather(votes, _index(outcome))
        total = vote if total is None else graph.binary("Add", total, vote)
    assert total is not None
    score = graph.binary("Div", total, float(model.estimator_weights_.sum()))
    if count == 2:  # noqa: PLR2004 (binary)
        sides = graph.binary("Mul", score, np.array([-1.0, 1.0]))
        score = graph.reduce("ReduceSum", sides, 1)
        column = graph.column(score)
        both = graph.binary("Div", graph.concat([graph.unary("Neg", column), column]), 2.0)
        probability = graph.unary("Softmax", both, axis=1)
        return Outcome(index=above(graph, score), classes=classes, probability=probability, score=score)
    probability = graph.unary("Softmax", graph.binary("Div", score, float(count - 1)), axis=1)
    return Outcome(index=graph.argmax(score), classes=classes, probability=probability, score=score)


@converts("sklearn.AdaBoostRegressor")
def ada_boost_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """The weighted median of the predictions."""
    graph, count = steps.graph, len(model.estimators_)
    x = matrix(graph, data)
    values = graph.concat(
        [
            graph.column(_prediction(steps.run(part, x, f"estimators_[{index}]", str(index))))
            for index, part in enumerate(model.estimators_)
        ]
    )
    ordered, places = graph.ops(
        "TopK", values, np.array([count]), dtypes=(values.dtype, I64), axis=1, largest=0, sorted=1
    )
    weights = graph.gather(np.asarray(model.estimator_weights_[:count]), places)
    running = graph.op("CumSum", weights, np.array(1), dtype=weights.dtype)
    half = graph.binary("Mul", graph.gather(running, np.array([-1]), axis=1), 0.5)
    middle = graph.argmax(graph.cast(graph.compare("GreaterOrEqual", running, half), np.int32))
    chosen = graph.op("GatherElements", ordered, graph.column(middle), dtype=values.dtype, axis=1)
    return Outcome(prediction=graph.vector(chosen))
