"""Linear models as ``RegressionModel``.

Source: ``sklearn/linear_model``, https://dmg.org/pmml/v4-4-1/Regression.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._pmml.decisions import against_the_rest, chosen, shared
from vitrify.transforms.convert._pmml.matrices import FLOATS, matrix, names
from vitrify.transforms.convert._pmml.models import Model, output, regression
from vitrify.transforms.convert._pmml.walk import Answer, Walk, refuse, writes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.transforms.convert._pmml.fields import Fields, Table

_BINARY = 2
Tables = list[tuple[Any, Any]]


def predicted(
    fields: Fields,
    columns: Sequence[str],
    tables: Tables,
    *,
    many: bool,
    name: str = "prediction",
    method: str | None = None,
) -> tuple[tuple[Model, ...], list[str]]:
    """Return a ``RegressionModel`` for each number that is predicted, and the fields that they give."""
    models, given = [], []
    for place, table in enumerate(tables):
        given.append(fields.reserve(f"{name}_{place}" if many else name))
        attributes = {"normalizationMethod": method} if method else {}
        models.append(
            regression(columns, [table], attributes=attributes, output=(output(given[-1], "predictedValue"),))
        )
    return tuple(models), given


def tables_of(coef: Any, intercept: Any) -> Tables:
    """Return coefficients and intercept of each score."""
    rows = np.atleast_2d(np.asarray(coef))
    return list(zip(rows, np.broadcast_to(np.ravel(intercept), len(rows)), strict=True))


@writes(
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
def linear_regressor(walk: Walk, model: Any, table: Table) -> Answer:
    """One sum a target; a two-dimensional target keeps its dimensions."""
    many = np.ndim(model.coef_) > 1 and type(model).__name__ not in {"SGDRegressor", "LinearSVR"}
    columns = names(matrix(walk.fields, table))
    chain, given = predicted(walk.fields, columns, tables_of(model.coef_, model.intercept_), many=many)
    return Answer(chain=chain, outputs={"prediction": given if many else given[0]})


@writes("sklearn.PoissonRegressor", "sklearn.GammaRegressor", "sklearn.TweedieRegressor")
def generalized_linear_regressor(walk: Walk, model: Any, table: Table) -> Answer:
    """The sum through the inverse link."""
    link = type(model._base_loss.link).__name__  # noqa: SLF001 (the only place that says which link was taken)
    if link not in {"LogLink", "IdentityLink"}:
        refuse(f"has the link {link}", "use a log or identity link")
    columns = names(matrix(walk.fields, table, FLOATS))
    method = "exp" if link == "LogLink" else None
    tables = tables_of(model.coef_, model.intercept_)
    chain, given = predicted(walk.fields, columns, tables, many=False, method=method)
    return Answer(chain=chain, outputs={"prediction": given[0]})


@writes("sklearn.LogisticRegression", "sklearn.LogisticRegressionCV")
def logistic_regression(walk: Walk, model: Any, table: Table) -> Answer:
    """Logistic for two classes; softmax for more, or one against the rest."""
    columns = names(matrix(walk.fields, table))
    tables = tables_of(model.coef_, model.intercept_)
    several = len(model.classes_) > _BINARY
    apart = model.solver == "liblinear" or getattr(model, "multi_class", None) == "ovr"
    if not several and getattr(model, "multi_class", None) == "multinomial":  # before scikit-learn 1.8
        tables = [(-tables[0][0], -tables[0][1]), tables[0]]
    return classified(walk.fields, columns, tables, model.classes_, apart=several and apart)


def classified(fields: Fields, columns: Sequence[str], tables: Tables, classes: Any, *, apart: bool = False) -> Answer:
    """Return the label and the probabilities of linear scores."""
    chain, scores = predicted(fields, columns, tables, many=len(tables) > 1, name="score")
    return (against_the_rest if apart else shared)(fields, chain, scores, classes)


@writes(
    "sklearn.LinearSVC",
    "sklearn.RidgeClassifier",
    "sklearn.RidgeClassifierCV",
    "sklearn.Perceptron",
    "sklearn.PassiveAggressiveClassifier",
)
def linear_classifier(walk: Walk, model: Any, table: Table) -> Answer:
    """Decide by the scores; there are no probabilities."""
    binarizer = getattr(model, "_label_binarizer", None)
    if binarizer is not None and binarizer.y_type_.startswith("multilabel"):
        refuse("answers with several labels", "convert to onnx, which carries them")
    tables = tables_of(model.coef_, model.intercept_)
    columns = names(matrix(walk.fields, table))
    chain, scores = predicted(walk.fields, columns, tables, many=len(tables) > 1, name="score")
    return chosen(walk.fields, chain, scores, model.classes_)


@writes("sklearn.SGDClassifier")
def sgd_classifier(walk: Walk, model: Any, table: Table) -> Answer:
    """Decide by the scores; probabilities for the loss that has them."""
    if model.loss == "modified_huber":
        refuse("has the loss modified_huber, whose probabilities PMML has no name for", "use log_loss")
    if model.loss != "log_loss":
        return linear_classifier(walk, model, table)
    several = len(model.classes_) > _BINARY
    columns = names(matrix(walk.fields, table))
    return classified(walk.fields, columns, tables_of(model.coef_, model.intercept_), model.classes_, apart=several)


@writes("sklearn.SGDOneClassSVM")
def sgd_one_class_svm(walk: Walk, model: Any, table: Table) -> Answer:
    """Score against the offset; 1 for an inlier and -1 for an outlier."""
    columns = names(matrix(walk.fields, table))
    tables = tables_of(model.coef_, -np.asarray(model.offset_))
    chain, scores = predicted(walk.fields, columns, tables, many=False, name="score")
    return chosen(walk.fields, chain, scores, [-1, 1], "greaterOrEqual")


@writes("sklearn.LinearDiscriminantAnalysis")
def linear_discriminant(walk: Walk, model: Any, table: Table) -> Answer:
    """Logistic for two classes, softmax for more."""
    columns = names(matrix(walk.fields, table))
    return classified(walk.fields, columns, tables_of(model.coef_, model.intercept_), model.classes_)


@writes("sklearn.DummyRegressor")
def dummy_regressor(walk: Walk, model: Any, table: Table) -> Answer:
    """The constant."""
    del table
    constants = np.ravel(model.constant_)
    many = len(constants) > 1
    chain, given = predicted(walk.fields, [], [([], value) for value in constants], many=many)
    return Answer(chain=chain, outputs={"prediction": given if many else given[0]})
