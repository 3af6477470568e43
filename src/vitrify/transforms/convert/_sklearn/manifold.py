"""scikit-learn's neighbours as features, and the manifolds that new rows are put on by their neighbours.

Source: ``sklearn/neighbors/_graph.py``, ``manifold/_isomap.py``, ``_locally_linear.py``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.data import Data, matrix
from vitrify.transforms.convert._building.graph import F64, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._numerics.neighbors import nearest, points_of, within
from vitrify.transforms.convert._sklearn.kernel import project_kernel

if TYPE_CHECKING:
    from vitrify.transforms.convert._building.graph import Operand

_MOST = 16
"""Neighbours up to which each row's system of equations is written out."""


@converts("sklearn.KNeighborsTransformer")
def k_neighbors_transformer(steps: Steps, step: Any, data: Data) -> Outcome:
    """(rows, training rows): the distances to the nearest, or ones, and zero for the others."""
    graph, x = steps.graph, matrix(steps.graph, data)
    found = nearest(graph, step, x, step.n_neighbors + (step.mode == "distance"))
    values = found.distance
    if step.mode == "connectivity":
        values = graph.cast(graph.compare("GreaterOrEqual", values, np.zeros(())), F64)
    width = graph.constant(np.array([len(points_of(step))]))
    shape = graph.concat([graph.rows(x), width], axis=0)
    # A row that is infinitely far from all has one neighbour several times, as in the source's sparse matrix.
    empty = graph.op("ConstantOfShape", shape, dtype=graph.real(F64), value=np.zeros(1, graph.real(F64)))
    return Outcome(
        features=graph.op("ScatterElements", empty, found.index, values, dtype=graph.real(F64), axis=1, reduction="add")
    )


@converts("sklearn.RadiusNeighborsTransformer")
def radius_neighbors_transformer(steps: Steps, step: Any, data: Data) -> Outcome:
    """(rows, training rows): the distances within the radius, or ones, and zero for the others."""
    graph = steps.graph
    inside, distances = within(graph, step, matrix(graph, data), float(step.radius))
    if step.mode == "connectivity":
        return Outcome(features=graph.cast(inside, F64))
    return Outcome(features=graph.where(inside, distances, np.zeros(())))


@converts("sklearn.Isomap")
def isomap(steps: Steps, step: Any, data: Data) -> Outcome:
    """The shortest ways to the training rows through the nearest ones, then their kernel's components."""
    graph, x = steps.graph, matrix(steps.graph, data)
    if step.n_neighbors is None:
        refuse("goes through all rows within a radius, a different number for each row", "use n_neighbors")
    found = nearest(graph, step.nbrs_, x, int(step.nbrs_.n_neighbors))
    ways = np.asarray(step.dist_matrix_)
    shortest: Tensor | None = None
    for place in range(int(step.nbrs_.n_neighbors)):
        through = graph.gather(ways, graph.gather(found.index, np.array(place), axis=1))
        through = graph.binary("Add", through, graph.gather(found.distance, np.array([place]), axis=1))
        shortest = through if shortest is None else graph.op("Min", shortest, through, dtype=through.dtype)
    assert shortest is not None
    square = graph.binary("Mul", graph.binary("Mul", shortest, shortest), -0.5)
    return Outcome(features=project_kernel(graph, step.kernel_pca_, square))


@converts("sklearn.LocallyLinearEmbedding")
def locally_linear_embedding(steps: Steps, step: Any, data: Data) -> Outcome:
    """Each row as a mixture of its neighbours, and the same mixture of where these were put."""
    graph, x = steps.graph, matrix(steps.graph, data, F64)
    count = int(step.n_neighbors)
    if count > _MOST:
        refuse(f"solves {count} equations a row, written out one by one", f"use n_neighbors={_MOST} or fewer")
    found = nearest(graph, step.nbrs_, x, count)
    indices = [graph.gather(found.index, np.array(place), axis=1) for place in range(count)]
    apart = [graph.binary("Sub", graph.gather(points_of(step.nbrs_), index), x) for index in indices]
    total: Tensor | None = None
    for index, weight in zip(indices, _barycentre(graph, apart, float(step.reg)), strict=True):
        there = graph.gather(np.asarray(step.embedding_), index)
        part = graph.binary("Mul", there, weight)
        total = part if total is None else graph.binary("Add", total, part)
    assert total is not None
    return Outcome(features=total)


def _barycentre(graph: Graph, apart: list[Tensor], regularisation: float) -> list[Tensor]:
    """Return the weights, a column each, that mix a row from its neighbours best and sum to one.

    Args:
        graph: Where it is computed.
        apart: By how much each neighbour differs from the row.
        regularisation: What is added to the equations' diagonal, as a share of its sum.
    """
    count = len(apart)
    products = {
        (row, column): graph.reduce("ReduceSum", graph.binary("Mul", apart[row], apart[column]), 1, keep=True)
        for row in range(count)
        for column in range(row + 1)
    }
    trace = products[0, 0]
    for place in range(1, count):
        trace = graph.binary("Add", trace, products[place, place])
    positive = graph.compare("Greater", trace, np.zeros(()))
    ridge = graph.where(positive, graph.binary("Mul", trace, regularisation), np.array(regularisation))
    for place in range(count):
        products[place, place] = graph.binary("Add", products[place, place], ridge)
    weights = _solved(graph, products, count)
    total = weights[0]
    for weight in weights[1:]:
        total = graph.binary("Add", total, weight)
    return [graph.binary("Div", weight, total) for weight in weights]


def _solved(graph: Graph, products: dict[tuple[int, int], Tensor], count: int) -> list[Tensor]:
    """Return the solution for a right side of ones, by Cholesky's factor: down, and up again."""
    lower: dict[tuple[int, int], Tensor] = {}
    down: list[Tensor] = []
    for row in range(count):
        for column in range(row + 1):
            entry = products[row, column]
            for place in range(column):
                entry = graph.binary("Sub", entry, graph.binary("Mul", lower[row, place], lower[column, place]))
            root = row == column
            lower[row, column] = (
                graph.unary("Sqrt", entry) if root else graph.binary("Div", entry, lower[column, column])
            )
        value: Operand = np.ones(())
        for place in range(row):
            value = graph.binary("Sub", value, graph.binary("Mul", lower[row, place], down[place]))
        down.append(graph.binary("Div", value, lower[row, row]))
    up: dict[int, Tensor] = {}
    for row in reversed(range(count)):
        rest = down[row]
        for later in range(row + 1, count):
            rest = graph.binary("Sub", rest, graph.binary("Mul", lower[later, row], up[later]))
        up[row] = graph.binary("Div", rest, lower[row, row])
    return [up[row] for row in range(count)]
