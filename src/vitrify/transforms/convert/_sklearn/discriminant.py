"""scikit-learn's discriminants: one Gaussian a class, or one centre a class.

Source: ``sklearn/discriminant_analysis.py``, ``neighbors/_nearest_centroid.py``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._building.data import Data, matrix
from vitrify.transforms.convert._building.graph import F64, Array, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts
from vitrify.transforms.convert._numerics.distances import Metric, nearest_of, squared_by_products
from vitrify.transforms.convert._sklearn.linear import decide, linear_score, two_columns


@converts("sklearn.LinearDiscriminantAnalysis")
def linear_discriminant_analysis(steps: Steps, model: Any, data: Data) -> Outcome:
    """Decide by the score; logistic for two classes, softmax for more; project for ``transform``."""
    graph, classes = steps.graph, model.classes_
    x = matrix(graph, data)
    score = linear_score(graph, x, model.coef_, model.intercept_)
    if len(classes) <= 2:  # noqa: PLR2004 (binary)
        probability = two_columns(graph, graph.sigmoid(score))
    else:
        probability = graph.unary("Softmax", score, axis=1)
    features = None
    if model.solver == "svd":
        features = graph.matmul(graph.binary("Sub", x, model.xbar_), model.scalings_[:, : model._max_components])  # noqa: SLF001
    elif model.solver == "eigen":
        features = graph.matmul(x, model.scalings_[:, : model._max_components])  # noqa: SLF001 (no public name)
    return Outcome(
        index=decide(graph, score, classes), classes=classes, probability=probability, score=score, features=features
    )


@converts("sklearn.QuadraticDiscriminantAnalysis")
def quadratic_discriminant_analysis(steps: Steps, model: Any, data: Data) -> Outcome:
    """The log density of each class's own Gaussian, and its prior."""
    graph, x = steps.graph, matrix(steps.graph, data)
    columns = []
    for mean, rotation, scaling in zip(model.means_, model.rotations_, model.scalings_, strict=True):
        turned = graph.matmul(graph.binary("Sub", x, mean), rotation * scaling**-0.5)
        columns.append(graph.reduce("ReduceSum", graph.binary("Mul", turned, turned), 1, keep=True))
    spread = np.array([np.sum(np.log(scaling)) for scaling in model.scalings_])
    half = graph.binary("Mul", graph.binary("Add", graph.concat(columns), spread), -0.5)
    return likelihoods(graph, graph.binary("Add", half, np.log(model.priors_)), model.classes_)


@converts("sklearn.NearestCentroid")
def nearest_centroid(steps: Steps, model: Any, data: Data) -> Outcome:
    """The nearest centre, or the likeliest class where the classes are not equally common."""
    graph, classes = steps.graph, model.classes_
    x = matrix(graph, data, F64)
    metric = Metric(model.metric)
    spread = np.where(model.within_class_std_dev_ != 0, model.within_class_std_dev_, 1.0)
    scaled, centres = graph.binary("Div", x, spread), np.asarray(model.centroids_, np.float64) / spread
    if metric.name == "euclidean":
        distance = graph.unary("Sqrt", squared_by_products(graph, scaled, centres))
    else:
        distance = metric.distance(graph, metric.reduced(graph, scaled, centres))
    squares = graph.binary("Mul", distance, distance)
    scores = graph.binary("Add", graph.unary("Neg", squares), 2.0 * np.log(model.class_prior_))
    outcome = likelihoods(graph, scores, classes)
    if np.isclose(model.class_prior_, 1 / len(classes)).all():
        index = nearest_of(graph, x, np.asarray(model.centroids_, np.float64), metric.name)
        outcome = Outcome(index=index, classes=classes, probability=outcome.probability, score=outcome.score)
    if metric.name != "euclidean":
        return Outcome(index=outcome.index, classes=classes)
    return outcome


def likelihoods(graph: Graph, scores: Tensor, classes: Array) -> Outcome:
    """Return the most likely class, its probability, and for two classes the difference of the scores."""
    above = graph.binary("Sub", scores, graph.reduce("ReduceMax", scores, 1, keep=True))
    total = graph.reduce("ReduceSum", graph.unary("Exp", above), 1, keep=True)
    probability = graph.unary("Exp", graph.binary("Sub", above, graph.unary("Log", total)))
    score = scores
    if len(classes) == 2:  # noqa: PLR2004 (binary)
        first, second = (graph.gather(scores, np.array(column), axis=1) for column in (0, 1))
        score = graph.binary("Sub", second, first)
    return Outcome(index=graph.argmax(scores, unknown=True), classes=classes, probability=probability, score=score)
