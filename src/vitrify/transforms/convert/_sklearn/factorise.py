"""scikit-learn's factorisations that go on until little changes: the graph goes on as long, in a loop.

Source: ``sklearn/decomposition/_nmf.py``, ``_cdnmf_fast.pyx``, ``_lda.py``, ``_online_lda_fast.pyx``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.data import FLOATS, Data, matrix
from vitrify.transforms.convert._building.graph import BOOL, Array, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse

if TYPE_CHECKING:
    from vitrify.transforms.convert._building.graph import Operand


def _sum(graph: Graph, x: Tensor) -> Tensor:
    """Return the sum of all elements: a scalar."""
    return graph.op("ReduceSum", x, dtype=x.dtype, keepdims=0)


def _like(graph: Graph, x: Tensor, width: int, value: Operand) -> Tensor:
    """Return a matrix with a row for each of ``x``, all of one value."""
    shape = graph.concat([graph.rows(x), graph.constant(np.array([width]))], axis=0)
    return graph.op("Expand", graph.cast(value, x.dtype), shape, dtype=x.dtype)


@converts("sklearn.NMF")
def nmf(steps: Steps, step: Any, data: Data) -> Outcome:
    """Coordinate descent from zero; once it stands still another round changes nothing."""
    graph, x = steps.graph, matrix(steps.graph, data, FLOATS)
    parts = np.asarray(step.components_)
    if step.solver != "cd":
        message = "which starts from the mean of the batch: a row's answer depends on the rows beside it"
        refuse(f"is solved by {step.solver!r}, {message}", "use solver='cd' and tol=0")
    if step.tol > 0:
        message = "stops when the whole batch stands still, so that a row's answer depends on the rows beside it"
        refuse(message, "save it after set_params(tol=0, max_iter=...): it then does all rounds for every row")
    if step.shuffle:
        refuse("goes through the components in random order (shuffle=True)", "use shuffle=False")
    lasso, _, ridge, _ = step._compute_regularization(np.empty((1, parts.shape[1])))  # noqa: SLF001 (of the width only)
    squares = (parts @ parts.T + ridge * np.eye(len(parts))).astype(parts.dtype)
    products = graph.matmul(x, parts.T)
    products = graph.binary("Sub", products, float(lasso)) if lasso else products

    def descend(_: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        columns = [graph.gather(states[0], np.array([place]), axis=1) for place in range(len(parts))]
        for place in range(len(parts)):
            columns[place] = _coordinate(graph, columns, place, squares, products)
        return (graph.concat(columns),)

    start = _like(graph, x, len(parts), np.zeros((1, 1)))
    (weights,) = graph.loop(np.array(int(step.max_iter)), (start,), descend)
    return Outcome(features=weights)


def _coordinate(graph: Graph, columns: list[Tensor], place: int, squares: Array, products: Tensor) -> Tensor:
    """Return one component's weights after Newton's step, not below zero."""
    if squares[place, place] == 0:
        return columns[place]
    slope = graph.unary("Neg", graph.gather(products, np.array([place]), axis=1))
    slope = graph.binary("Add", slope, graph.matmul(graph.concat(columns), squares[place].reshape(-1, 1)))
    moved = graph.binary("Sub", columns[place], graph.binary("Div", slope, squares[place, place]))
    return graph.op("Max", moved, np.zeros((), moved.dtype), dtype=moved.dtype)


@converts("sklearn.LatentDirichletAllocation")
def latent_dirichlet_allocation(steps: Steps, step: Any, data: Data) -> Outcome:
    """Each row's topics and words in turn, until the row stands still."""
    from sklearn.decomposition._online_lda_fast import _dirichlet_expectation_2d  # the start, as scikit-learn has it

    graph, x = steps.graph, matrix(steps.graph, data, FLOATS)
    words = np.asarray(step.exp_dirichlet_component_)
    count, kind = len(words), x.dtype
    start = np.exp(_dirichlet_expectation_2d(np.ones((1, count), kind)))
    tiny, prior = float(np.finfo(kind).eps), float(step.doc_topic_prior_)

    def update(_: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        topics, powers, active = states
        share = graph.binary("Add", graph.matmul(powers, words), tiny)
        fresh = graph.binary("Mul", powers, graph.matmul(graph.binary("Div", x, share), words.T))
        fresh = graph.cast(graph.binary("Add", fresh, prior), kind)
        total = graph.reduce("ReduceSum", fresh, 1, keep=True)
        grown = graph.unary("Exp", graph.binary("Sub", digamma(graph, fresh), digamma(graph, total)))
        apart = graph.cast(graph.unary("Abs", graph.binary("Sub", topics, fresh)), np.float64)
        moved = graph.reduce("ReduceSum", apart, 1, keep=True)
        still = graph.compare("Less", graph.binary("Div", moved, float(count)), float(step.mean_change_tol))
        after = graph.op("And", active, graph.op("Not", still, dtype=BOOL), dtype=BOOL)
        going = graph.compare("Greater", _sum(graph, graph.cast(after, np.int32)), np.array(0, np.int32))
        return going, graph.where(active, fresh, topics), graph.where(active, grown, powers), after

    states = (_like(graph, x, count, np.ones((1, 1))), _like(graph, x, count, start), _everywhere(graph, x))
    topics, *_ = graph.loop(np.array(int(step.max_doc_update_iter)), states, update)
    return Outcome(features=graph.binary("Div", topics, graph.reduce("ReduceSum", topics, 1, keep=True)))


def _everywhere(graph: Graph, x: Tensor) -> Tensor:
    """Return True for each row, as a column."""
    return graph.cast(_like(graph, x, 1, np.ones((1, 1))), BOOL)


_EULER = 0.577215664901532860606512090082402431


def digamma(graph: Graph, x: Tensor) -> Tensor:
    """Return the digamma function of positive values, as scikit-learn computes it (Bernardo 1976, AS 103)."""
    one = np.ones((), x.dtype)
    result = graph.binary("Mul", x, 0.0)
    moved = x
    for _ in range(6):
        low = graph.compare("Less", moved, np.array(6, x.dtype))
        result = graph.where(low, graph.binary("Sub", result, graph.unary("Reciprocal", moved)), result)
        moved = graph.where(low, graph.binary("Add", moved, one), moved)
    inverse = graph.unary("Reciprocal", moved)
    rest = graph.binary("Sub", graph.unary("Log", moved), graph.binary("Mul", inverse, 0.5))
    result = graph.binary("Add", result, rest)
    square = graph.binary("Mul", inverse, inverse)
    series = graph.binary("Sub", np.array(1 / 120, x.dtype), graph.binary("Mul", square, 1 / 252))
    series = graph.binary("Sub", np.array(1 / 12, x.dtype), graph.binary("Mul", square, series))
    result = graph.binary("Sub", result, graph.binary("Mul", square, series))
    near = graph.binary("Sub", np.array(-_EULER, x.dtype), graph.unary("Reciprocal", x))
    return graph.where(graph.compare("LessOrEqual", x, np.array(1e-6, x.dtype)), near, result)
