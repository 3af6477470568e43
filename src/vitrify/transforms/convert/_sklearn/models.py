"""scikit-learn's smaller families: decomposition, k-means, naive Bayes, neural networks.

Source: ``sklearn/decomposition``, ``cluster/_kmeans.py``, ``naive_bayes.py``, ``neural_network``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._building.data import FLOATS, Data, matrix
from vitrify.transforms.convert._building.graph import F64, I64, Array, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts
from vitrify.transforms.convert._numerics.distances import squared_distances
from vitrify.transforms.convert._sklearn.linear import two_columns
from vitrify.transforms.convert._sklearn.scale import in_place


@converts("sklearn.PCA", "sklearn.IncrementalPCA")
def pca(steps: Steps, model: Any, data: Data) -> Outcome:
    """Project, then centre, then whiten: the order matters to the last bit."""
    graph, x = steps.graph, matrix(steps.graph, data, FLOATS)
    x = graph.matmul(x, model.components_.T)
    x = in_place(graph, "Sub", x, model.mean_.reshape(1, -1) @ model.components_.T)
    if model.whiten:
        scale = np.sqrt(model.explained_variance_)
        x = in_place(graph, "Div", x, np.maximum(scale, np.finfo(scale.dtype).eps))
    return Outcome(features=x)


@converts("sklearn.TruncatedSVD")
def truncated_svd(steps: Steps, model: Any, data: Data) -> Outcome:
    """Project."""
    return Outcome(features=steps.graph.matmul(matrix(steps.graph, data), model.components_.T))


@converts("sklearn.FastICA")
def fast_ica(steps: Steps, model: Any, data: Data) -> Outcome:
    """Centre, then unmix."""
    graph, x = steps.graph, matrix(steps.graph, data, FLOATS)
    if model.whiten:
        x = in_place(graph, "Sub", x, model.mean_)
    return Outcome(features=graph.matmul(x, model.components_.T))


@converts("sklearn.FactorAnalysis")
def factor_analysis(steps: Steps, model: Any, data: Data) -> Outcome:
    """Centre, then the posterior mean of the factors."""
    graph, x = steps.graph, matrix(steps.graph, data)
    weights = model.components_ / model.noise_variance_
    inner = np.linalg.inv(np.eye(len(model.components_)) + weights @ model.components_.T)
    centred = graph.binary("Sub", x, model.mean_)
    return Outcome(features=graph.matmul(graph.matmul(centred, weights.T), inner))


@converts("sklearn.GaussianRandomProjection", "sklearn.SparseRandomProjection")
def random_projection(steps: Steps, model: Any, data: Data) -> Outcome:
    """Project."""
    weights = model.components_.toarray() if hasattr(model.components_, "toarray") else model.components_
    return Outcome(features=steps.graph.matmul(matrix(steps.graph, data, FLOATS), weights.T))


@converts("sklearn.KMeans", "sklearn.MiniBatchKMeans")
def k_means(steps: Steps, model: Any, data: Data) -> Outcome:
    """The nearest centre, by ``|c|^2 - 2 x c`` as scikit-learn ranks them; the distances for ``transform``."""
    graph, x = steps.graph, matrix(steps.graph, data, FLOATS)
    centres = model.cluster_centers_
    products = graph.binary("Mul", graph.matmul(x, centres.T), -2.0)
    ranks = graph.binary("Add", products, np.einsum("ij,ij->i", centres, centres))
    nearest = graph.op("ArgMin", ranks, dtype=I64, axis=1, keepdims=0)
    distances = graph.unary("Sqrt", squared_distances(graph, x, centres))
    return Outcome(prediction=graph.cast(nearest, np.int32), features=distances)


def bayes(graph: Graph, joint: Tensor, classes: Array) -> Outcome:
    """Return the most likely class, and the joint log likelihoods normalised."""
    total = graph.op("ReduceLogSumExp", joint, np.array([1]), dtype=joint.dtype, keepdims=1)
    probability = graph.unary("Exp", graph.binary("Sub", joint, total))
    return Outcome(index=graph.argmax(joint), classes=classes, probability=probability)


@converts("sklearn.GaussianNB")
def gaussian_nb(steps: Steps, model: Any, data: Data) -> Outcome:
    """The sum of squared standardised distances to each class's mean."""
    graph, x = steps.graph, matrix(steps.graph, data)
    wide = graph.op("Unsqueeze", x, np.array([1]), dtype=x.dtype)
    apart = graph.binary("Sub", wide, model.theta_)
    squares = graph.binary("Div", graph.binary("Mul", apart, apart), model.var_)
    spread = -0.5 * np.sum(np.log(2.0 * np.pi * model.var_), axis=1)
    half = graph.binary("Mul", graph.reduce("ReduceSum", squares, 2), 0.5)
    return bayes(
        graph, graph.binary("Add", graph.binary("Sub", spread, half), np.log(model.class_prior_)), model.classes_
    )


@converts("sklearn.MultinomialNB", "sklearn.ComplementNB")
def multinomial_nb(steps: Steps, model: Any, data: Data) -> Outcome:
    """Counts times log probabilities."""
    graph = steps.graph
    joint = graph.matmul(matrix(graph, data), model.feature_log_prob_.T)
    if type(model).__name__ == "MultinomialNB" or len(model.classes_) == 1:
        joint = graph.binary("Add", joint, model.class_log_prior_)
    return bayes(graph, joint, model.classes_)


@converts("sklearn.BernoulliNB")
def bernoulli_nb(steps: Steps, model: Any, data: Data) -> Outcome:
    """Present and absent features."""
    graph, x = steps.graph, matrix(steps.graph, data)
    if model.binarize is not None:
        x = graph.cast(graph.compare("Greater", x, float(model.binarize)), F64)
    absent = np.log(1 - np.exp(model.feature_log_prob_))
    joint = graph.matmul(x, (model.feature_log_prob_ - absent).T)
    return bayes(graph, graph.binary("Add", joint, model.class_log_prior_ + absent.sum(axis=1)), model.classes_)


@converts("sklearn.CategoricalNB")
def categorical_nb(steps: Steps, model: Any, data: Data) -> Outcome:
    """Look up each feature's log probability."""
    graph, x = steps.graph, matrix(steps.graph, data, I64)
    joint: Tensor | None = None
    for column, table in enumerate(model.feature_log_prob_):
        part = graph.gather(np.asarray(table).T.copy(), graph.gather(x, np.array(column), axis=1))
        joint = part if joint is None else graph.binary("Add", joint, part)
    assert joint is not None
    return bayes(graph, graph.binary("Add", joint, model.class_log_prior_), model.classes_)


_ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh", "softmax": "Softmax", "exp": "Exp"}


def _forward(graph: Graph, model: Any, x: Tensor) -> Tensor:
    last = len(model.coefs_) - 1
    for layer, (weights, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        x = in_place(graph, "Add", graph.matmul(x, weights), bias)
        name = model.out_activation_ if layer == last else model.activation
        if name == "logistic":
            x = graph.sigmoid(x)
        elif name != "identity":
            x = graph.unary(_ACTIVATIONS[name], x, axis=1 if name == "softmax" else None)
    return x


@converts("sklearn.MLPRegressor")
def mlp_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """Layer by layer."""
    graph = steps.graph
    answer = _forward(graph, model, matrix(graph, data))
    return Outcome(prediction=graph.vector(answer) if model.n_outputs_ == 1 else answer)


@converts("sklearn.MLPClassifier")
def mlp_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """Layer by layer; above one half, or the largest."""
    graph = steps.graph
    answer = _forward(graph, model, matrix(graph, data))
    if model._label_binarizer.y_type_.startswith("multilabel"):  # noqa: SLF001 (no public name)
        return Outcome(prediction=graph.cast(graph.compare("Greater", answer, 0.5), I64), probability=answer)
    if model.n_outputs_ > 1:
        return Outcome(index=graph.argmax(answer), classes=model.classes_, probability=answer)
    one = graph.vector(answer)
    index = graph.cast(graph.compare("Greater", one, 0.5), I64)
    return Outcome(index=index, classes=model.classes_, probability=two_columns(graph, one))
