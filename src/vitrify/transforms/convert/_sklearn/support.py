"""scikit-learn's support vectors, as LIBSVM computes them: in double, one weighted sum of kernels for each pair.

Source: ``sklearn/svm/_base.py``, ``svm/src/libsvm/svm.cpp``; T.-F. Wu, C.-J. Lin, R. C. Weng, Probability Estimates
for Multi-class Classification by Pairwise Coupling, JMLR 5 (2004), algorithm 2
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._building.data import Data, matrix
from vitrify.transforms.convert._building.graph import BOOL, F64, I64, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._numerics.distances import squared_distances
from vitrify.transforms.convert._sklearn.linear import inlier


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
        # LIBSVM's own score has the other sign.
        probability = _coupled(graph, model, graph.column(graph.unary("Neg", score)))
        return Outcome(index=_second(graph, score), classes=classes, score=score, probability=probability)
    pairs = _pairs(graph, model, _kernel(graph, model, matrix(graph, data, F64)))
    won = graph.compare("Greater", pairs, np.zeros(()))
    votes, scores = one_vs_one(graph, won, graph.unary("Neg", pairs), len(classes))
    ovr = model.decision_function_shape == "ovr"
    index = graph.argmax(scores if ovr and model.break_ties else votes)
    probability = _coupled(graph, model, pairs)
    return Outcome(index=index, classes=classes, score=scores if ovr else pairs, probability=probability)


def _second(graph: Graph, score: Tensor) -> Tensor:
    """Return 1 where the first class has not won: LIBSVM gives a sum that is zero or NaN to the second one."""
    first = graph.compare("Less", score, np.zeros(()))
    return graph.cast(graph.op("Not", first, dtype=BOOL), I64)


_LEAST = 1e-7
"""How near to 0 and 1 LIBSVM lets the probability of one class of a pair come."""


def _coupled(graph: Graph, model: Any, pairs: Tensor) -> Tensor | None:
    """Return (rows, classes) probabilities that fit those of all pairs best, as far as LIBSVM goes on looking."""
    if model.probability is not True:
        return None
    fitted = graph.binary("Add", graph.binary("Mul", pairs, model._probA), model._probB)  # noqa: SLF001 (the public ones warn)
    first = graph.sigmoid(graph.unary("Neg", fitted))
    # LIBSVM's max takes the bound for NaN, which Clip would keep.
    first = graph.where(graph.compare("Greater", first, _LEAST), first, np.array(_LEAST))
    first = graph.binary("Min", first, np.array(1 - _LEAST))
    count = len(model.classes_)
    matrix_ = _coupling(graph, first, count)
    diagonal = [
        graph.gather(graph.gather(matrix_, np.array([at]), axis=1), np.array(at), axis=2) for at in range(count)
    ]
    shape = graph.concat([graph.rows(first), graph.constant(np.array([count]))], axis=0)
    start = graph.op("Expand", np.array([[1.0 / count]]), shape, dtype=graph.real(F64))
    going = graph.compare("Greater", graph.gather(start, np.array([0]), axis=1), 0.0)

    def step(_: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        shares, going = states
        products = graph.reduce("ReduceSum", graph.binary("Mul", matrix_, _row(graph, shares)), 2)
        whole = graph.reduce("ReduceSum", graph.binary("Mul", shares, products), 1, keep=True)
        error = graph.unary("Abs", graph.binary("Sub", products, whole))
        far = graph.compare("GreaterOrEqual", graph.reduce("ReduceMax", error, 1, keep=True), 0.005 / count)
        going = graph.op("And", going, far, dtype=BOOL)
        return graph.where(going, _swept(graph, matrix_, diagonal, (shares, products, whole)), shares), going

    return graph.loop(np.array(max(100, count)), (start, going), step)[0]


def _row(graph: Graph, values: Tensor) -> Tensor:
    return graph.op("Unsqueeze", values, np.array([1]), dtype=values.dtype)


def _coupling(graph: Graph, first: Tensor, count: int) -> Tensor:
    """Return the quadratic form of each row: (rows, classes, classes)."""
    second = graph.binary("Sub", np.ones(()), first)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    square = np.zeros((len(pairs), count * count))
    other = np.zeros_like(square)
    across = np.zeros_like(square)
    for pair, (one, two) in enumerate(pairs):
        # The first class's own term is what the second one wins by, and the other way round.
        square[pair, two * count + two] = other[pair, one * count + one] = 1
        across[pair, one * count + two] = across[pair, two * count + one] = -1
    parts = [
        graph.matmul(graph.binary("Mul", first, first), square),
        graph.matmul(graph.binary("Mul", second, second), other),
        graph.matmul(graph.binary("Mul", first, second), across),
    ]
    total = graph.binary("Add", graph.binary("Add", parts[0], parts[1]), parts[2])
    return graph.reshape(total, -1, count, count)


def _swept(graph: Graph, matrix_: Tensor, diagonal: list[Tensor], state: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Improve one class after the other, and scale the shares back to a sum of one."""
    shares, products, whole = state
    for at, own in enumerate(diagonal):
        here = graph.gather(products, np.array([at]), axis=1)
        move = graph.binary("Div", graph.binary("Sub", whole, here), own)
        grown = graph.binary("Add", np.ones(()), move)
        only = np.eye(len(diagonal))[at].reshape(1, -1)
        shares = graph.binary("Div", graph.binary("Add", shares, graph.binary("Mul", move, only)), grown)
        more = graph.binary("Add", graph.binary("Mul", move, own), graph.binary("Mul", here, 2.0))
        whole = graph.binary("Add", whole, graph.binary("Mul", move, more))
        whole = graph.binary("Div", graph.binary("Div", whole, grown), grown)
        column = graph.gather(matrix_, np.array(at), axis=1)
        products = graph.binary("Div", graph.binary("Add", products, graph.binary("Mul", move, column)), grown)
    return shares


def _pairs(graph: Graph, model: Any, kernel: Tensor) -> Tensor:
    """Return (rows, pairs of classes): positive for the first of the pair."""
    dual = model.dual_coef_.toarray() if hasattr(model.dual_coef_, "toarray") else np.asarray(model.dual_coef_)
    ends = np.cumsum(model.n_support_)
    spans = [slice(end - count, end) for end, count in zip(ends, model.n_support_, strict=True)]
    columns = []
    for pair, (one, two) in enumerate((i, j) for i in range(len(spans)) for j in range(i + 1, len(spans))):
        # Only the vectors of these two classes: a kernel that overflows elsewhere must not reach this sum.
        vectors = np.r_[spans[one], spans[two]]
        weights = np.concatenate([dual[two - 1, spans[one]], dual[one, spans[two]]]).reshape(-1, 1)
        columns.append(graph.affine(graph.gather(kernel, vectors, axis=1), weights, model.intercept_[[pair]]))
    return graph.concat(columns)


def one_vs_one(graph: Graph, first_wins: Tensor, second_by: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return each class's votes, and the votes with the confidences breaking ties: (rows, classes) each.

    Args:
        graph: Where it is computed.
        first_wins: (rows, pairs), whether the first class of a pair has the vote.
        second_by: (rows, pairs), by how much the second class is ahead.
        count: Number of classes.
    """
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    own = np.array([[pair for pair, ends in enumerate(pairs) if at in ends] for at in range(count)])
    sides = np.where(np.array(pairs)[own][:, :, 1] == np.arange(count)[:, None], 1.0, -1.0)
    won = graph.gather(graph.cast(first_wins, F64), own, axis=1)
    votes = _in_order(graph, graph.binary("Sub", np.where(sides > 0, 1.0, 0.0), graph.binary("Mul", won, sides)))
    ahead = _in_order(graph, graph.binary("Mul", graph.gather(second_by, own, axis=1), sides))
    bound = graph.binary("Mul", graph.binary("Add", graph.unary("Abs", ahead), 1.0), 3.0)
    return votes, graph.binary("Add", votes, graph.binary("Div", ahead, bound))


def _in_order(graph: Graph, terms: Tensor) -> Tensor:
    """Return (rows, classes) sums of (rows, classes, terms), each added from the first term to the last."""
    sums = graph.op("CumSum", terms, np.array(2), dtype=terms.dtype)
    return graph.gather(sums, np.array(-1), axis=2)
