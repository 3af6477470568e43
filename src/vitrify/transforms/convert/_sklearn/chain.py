"""scikit-learn's classifiers and regressors of several binary or single answers.

Source: ``sklearn/multiclass.py``, ``multioutput.py``, ``utils/multiclass.py``
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from vitrify.transforms.convert._building.data import Data, matrix
from vitrify.transforms.convert._building.graph import F64, I64, Array, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._numerics.distances import nearest_of
from vitrify.transforms.convert._sklearn.linear import two_columns
from vitrify.transforms.convert._sklearn.support import one_vs_one


@converts("sklearn._ConstantPredictor")
def constant_predictor(steps: Steps, model: Any, data: Data) -> Outcome:
    """The only class that was there."""
    graph = steps.graph
    rows, value = graph.rows(matrix(graph, data)), int(np.ravel(model.y_)[0])
    wide = graph.concat([rows, graph.constant(np.array([1]))], axis=0)
    return Outcome(
        index=graph.op("Expand", np.array([0]), rows, dtype=I64),
        classes=np.array([value]),
        score=graph.op("Expand", np.array([float(value)]), rows, dtype=graph.real(F64)),
        probability=graph.op("Expand", np.array([[1.0 - value, float(value)]]), wide, dtype=graph.real(F64)),
    )


def _parts(steps: Steps, model: Any, data: Data) -> list[Outcome]:
    return [steps.run(part, data, f"estimators_[{index}]", str(index)) for index, part in enumerate(model.estimators_)]


def _binary(graph: Graph, outcome: Outcome) -> Tensor:
    """Return the score of the second of two classes, as a vector; of a regressor its prediction."""
    if outcome.index is None and outcome.prediction is not None:
        return outcome.prediction
    if outcome.score is not None:
        return graph.reshape(outcome.score, -1)
    return _positive(graph, outcome)


def _positive(graph: Graph, outcome: Outcome) -> Tensor:
    if outcome.probability is None:
        refuse("holds a classifier without scores or probabilities", "use one that has either")
    return graph.gather(outcome.probability, np.array(1), axis=1)


def _threshold(outcome: Outcome) -> float:
    """Return from where on the second class is predicted."""
    return 0.0 if outcome.score is not None and outcome.index is not None else 0.5


def _beside(graph: Graph, vectors: list[Tensor]) -> Tensor:
    return graph.concat([graph.column(vector) for vector in vectors])


def _value(graph: Graph, outcome: Outcome) -> Tensor:
    """Return what ``predict`` returns, where that is a number."""
    if outcome.index is None:
        if outcome.prediction is None:
            refuse("holds a part that predicts nothing", "use regressors or classifiers")
        return outcome.prediction
    classes = np.asarray(outcome.classes)
    if classes.dtype.kind not in "biuf":
        refuse("passes labels that are text from one part to the next", "make the labels numbers")
    return graph.gather(classes, outcome.index)


@converts("sklearn.OneVsRestClassifier")
def one_vs_rest_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """One binary classifier a class; the largest score wins. For several labels a row, each score by itself."""
    graph, classes = steps.graph, model.classes_
    outcomes = _parts(steps, model, data)
    scores = [_binary(graph, outcome) for outcome in outcomes]
    probability = None
    if all(outcome.probability is not None for outcome in outcomes):
        positive = [_positive(graph, outcome) for outcome in outcomes]
        probability = two_columns(graph, positive[0]) if len(outcomes) == 1 else _beside(graph, positive)
    has_score = all(outcome.score is not None for outcome in outcomes)
    if model.multilabel_:
        score = _beside(graph, scores)
        chosen = graph.cast(graph.compare("Greater", score, _threshold(outcomes[0])), I64)
        return Outcome(prediction=chosen, probability=probability, score=score if has_score else None)
    if probability is not None:
        total = graph.reduce("ReduceSum", probability, 1, keep=True)
        nothing = graph.compare("Equal", total, np.zeros((), total.dtype))
        probability = graph.binary("Div", probability, graph.where(nothing, np.ones((), total.dtype), total))
    if len(outcomes) == 1:
        index = graph.cast(graph.compare("Greater", scores[0], _threshold(outcomes[0])), I64)
        return Outcome(index=index, classes=classes, probability=probability, score=scores[0] if has_score else None)
    score = _beside(graph, scores)
    return Outcome(
        index=graph.argmax(score), classes=classes, probability=probability, score=score if has_score else None
    )


@converts("sklearn.OneVsOneClassifier")
def one_vs_one_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """One binary classifier for each pair of classes; each pair has a vote, and the scores break ties."""
    graph, classes = steps.graph, model.classes_
    if model.pairwise_indices_ is not None:
        refuse("is called with kernels or distances and not with rows", "use a part that takes the rows themselves")
    outcomes = _parts(steps, model, data)
    if any(outcome.index is None for outcome in outcomes):
        refuse("lets regressors vote, which they do where they predict exactly 0 or 1", "use classifiers inside it")
    first = _beside(graph, [graph.compare("Equal", _value(graph, part), np.array(0)) for part in outcomes])
    confidence = _beside(graph, [_binary(graph, part) for part in outcomes])
    _, score = one_vs_one(graph, first, confidence, len(classes))
    if len(classes) > 2:  # noqa: PLR2004 (binary)
        return Outcome(index=graph.argmax(score, unknown=True), classes=classes, score=score)
    score = graph.gather(score, np.array(1), axis=1)
    index = graph.cast(graph.compare("Greater", score, _threshold(outcomes[0])), I64)
    return Outcome(index=index, classes=classes, score=score)


@converts("sklearn.OutputCodeClassifier")
def output_code_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """One binary classifier a bit; the class whose code is nearest."""
    graph = steps.graph
    bits = graph.cast(_beside(graph, [_binary(graph, outcome) for outcome in _parts(steps, model, data)]), F64)
    return Outcome(index=nearest_of(graph, bits, np.asarray(model.code_book_, np.float64)), classes=model.classes_)


@converts("sklearn.MultiOutputRegressor")
def multi_output_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """One regressor a target."""
    outcomes = _parts(steps, model, data)
    return Outcome(prediction=_beside(steps.graph, [_value(steps.graph, outcome) for outcome in outcomes]))


@converts("sklearn.MultiOutputClassifier")
def multi_output_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """One classifier a label column."""
    return Outcome(parts=tuple(_parts(steps, model, data)))


def _chained(steps: Steps, model: Any, data: Data) -> list[Outcome]:
    """Return the outcome of each link, in the order of the targets: each also sees what those before it said."""
    graph, x = steps.graph, matrix(steps.graph, data)
    method = getattr(model, "chain_method_", "predict")
    outcomes: list[Outcome] = []
    seen: list[Tensor] = []
    for place, part in enumerate(model.estimators_):
        wide = graph.concat([x, *(graph.cast(graph.column(told), F64) for told in seen)])
        outcome = steps.run(part, wide, f"estimators_[{place}]", str(place))
        outcomes.append(outcome)
        seen.append(_told(graph, outcome, method))
    order: Array = np.argsort(model.order_)
    return [outcomes[place] for place in order]


def _told(graph: Graph, outcome: Outcome, method: str) -> Tensor:
    if method == "predict_proba":
        return _positive(graph, outcome)
    if method == "predict_log_proba":
        return graph.unary("Log", _positive(graph, outcome))
    if method == "decision_function" and outcome.score is not None:
        return graph.reshape(outcome.score, -1)
    return _value(graph, outcome)


@converts("sklearn.ClassifierChain")
def classifier_chain(steps: Steps, model: Any, data: Data) -> Outcome:
    """One binary classifier a label column, each of which also sees the labels before it."""
    graph, outcomes = steps.graph, _chained(steps, model, data)
    answer = Outcome(prediction=graph.cast(_beside(graph, [_value(graph, part) for part in outcomes]), F64))
    if all(part.probability is not None for part in outcomes):
        answer = replace(answer, probability=_beside(graph, [_positive(graph, part) for part in outcomes]))
    if all(part.score is not None for part in outcomes):
        answer = replace(answer, score=_beside(graph, [_binary(graph, part) for part in outcomes]))
    return answer


@converts("sklearn.RegressorChain")
def regressor_chain(steps: Steps, model: Any, data: Data) -> Outcome:
    """One regressor a target, each of which also sees the targets before it."""
    graph, outcomes = steps.graph, _chained(steps, model, data)
    return Outcome(prediction=graph.cast(_beside(graph, [_value(graph, part) for part in outcomes]), F64))
