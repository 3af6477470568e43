"""Distances between rows and points that the model holds.

A *reduced* distance ranks as the distance does and is cheaper: its square for Euclid, its power for Minkowski.
Sums go from the first feature to the last, one addition at a time, as in scikit-learn's loops: which of two
points is nearer may hang on the last bit. The textbook's shortcut ``|x|^2 - 2 x.y + |y|^2`` is taken where the
source takes it, and rounds otherwise.

Source: ``sklearn/metrics/_dist_metrics.pyx``, ``metrics/pairwise.py``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.graph import F32, F64, Array, Graph, Tensor
from vitrify.transforms.convert._building.steps import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_UNROLLED = 64
"""Features up to which a sum over them is written out, which needs no (rows, points, features) array."""

_PAIRS = 12
"""The same for a sum over pairs of features."""


def squared_distances(graph: Graph, x: Tensor, points: Array) -> Tensor:
    """Return (rows, points), from the differences: exact where the textbook's shortcut cancels."""
    return _summed(graph, x, points, lambda apart, _: graph.binary("Mul", apart, apart))


def squared_by_products(graph: Graph, x: Tensor, points: Array) -> Tensor:
    """Return (rows, points) as ``euclidean_distances(squared=True)`` computes them: products first, then the norms.

    Single precision is computed in double, and rounded once.
    """
    kind = np.result_type(x.dtype, points.dtype)
    x, points = graph.cast(x, F64), points.astype(np.float64)
    distances = graph.binary("Mul", graph.matmul(x, points.T), -2.0)
    distances = graph.binary("Add", distances, squared_norms(graph, x, points.shape[1]))
    distances = graph.cast(graph.binary("Add", distances, np.einsum("ij,ij->i", points, points)), kind)
    zero = np.zeros((), distances.dtype)
    return graph.where(graph.compare("Less", distances, zero), zero, distances)


def squared_norms(graph: Graph, x: Tensor, width: int) -> Tensor:
    """Return the squared length of each row of so many features, as a column, added in the order of NumPy's einsum.

    NumPy adds in lanes of 16 bytes, of four such vectors the last one first, and in the end lane to lane: where a
    distance is what rounding leaves, another order finds another neighbour.

    Source: ``numpy/_core/src/multiarray/einsum_sumprod.c.src``
    """
    lanes = 16 // x.dtype.itemsize
    vectors = -(-width // lanes)
    first = [4 * block + step for block in range(width // (4 * lanes)) for step in (3, 2, 1, 0)]
    order = np.array([*first, *range(len(first), vectors)])
    squares = graph.op(
        "Pad",
        graph.binary("Mul", x, x),
        np.array([0, 0, 0, vectors * lanes - width]),
        np.zeros((), graph.real(x.dtype)),
        dtype=x.dtype,
    )
    squares = graph.gather(squares, (order[:, None] * lanes + np.arange(lanes)).ravel(), axis=1)
    sums = graph.op("CumSum", graph.reshape(squares, 0, vectors, lanes), np.array(1), dtype=x.dtype)
    parts = [graph.gather(graph.gather(sums, np.array(vectors - 1), axis=1), np.array([at]), 1) for at in range(lanes)]
    while len(parts) > 1:
        parts = [graph.binary("Add", *parts[at : at + 2]) for at in range(0, len(parts), 2)]
    return parts[0]


def lengths(graph: Graph, norms: Tensor) -> Tensor:
    """Return what scikit-learn divides rows by: their norms, and one where a norm is next to nothing."""
    least = np.asarray(10 * np.finfo(norms.dtype).eps, norms.dtype)
    return graph.where(graph.compare("Less", norms, least), np.ones((), norms.dtype), norms)


def nearest_of(graph: Graph, x: Tensor, points: Array, metric: str = "euclidean") -> Tensor:
    """Return the position of the nearest point, as ``pairwise_distances_argmin`` finds it; of equals the first."""
    ranks = reduced_by_products(graph, x, points) if metric == "euclidean" else Metric(metric).reduced(graph, x, points)
    return graph.op("ArgMin", ranks, dtype=np.int64, axis=1, keepdims=0)


def reduced_by_products(graph: Graph, x: Tensor, points: Array) -> Tensor:
    """Return (rows, points) as scikit-learn's blocked searches compute them: ``|x|^2 + (-2 x.y) + |y|^2``."""
    x, points = graph.cast(x, F64), points.astype(np.float64)
    products = graph.binary("Mul", graph.matmul(x, points.T), -2.0)
    norms = np.einsum("ij,ij->i", points, points)
    ranks = graph.binary("Add", graph.binary("Add", squared_norms(graph, x, points.shape[1]), products), norms)
    # The source's max(0, NaN) is 0: a row whose products overflow is nearest to all.
    zero = np.zeros((), ranks.dtype)
    return graph.where(graph.compare("Greater", ranks, zero), ranks, zero)


class Metric:
    """A way to measure, by scikit-learn's name for it.

    Args:
        name: ``euclidean``, ``manhattan`` ...
        parameters: ``p`` and ``w`` for Minkowski, ``V`` for the standardised, ``VI`` for Mahalanobis.
    """

    def __init__(self, name: Any, parameters: Mapping[str, Any] | None = None) -> None:
        """Refuse a metric that is code, or that is none of ours."""
        self.parameters = dict(parameters or {})
        self.name = _ALIASES.get(name, name) if isinstance(name, str) else type(name).__name__
        if not isinstance(name, str) or self.name not in _TERMS:
            known = ", ".join(sorted(_TERMS))
            what = repr(name) if isinstance(name, str) else "a function of Python code"
            refuse(f"measures by {what}", f"use one of the metrics {known}")

    @property
    def may_be_unknown(self) -> bool:
        """Whether finite rows, if they are large, may be at a distance of NaN."""
        return self.name in {"mahalanobis", "canberra", "braycurtis", "cosine"}

    def reduced(self, graph: Graph, x: Tensor, points: Array) -> Tensor:
        """Return (rows, points) of reduced distances in double."""
        return _TERMS[self.name](graph, graph.cast(x, F64), np.asarray(points, np.float64), self.parameters)

    def blocked(self, graph: Graph, x: Tensor, points: Array) -> Tensor:
        """Return the same as a search by brute force has it.

        Of single precision, differences are rounded to that, and so is their sum, which is added in double.
        """
        kind = np.result_type(x.dtype, points.dtype)
        if kind != F32:
            return self.reduced(graph, x, points)
        terms = _TERMS[self.name](graph, graph.cast(x, kind), points.astype(kind), self.parameters)
        return graph.cast(graph.cast(terms, F32), F64)

    def distance(self, graph: Graph, reduced: Tensor) -> Tensor:
        """Return distances from reduced ones."""
        if self.name in {"euclidean", "seuclidean", "mahalanobis"}:
            return graph.unary("Sqrt", reduced)
        if self.name == "minkowski":
            return graph.binary("Pow", reduced, 1.0 / float(self.parameters.get("p", 2)))
        return reduced

    def reduce(self, distance: float) -> float:
        """Return what a distance is when it is reduced."""
        if self.name in {"euclidean", "seuclidean", "mahalanobis"}:
            return distance * distance
        return float(distance ** float(self.parameters.get("p", 2))) if self.name == "minkowski" else distance


def _summed(graph: Graph, x: Tensor, points: Array, term: Callable[[Tensor, int], Tensor], join: str = "Add") -> Tensor:
    """Return the terms of each feature's differences, joined from the first to the last."""
    width = points.shape[1]
    if width > _UNROLLED and join == "Add":
        wide = graph.op("Unsqueeze", x, np.array([1]), dtype=x.dtype)
        return graph.reduce("ReduceSum", term(graph.cast(graph.binary("Sub", wide, points), F64), -1), 2)
    total: Tensor | None = None
    for column in range(width):
        apart = graph.binary("Sub", graph.gather(x, np.array([column]), axis=1), points[:, column].reshape(1, -1))
        part = term(graph.cast(apart, F64), column)
        total = (
            part
            if total is None
            else graph.binary(join, total, part)
            if join == "Add"
            else graph.op(join, total, part, dtype=part.dtype)
        )
    assert total is not None
    return total


def _of(array: Any, column: int) -> Array:
    """Return one feature's entry of a parameter, or for -1 all of them."""
    values = np.asarray(array, np.float64).ravel()
    return values if column < 0 else values[column]


def _euclidean(graph: Graph, x: Tensor, points: Array, _: Mapping[str, Any]) -> Tensor:
    return squared_distances(graph, x, points)


def _manhattan(graph: Graph, x: Tensor, points: Array, _: Mapping[str, Any]) -> Tensor:
    return _summed(graph, x, points, lambda apart, _: graph.unary("Abs", apart))


def _chebyshev(graph: Graph, x: Tensor, points: Array, _: Mapping[str, Any]) -> Tensor:
    return _summed(graph, x, points, lambda apart, _: graph.unary("Abs", apart), "Max")


def _minkowski(graph: Graph, x: Tensor, points: Array, parameters: Mapping[str, Any]) -> Tensor:
    power, weights = float(parameters.get("p", 2)), parameters.get("w")

    def term(apart: Tensor, column: int) -> Tensor:
        value = graph.binary("Pow", graph.unary("Abs", apart), power)
        return value if weights is None else graph.binary("Mul", value, _of(weights, column))

    return _summed(graph, x, points, term)


def _seuclidean(graph: Graph, x: Tensor, points: Array, parameters: Mapping[str, Any]) -> Tensor:
    variances = parameters["V"]
    return _summed(
        graph,
        x,
        points,
        lambda apart, column: graph.binary("Div", graph.binary("Mul", apart, apart), _of(variances, column)),
    )


def _mahalanobis(graph: Graph, x: Tensor, points: Array, parameters: Mapping[str, Any]) -> Tensor:
    given = parameters.get("VI")
    inverse = np.linalg.inv(parameters["V"]) if given is None else np.asarray(given, np.float64)
    width = len(inverse)
    if width > _PAIRS:
        apart = graph.binary("Sub", graph.op("Unsqueeze", x, np.array([1]), dtype=x.dtype), points)
        return graph.reduce("ReduceSum", graph.binary("Mul", graph.matmul(apart, inverse.T), apart), 2)
    parts = [
        graph.binary("Sub", graph.gather(x, np.array([column]), axis=1), points[:, column].reshape(1, -1))
        for column in range(width)
    ]
    total = None
    for row, part in enumerate(parts):
        turned = [graph.binary("Mul", other, float(inverse[row, column])) for column, other in enumerate(parts)]
        term = graph.binary("Mul", _added(graph, turned), part)
        total = term if total is None else graph.binary("Add", total, term)
    assert total is not None
    return total


def _added(graph: Graph, values: list[Tensor]) -> Tensor:
    total = values[0]
    for value in values[1:]:
        total = graph.binary("Add", total, value)
    return total


def _canberra(graph: Graph, x: Tensor, points: Array, _: Mapping[str, Any]) -> Tensor:
    size, x_wide = np.abs(points).astype(F64), graph.cast(x, F64)

    def term(apart: Tensor, column: int) -> Tensor:
        if column < 0:
            mine = graph.op("Unsqueeze", graph.unary("Abs", x_wide), np.array([1]), dtype=graph.real(F64))
            total = graph.binary("Add", mine, size)
        else:
            mine = graph.unary("Abs", graph.gather(x_wide, np.array([column]), axis=1))
            total = graph.binary("Add", mine, size[:, column].reshape(1, -1))
        nothing = graph.compare("Equal", total, 0.0)
        return graph.binary("Div", graph.unary("Abs", apart), graph.where(nothing, np.ones(()), total))

    return _summed(graph, x, points, term)


def _braycurtis(graph: Graph, x: Tensor, points: Array, _: Mapping[str, Any]) -> Tensor:
    apart = _manhattan(graph, x, points, {})
    mine, points = graph.unary("Abs", graph.cast(x, F64)), points.astype(F64)
    sizes = [
        graph.binary("Add", graph.gather(mine, np.array([column]), axis=1), np.abs(points[:, column]).reshape(1, -1))
        for column in range(points.shape[1])
    ]
    total = _added(graph, sizes)
    nothing = graph.compare("Equal", total, 0.0)
    return graph.binary("Div", apart, graph.where(nothing, np.ones(()), total))


def _hamming(graph: Graph, x: Tensor, points: Array, _: Mapping[str, Any]) -> Tensor:
    def term(apart: Tensor, _: int) -> Tensor:
        return graph.where(graph.compare("Equal", apart, 0.0), np.zeros(()), np.ones(()))

    return graph.binary("Div", _summed(graph, x, points, term), float(points.shape[1]))


def _cosine(graph: Graph, x: Tensor, points: Array, _: Mapping[str, Any]) -> Tensor:
    alike = cosine_similarity(graph, x, points)
    unit = graph.binary("Sub", np.ones((), alike.dtype), alike)
    ends = (np.array(end, graph.real(unit.dtype)) for end in (0.0, 2.0))
    return graph.op("Clip", unit, *ends, dtype=unit.dtype)


def cosine_similarity(graph: Graph, x: Tensor, points: Array) -> Tensor:
    """Return the products of the rows and the points, each divided by its length."""
    kind = np.result_type(x.dtype, points.dtype)
    x, points = graph.cast(x, kind), points.astype(kind)
    scaled = graph.binary("Div", x, lengths(graph, graph.unary("Sqrt", squared_norms(graph, x, points.shape[1]))))
    sizes = np.sqrt(np.einsum("ij,ij->i", points, points))
    return graph.matmul(scaled, (points / np.where(sizes < 10 * np.finfo(kind).eps, 1, sizes)[:, None]).T)


_TERMS: dict[str, Callable[[Graph, Tensor, Array, Mapping[str, Any]], Tensor]] = {
    "euclidean": _euclidean,
    "sqeuclidean": _euclidean,
    "manhattan": _manhattan,
    "chebyshev": _chebyshev,
    "minkowski": _minkowski,
    "seuclidean": _seuclidean,
    "mahalanobis": _mahalanobis,
    "canberra": _canberra,
    "braycurtis": _braycurtis,
    "hamming": _hamming,
    "cosine": _cosine,
}
_ALIASES = {"l2": "euclidean", "l1": "manhattan", "cityblock": "manhattan", "infinity": "chebyshev", "p": "minkowski"}
