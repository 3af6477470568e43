"""scikit-learn's estimators of estimators: each runs its parts and joins what they answer.

Source: ``sklearn/pipeline.py``, ``compose``, ``ensemble``, ``multiclass.py``, ``multioutput.py``, ``calibration.py``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._data import Data, Frame, beside, matrix, select
from vitrify.transforms.convert._graph import F64, I64, Array, Graph, Tensor
from vitrify.transforms.convert._sklearn_linear import above, share, two_columns
from vitrify.transforms.convert._sklearn_scale import apply_function
from vitrify.transforms.convert._steps import Outcome, Steps, converts, refuse


def _features(outcome: Outcome) -> Data:
    if outcome.features is None:
        refuse("stands where a transformer must stand", "put transformers before it only")
    return outcome.features


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


@converts("sklearn.Pipeline")
def pipeline(steps: Steps, model: Any, data: Data) -> Outcome:
    """Run one step after the other; the last one's answer is the answer."""
    outcome = Outcome(features=data)
    for index, (name, step) in enumerate(model.steps):
        if step is None or step == "passthrough":
            continue
        outcome = steps.run(step, _features(outcome), f"steps[{index}] {name!r}", name)
    return outcome


@converts("sklearn.ColumnTransformer")
def column_transformer(steps: Steps, model: Any, data: Data) -> Outcome:
    """Give each transformer its columns and put the answers side by side."""
    names = getattr(model, "feature_names_in_", None)
    parts: list[Data] = []
    for index, (name, step, chosen) in enumerate(model.transformers_):
        places = model._transformer_to_input_indices[name]  # noqa: SLF001 (what slices, masks and callables came to)
        if (isinstance(step, str) and step == "drop") or len(places) == 0:
            continue
        keys = None if names is None else [names[place] for place in places]
        part = select(steps.graph, data, list(places), keys, scalar=np.isscalar(chosen))
        if not (isinstance(step, str) and step == "passthrough"):
            part = _features(steps.run(step, part, f"transformers[{index}] {name!r}", name))
        parts.append(part)
    if not parts:
        refuse("keeps no column at all", "leave the step out")
    return Outcome(features=beside(steps.graph, parts))


@converts("sklearn.FeatureUnion")
def feature_union(steps: Steps, model: Any, data: Data) -> Outcome:
    """Give every transformer all columns and put the answers side by side."""
    graph, weights = steps.graph, model.transformer_weights or {}
    parts: list[Data] = []
    for index, (name, step) in enumerate(model.transformer_list):
        if isinstance(step, str) and step == "drop":
            continue
        part = data
        if not isinstance(step, str):
            part = _features(steps.run(step, data, f"transformer_list[{index}] {name!r}", name))
        if name in weights:
            part = graph.binary("Mul", matrix(graph, part), float(weights[name]))
        parts.append(part)
    return Outcome(features=beside(graph, parts))


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
    values = [_prediction(outcome) for outcome in _members(steps, model, data)]
    return Outcome(prediction=_average(steps.graph, values, model._weights_not_none))  # noqa: SLF001 (without dropped ones)


@converts("sklearn.VotingClassifier")
def voting_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """The weighted mean of the probabilities, or the most votes."""
    graph, weights = steps.graph, model._weights_not_none  # noqa: SLF001 (without dropped ones)
    outcomes = _members(steps, model, data)
    if model.voting == "soft":
        probability = _average(graph, [_probability(outcome) for outcome in outcomes], weights)
        return Outcome(index=graph.argmax(probability), classes=model.classes_, probability=probability)
    chosen = np.eye(len(model.classes_))
    votes = _average(graph, [graph.gather(chosen, _numbered(graph, outcome)) for outcome in outcomes], weights)
    return Outcome(index=graph.argmax(votes), classes=model.classes_)


def _numbered(graph: Graph, outcome: Outcome) -> Tensor:
    """Return the label that a part predicts, where the parts were fitted on the labels' numbers."""
    assert outcome.classes is not None
    return graph.cast(graph.gather(np.asarray(outcome.classes), _index(outcome)), I64)


def _stacked(steps: Steps, model: Any, data: Data) -> Outcome:
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
    return steps.run(model.final_estimator_, features, "final_estimator_")


@converts("sklearn.StackingRegressor")
def stacking_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """Let the last regressor judge the others' predictions."""
    return Outcome(prediction=_prediction(_stacked(steps, model, data)))


@converts("sklearn.StackingClassifier")
def stacking_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """Let the last classifier judge the others' probabilities."""
    if isinstance(model.classes_, list):
        refuse("was fitted on several label columns at once", "fit one classifier a column")
    outcome = _stacked(steps, model, data)
    return Outcome(
        index=_numbered(steps.graph, outcome),
        classes=model.classes_,
        probability=outcome.probability,
        score=outcome.score,
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


@converts("sklearn.OneVsRestClassifier")
def one_vs_rest_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """One binary classifier a class; the largest score wins."""
    graph, classes = steps.graph, model.classes_
    if model.multilabel_:
        refuse("was fitted on several labels a row", "fit one classifier a label (MultiOutputClassifier)")
    outcomes = [
        steps.run(part, data, f"estimators_[{index}]", str(index)) for index, part in enumerate(model.estimators_)
    ]
    has_scores = all(outcome.score is not None for outcome in outcomes)
    has_probabilities = all(outcome.probability is not None for outcome in outcomes)
    positive = [graph.gather(outcome.probability, np.array([1]), axis=1) for outcome in outcomes if outcome.probability]
    scores = [graph.column(outcome.score) for outcome in outcomes if outcome.score is not None]
    probability = None
    if has_probabilities:
        probability = two_columns(graph, graph.vector(positive[0])) if len(outcomes) == 1 else graph.concat(positive)
        total = graph.reduce("ReduceSum", probability, 1, keep=True)
        nothing = graph.compare("Equal", total, np.zeros((), total.dtype))
        probability = graph.binary("Div", probability, graph.where(nothing, np.ones((), total.dtype), total))
    if len(outcomes) == 1:
        return Outcome(index=_index(outcomes[0]), classes=classes, probability=probability, score=outcomes[0].score)
    score = graph.concat(scores) if has_scores else None
    deciding = score if score is not None else graph.concat(positive)
    return Outcome(index=graph.argmax(deciding), classes=classes, probability=probability, score=score)


@converts("sklearn.MultiOutputRegressor")
def multi_output_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """One regressor a target."""
    graph = steps.graph
    return Outcome(
        prediction=graph.concat(
            [
                graph.column(_prediction(steps.run(part, data, f"estimators_[{index}]", str(index))))
                for index, part in enumerate(model.estimators_)
            ]
        )
    )


@converts("sklearn.MultiOutputClassifier")
def multi_output_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """One classifier a label column."""
    return Outcome(
        parts=tuple(
            steps.run(part, data, f"estimators_[{index}]", str(index)) for index, part in enumerate(model.estimators_)
        )
    )


@converts("sklearn.CalibratedClassifierCV")
def calibrated_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """The mean over the folds of each fold's calibrated probabilities."""
    graph = steps.graph
    values = []
    for index, fold in enumerate(model.calibrated_classifiers_):
        outcome = steps.run(fold.estimator, data, f"calibrated_classifiers_[{index}].estimator", str(index))
        values.append(_calibrated(graph, fold, outcome))
    probability = _average(graph, values, None)
    return Outcome(index=graph.argmax(probability), classes=model.classes_, probability=probability)


def _calibrated(graph: Graph, fold: Any, outcome: Outcome) -> Tensor:
    if fold.method not in {"sigmoid", "isotonic"}:
        refuse(f"calibrates by {fold.method!r}", "use method='sigmoid' or 'isotonic'")
    count = len(fold.classes)
    if len(fold.estimator.classes_) != count:
        refuse("has a fold in which a class is missing", "use stratified folds")
    if outcome.score is not None:
        raw = graph.column(outcome.score) if count == 2 else outcome.score  # noqa: PLR2004 (binary)
    else:
        raw = _probability(outcome)
        raw = graph.gather(raw, np.array([1]), axis=1) if count == 2 else raw  # noqa: PLR2004 (binary)
    columns = [
        calibrate(graph, calibrator, graph.gather(raw, np.array(index), axis=1))
        for index, calibrator in enumerate(fold.calibrators)
    ]
    if count == 2:  # noqa: PLR2004 (binary)
        probability = two_columns(graph, columns[0])
    else:
        probability = share(graph, graph.concat([graph.column(column) for column in columns]))
    # scikit-learn repairs what rounding lifts just above one.
    over = graph.op(
        "And",
        graph.compare("Greater", probability, 1.0),
        graph.compare("LessOrEqual", probability, 1 + 1e-5),
        dtype=bool,
    )
    return graph.where(over, np.ones((), probability.dtype), probability)


def calibrate(graph: Graph, calibrator: Any, x: Tensor) -> Tensor:
    """Return a calibrator's answer to a vector of scores."""
    if hasattr(calibrator, "a_"):
        fitted = graph.binary("Add", graph.binary("Mul", x, float(calibrator.a_)), float(calibrator.b_))
        return graph.sigmoid(graph.unary("Neg", fitted))
    return interpolate(graph, calibrator, x)


def interpolate(graph: Graph, model: Any, x: Tensor) -> Tensor:
    """Return an isotonic regression's answer to a vector, by linear interpolation between its knots."""
    knots, heights = np.asarray(model.X_thresholds_), np.asarray(model.y_thresholds_)
    if len(knots) == 1:
        return graph.op("Expand", graph.constant(heights), graph.rows(x), dtype=heights.dtype)
    if model.out_of_bounds == "clip":
        x = graph.op("Clip", x, knots[0].astype(x.dtype), knots[-1].astype(x.dtype), dtype=x.dtype)
    beyond = graph.compare("Greater", graph.column(x), knots[1:-1].reshape(1, -1)) if len(knots) > 2 else None  # noqa: PLR2004 (inner knots)
    zero = graph.op("Expand", np.array([0]), graph.rows(x), dtype=I64)
    low = zero if beyond is None else graph.reduce("ReduceSum", graph.cast(beyond, I64), 1)
    slope = np.diff(heights) / np.diff(knots)
    rise = graph.binary("Mul", graph.gather(slope, low), graph.binary("Sub", x, graph.gather(knots[:-1], low)))
    answer = graph.binary("Add", rise, graph.gather(heights[:-1], low))
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
    return Outcome(prediction=interpolate(graph, model, graph.reshape(graph.cast(x, F64), -1)))


@converts("sklearn.TransformedTargetRegressor")
def transformed_target_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """Take the target's transformation back."""
    graph = steps.graph
    prediction = _prediction(steps.run(model.regressor_, data, "regressor_"))
    inverse, kind = model.transformer_, type(model.transformer_).__name__
    if kind not in {"FunctionTransformer", "StandardScaler", "MinMaxScaler"}:
        refuse(f"takes back a {kind} from the target", "use a function of NumPy, StandardScaler or MinMaxScaler")
    if kind == "FunctionTransformer":
        if inverse.inverse_func is None:
            return Outcome(prediction=prediction)
        return Outcome(prediction=apply_function(graph, inverse.inverse_func, prediction))
    if kind == "StandardScaler":
        if inverse.with_std:
            prediction = graph.binary("Mul", prediction, inverse.scale_)
        if inverse.with_mean:
            prediction = graph.binary("Add", prediction, inverse.mean_)
        return Outcome(prediction=prediction)
    return Outcome(prediction=graph.binary("Div", graph.binary("Sub", prediction, inverse.min_), inverse.scale_))
