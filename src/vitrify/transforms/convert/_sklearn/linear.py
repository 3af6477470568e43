"""scikit-learn's linear models: one matrix product, an offset, and what each makes of the score.

Source: ``sklearn/linear_model/_base.py``, ``linear_model/_stochastic_gradient.py``, ``cross_decomposition``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._building.data import FLOATS, Data, matrix
from vitrify.transforms.convert._building.graph import F64, I64, Array, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._sklearn.scale import clip


def linear_score(graph: Graph, x: Tensor, coef: Array, intercept: Any) -> Tensor:
    """Return ``x @ coef.T + intercept``: a vector for one target or one row of coefficients."""
    weights = np.asarray(coef)
    one = weights.ndim == 1 or len(weights) == 1
    score = graph.affine(x, np.atleast_2d(weights).T, np.asarray(intercept, dtype=weights.dtype))
    return graph.vector(score) if one else score


def two_columns(graph: Graph, positive: Tensor) -> Tensor:
    """Return the probabilities ``[1 - p, p]``."""
    column = graph.column(positive)
    return graph.concat([graph.binary("Sub", np.ones((), positive.dtype), column), column])


def both_shares(graph: Graph, positive: Tensor) -> Tensor:
    """Return the same of a column that lies between 0 and 1: ``|p - [1, 0]|``, to the bit and in fewer nodes."""
    return graph.unary("Abs", graph.binary("Sub", positive, np.array([[1, 0]], positive.dtype)))


def above(graph: Graph, score: Tensor, kind: str = "Greater") -> Tensor:
    """Return 1 where a binary score is above zero, else 0."""
    return graph.cast(graph.compare(kind, score, np.zeros((), score.dtype)), I64)


def decide(graph: Graph, score: Tensor, classes: Array) -> Tensor:
    """Return the position of the class that a score chooses."""
    return above(graph, score) if len(classes) <= 2 else graph.argmax(score)  # noqa: PLR2004 (binary)


def one_vs_rest(graph: Graph, score: Tensor, classes: Array) -> Tensor:
    """Return probabilities from independent logistic scores, as LIBLINEAR normalises them."""
    probability = graph.sigmoid(score)
    if len(classes) <= 2:  # noqa: PLR2004 (binary)
        return two_columns(graph, probability)
    return share(graph, probability)


def share(graph: Graph, weights: Tensor) -> Tensor:
    """Return each row divided by its sum; a row of zeros becomes uniform."""
    total = graph.reduce("ReduceSum", weights, 1, keep=True)
    nothing = graph.compare("Equal", total, np.zeros((), total.dtype))
    weights = graph.where(nothing, np.ones((), weights.dtype), weights)
    return graph.binary("Div", weights, graph.reduce("ReduceSum", weights, 1, keep=True))


@converts(
    *(
        f"sklearn.{name}"
        for name in (
            "ARDRegression", "BayesianRidge", "ElasticNet", "ElasticNetCV", "HuberRegressor", "Lars", "LarsCV", "Lasso",
            "LassoCV", "LassoLars", "LassoLarsCV", "LassoLarsIC", "LinearRegression", "LinearSVR", "MultiTaskLasso",
            "MultiTaskElasticNet", "MultiTaskElasticNetCV", "MultiTaskLassoCV", "OrthogonalMatchingPursuit",
            "OrthogonalMatchingPursuitCV", "PassiveAggressiveRegressor", "QuantileRegressor", "Ridge", "RidgeCV",
            "SGDRegressor", "TheilSenRegressor",
        )
    )
)  # fmt: skip
def linear_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """Predict the score; a two-dimensional target keeps its dimensions."""
    graph, x = steps.graph, matrix(steps.graph, data)
    coef = np.asarray(model.coef_)
    many = coef.ndim > 1 and type(model).__name__ not in {"SGDRegressor", "LinearSVR"}
    score = graph.affine(x, np.atleast_2d(coef).T, np.asarray(model.intercept_, dtype=coef.dtype))
    return Outcome(prediction=score if many else graph.vector(score))


@converts("sklearn.PoissonRegressor", "sklearn.GammaRegressor", "sklearn.TweedieRegressor")
def generalized_linear_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """Predict the score through the inverse link."""
    graph, x = steps.graph, matrix(steps.graph, data, FLOATS)
    score = linear_score(graph, x, model.coef_, model.intercept_)
    link = type(model._base_loss.link).__name__  # noqa: SLF001 (the only place that says which link was taken)
    if link not in {"LogLink", "IdentityLink"}:
        refuse(f"has the link {link}", "use a log or identity link")
    return Outcome(prediction=graph.unary("Exp", score) if link == "LogLink" else score)


@converts("sklearn.LogisticRegression", "sklearn.LogisticRegressionCV")
def logistic_regression(steps: Steps, model: Any, data: Data) -> Outcome:
    """Decide by the score; logistic for two classes, softmax for more."""
    graph, classes = steps.graph, model.classes_
    score = linear_score(graph, matrix(graph, data), model.coef_, model.intercept_)
    solver_is_ovr = model.solver == "liblinear" or getattr(model, "multi_class", None) == "ovr"
    if len(classes) <= 2 and getattr(model, "multi_class", None) == "multinomial":  # noqa: PLR2004 (binary)
        # Before scikit-learn 1.8, which took this parameter away.
        column = graph.column(score)
        probability = graph.unary("Softmax", graph.concat([graph.unary("Neg", column), column]), axis=1)
    elif len(classes) <= 2 or solver_is_ovr:  # noqa: PLR2004 (binary)
        probability = one_vs_rest(graph, score, classes)
    else:
        probability = graph.unary("Softmax", score, axis=1)
    return Outcome(index=decide(graph, score, classes), classes=classes, probability=probability, score=score)


@converts(
    "sklearn.LinearSVC",
    "sklearn.RidgeClassifier",
    "sklearn.RidgeClassifierCV",
    "sklearn.Perceptron",
    "sklearn.PassiveAggressiveClassifier",
)
def linear_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """Decide by the score; there are no probabilities."""
    graph, classes = steps.graph, model.classes_
    score = linear_score(graph, matrix(graph, data), model.coef_, model.intercept_)
    labels = getattr(model, "_label_binarizer", None)
    if labels is not None and labels.y_type_.startswith("multilabel"):
        return Outcome(prediction=above(graph, score), score=score)
    return Outcome(index=decide(graph, score, classes), classes=classes, score=score)


@converts("sklearn.SGDClassifier")
def sgd_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """Decide by the score; probabilities for the two losses that have them."""
    graph, outcome = steps.graph, linear_classifier(steps, model, data)
    score, classes = outcome.score, model.classes_
    assert score is not None
    probability = None
    if model.loss == "log_loss":
        probability = one_vs_rest(graph, score, classes)
    elif model.loss == "modified_huber":
        half = graph.binary("Div", graph.binary("Add", clip(graph, score, -1, 1), 1.0), 2.0)
        probability = two_columns(graph, half) if len(classes) <= 2 else share(graph, half)  # noqa: PLR2004 (binary)
    return Outcome(index=outcome.index, classes=classes, score=score, probability=probability)


@converts("sklearn.SGDOneClassSVM")
def sgd_one_class_svm(steps: Steps, model: Any, data: Data) -> Outcome:
    """Score against the offset; 1 for an inlier and -1 for an outlier."""
    graph = steps.graph
    product = graph.vector(graph.matmul(matrix(graph, data), np.atleast_2d(model.coef_).T))
    score = graph.binary("Sub", product, model.offset_)
    return Outcome(prediction=inlier(graph, score, "GreaterOrEqual"), score=score)


def inlier(graph: Graph, score: Tensor, kind: str) -> Tensor:
    """Return 1 where the score is at least (``GreaterOrEqual``) or above (``Greater``) zero, else -1."""
    return graph.gather(np.array([-1, 1]), above(graph, score, kind))


@converts("sklearn.PLSRegression", "sklearn.PLSCanonical", "sklearn.CCA")
def pls_regression(steps: Steps, model: Any, data: Data) -> Outcome:
    """Centre, multiply, add."""
    graph, x = steps.graph, matrix(steps.graph, data, F64)
    centred = graph.binary("Sub", x, model._x_mean)  # noqa: SLF001 (no public name)
    prediction = graph.affine(centred, model.coef_.T, model.intercept_)
    scores = graph.matmul(graph.binary("Div", centred, model._x_std), model.x_rotations_)  # noqa: SLF001
    return Outcome(prediction=prediction if model._predict_1d is False else graph.vector(prediction), features=scores)  # noqa: SLF001


@converts("sklearn.DummyRegressor")
def dummy_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """Repeat the constant."""
    graph = steps.graph
    rows = graph.rows(matrix(graph, data))
    constant = np.asarray(model.constant_, np.float64).reshape(-1)
    if len(constant) == 1:
        return Outcome(prediction=graph.op("Expand", constant, rows, dtype=graph.real(F64)))
    return Outcome(
        prediction=graph.op(
            "Expand", constant, graph.concat([rows, graph.constant(np.array([1]))], 0), dtype=graph.real(F64)
        )
    )


@converts("sklearn.DummyClassifier")
def dummy_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """Repeat the prior."""
    graph = steps.graph
    if model.strategy not in {"prior", "most_frequent", "constant"}:
        refuse(f"draws at random (strategy {model.strategy!r})", "use strategy='prior' or 'most_frequent'")
    rows = graph.rows(matrix(graph, data))
    constants = np.ravel(model.constant)
    if not isinstance(model.classes_, list):
        return _repeated(graph, rows, model.classes_, _shares(model, model.classes_, model.class_prior_, constants[0]))
    columns = zip(model.classes_, model.class_prior_, np.resize(constants, len(model.classes_)), strict=True)
    return Outcome(parts=tuple(_repeated(graph, rows, column[0], _shares(model, *column)) for column in columns))


def _shares(model: Any, classes: Array, prior: Array, constant: Any) -> Array:
    """Return the probabilities that a dummy always gives."""
    if model.strategy == "prior":
        return np.asarray(prior, np.float64)
    best = np.flatnonzero(classes == constant)[0] if model.strategy == "constant" else np.argmax(prior)
    row: Array = np.eye(len(classes))[best]
    return row


def _repeated(graph: Graph, rows: Tensor, classes: Array, shares: Array) -> Outcome:
    best = int(np.argmax(shares))
    wide = graph.concat([rows, graph.constant(np.array([1]))], axis=0)
    return Outcome(
        index=graph.op("Expand", np.array([best]), rows, dtype=I64),
        classes=classes,
        probability=graph.op("Expand", np.asarray(shares, np.float64).reshape(1, -1), wide, dtype=graph.real(F64)),
    )
