"""scikit-learn's smaller families: decomposition, clustering, naive Bayes, neural networks, support vectors.

Source: ``sklearn/decomposition``, ``cluster/_kmeans.py``, ``naive_bayes.py``, ``neural_network``, ``svm/_base.py`` and
LIBSVM's ``svm.cpp``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._data import FLOATS, Data, matrix
from vitrify.transforms.convert._graph import F64, I64, Array, Graph, Tensor
from vitrify.transforms.convert._sklearn_linear import above, inlier, two_columns
from vitrify.transforms.convert._sklearn_scale import in_place
from vitrify.transforms.convert._steps import Outcome, Steps, converts, refuse


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


def squared_distances(graph: Graph, x: Tensor, points: Array) -> Tensor:
    """Return (rows, points), from the differences: exact where the textbook's shortcut cancels."""
    apart = graph.binary("Sub", graph.op("Unsqueeze", x, np.array([1]), dtype=x.dtype), points)
    return graph.reduce("ReduceSum", graph.binary("Mul", apart, apart), 2)


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
    wide = graph.op("Unsqueeze", graph.cast(x, F64), np.array([1]), dtype=graph.real(F64))
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
    if model._label_binarizer.y_type_.startswith("multilabel"):  # noqa: SLF001 (no public name)
        refuse("was fitted on several label columns at once", "fit one classifier a column (MultiOutputClassifier)")
    answer = _forward(graph, model, matrix(graph, data))
    if model.n_outputs_ > 1:
        return Outcome(index=graph.argmax(answer), classes=model.classes_, probability=answer)
    one = graph.vector(answer)
    index = graph.cast(graph.compare("Greater", one, 0.5), I64)
    return Outcome(index=index, classes=model.classes_, probability=two_columns(graph, one))


def _kernel(graph: Graph, model: Any, x: Tensor) -> Tensor:
    """Return (rows, support vectors) in double, as LIBSVM computes."""
    if not isinstance(model.kernel, str) or model.kernel == "precomputed":
        refuse("has a kernel that is Python code or precomputed", "use kernel='rbf', 'linear', 'poly' or 'sigmoid'")
    vectors = np.asarray(model.support_vectors_, np.float64)
    gamma = float(model._gamma)  # noqa: SLF001 (the value that gamma='scale' came to)
    if model.kernel == "rbf":
        return graph.unary("Exp", graph.binary("Mul", squared_distances(graph, x, vectors), -gamma))
    product = graph.matmul(x, vectors.T)
    if model.kernel == "linear":
        return product
    score = graph.binary("Add", graph.binary("Mul", product, gamma), float(model.coef0))
    return graph.unary("Tanh", score) if model.kernel == "sigmoid" else graph.binary("Pow", score, float(model.degree))


def _kernel_sum(steps: Steps, model: Any, data: Data) -> Tensor:
    graph = steps.graph
    kernel = _kernel(graph, model, matrix(graph, data, F64))
    dual = model.dual_coef_.toarray() if hasattr(model.dual_coef_, "toarray") else model.dual_coef_
    return graph.vector(graph.affine(kernel, np.asarray(dual).T, np.asarray(model.intercept_)))


@converts("sklearn.SVR", "sklearn.NuSVR")
def support_vector_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """The weighted sum of kernels."""
    return Outcome(prediction=_kernel_sum(steps, model, data))


@converts("sklearn.OneClassSVM")
def one_class_svm(steps: Steps, model: Any, data: Data) -> Outcome:
    """The weighted sum of kernels; 1 for an inlier and -1 for an outlier."""
    score = _kernel_sum(steps, model, data)
    return Outcome(prediction=inlier(steps.graph, score, "Greater"), score=score)


@converts("sklearn.SVC", "sklearn.NuSVC")
def support_vector_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """One weighted sum of kernels for each pair of classes; each pair has a vote."""
    graph, classes = steps.graph, model.classes_
    if len(classes) == 2:  # noqa: PLR2004 (binary)
        score = _kernel_sum(steps, model, data)
        probability = None
        if model.probability is True:
            slope, offset = float(model._probA[0]), float(model._probB[0])  # noqa: SLF001 (their public names warn)
            # LIBSVM's own score has the other sign.
            fitted = graph.binary("Add", graph.binary("Mul", graph.unary("Neg", score), slope), offset)
            probability = _bounded(graph, two_columns(graph, graph.sigmoid(fitted)))
        return Outcome(index=above(graph, score), classes=classes, score=score, probability=probability)
    if model.probability is True:
        msg = "couples the probabilities of more than two classes by an iteration without a fixed length"
        refuse(msg, "use CalibratedClassifierCV around SVC(probability=False)")
    pairs = _pairs(graph, model, _kernel(graph, model, matrix(graph, data, F64)))
    won = graph.compare("Greater", pairs, np.zeros(()))
    votes, scores = one_vs_one(graph, won, graph.unary("Neg", pairs), len(classes))
    ovr = model.decision_function_shape == "ovr"
    index = graph.argmax(scores if ovr and model.break_ties else votes)
    return Outcome(index=index, classes=classes, score=scores if ovr else pairs)


def _bounded(graph: Graph, probability: Tensor) -> Tensor:
    """Keep the probabilities away from 0 and 1 by LIBSVM's 1e-7."""
    return graph.op("Clip", probability, np.array(1e-7), np.array(1 - 1e-7), dtype=probability.dtype)


def _pairs(graph: Graph, model: Any, kernel: Tensor) -> Tensor:
    """Return (rows, pairs of classes): positive for the first of the pair."""
    dual = model.dual_coef_.toarray() if hasattr(model.dual_coef_, "toarray") else np.asarray(model.dual_coef_)
    ends = np.cumsum(model.n_support_)
    spans = [slice(end - count, end) for end, count in zip(ends, model.n_support_, strict=True)]
    weights = []
    for first in range(len(spans)):
        for second in range(first + 1, len(spans)):
            column = np.zeros(dual.shape[1])
            column[spans[first]] = dual[second - 1, spans[first]]
            column[spans[second]] = dual[first, spans[second]]
            weights.append(column)
    return graph.affine(kernel, np.array(weights).T, np.asarray(model.intercept_))


def one_vs_one(graph: Graph, first_wins: Tensor, second_by: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return each class's votes, and the votes with the confidences breaking ties: (rows, classes) each.

    Args:
        graph: Where it is computed.
        first_wins: (rows, pairs), whether the first class of a pair has the vote.
        second_by: (rows, pairs), by how much the second class is ahead.
        count: Number of classes.
    """
    first = np.zeros((count * (count - 1) // 2, count))
    second = np.zeros_like(first)
    for pair, (one, other) in enumerate((i, j) for i in range(count) for j in range(i + 1, count)):
        first[pair, one] = second[pair, other] = 1
    won = graph.cast(first_wins, F64)
    lost = graph.binary("Sub", np.ones(()), won)
    votes = graph.binary("Add", graph.matmul(won, first), graph.matmul(lost, second))
    ahead = graph.matmul(second_by, second - first)
    bound = graph.binary("Mul", graph.binary("Add", graph.unary("Abs", ahead), 1.0), 3.0)
    return votes, graph.binary("Add", votes, graph.binary("Div", ahead, bound))
