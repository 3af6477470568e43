"""Orthogonal matching pursuit: one atom after the other, all coefficients solved anew after each.

Every row takes the same steps; one that may take no more keeps what it has.

Source: ``sklearn/linear_model/_omp.py``, ``_gram_omp``
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vitrify.transforms.convert._building.graph import BOOL, Array, Graph, Tensor
from vitrify.transforms.convert._building.steps import refuse

_MOST = 16
"""Atoms up to which the triangular systems are written out."""


@dataclass
class _Factor:
    """What the rows have chosen: each entry is a column of one value a row.

    Attributes:
        atoms: Position of each atom.
        lower: The rows of the Cholesky factor of their products.
        given: Each atom's product with the row itself.
    """

    atoms: list[Tensor] = field(default_factory=list)
    lower: list[list[Tensor]] = field(default_factory=list)
    given: list[Tensor] = field(default_factory=list)


def orthogonal_pursuit(graph: Graph, x: Tensor, atoms: Array, count: int) -> Tensor:
    """Return the coefficients: (rows, atoms).

    Raises:
        UnsupportedModelError: Too many atoms a row.
    """
    if count > _MOST:
        refuse(f"takes {count} atoms a row, one step each", f"use transform_n_nonzero_coefs={_MOST} or fewer")
    real = x if x.dtype.kind == "f" else graph.cast(x, np.float64)
    products = np.dot(atoms, atoms.T).astype(real.dtype)
    covariance = graph.matmul(real, atoms.T)
    zero = np.zeros((), covariance.dtype)
    code = graph.binary("Mul", covariance, zero)
    rest, factor, stopped = (
        covariance,
        _Factor(),
        graph.compare("Less", graph.gather(code, np.array([0]), axis=1), zero),
    )
    for _ in range(count):
        atom = graph.column(graph.argmax(graph.unary("Abs", rest)))
        stopped = graph.op("Or", stopped, _cannot_take(graph, factor, atom, rest, products), dtype=BOOL)
        factor.atoms.append(atom)
        factor.given.append(_at(graph, covariance, atom))
        weights = _solved(graph, factor)
        fresh: Tensor | None = None
        explained: Tensor | None = None
        for place, weight in zip(factor.atoms, weights, strict=True):
            here = graph.cast(graph.compare("Equal", place, np.arange(len(atoms))), code.dtype)
            mine = graph.binary("Mul", here, weight)
            theirs = graph.binary("Mul", graph.gather(products, graph.vector(place)), weight)
            fresh = mine if fresh is None else graph.binary("Add", fresh, mine)
            explained = theirs if explained is None else graph.binary("Add", explained, theirs)
        assert fresh is not None
        assert explained is not None
        code = graph.where(stopped, code, fresh)
        rest = graph.where(stopped, rest, graph.binary("Sub", covariance, explained))
    return code


def _at(graph: Graph, table: Tensor, place: Tensor) -> Tensor:
    return graph.op("GatherElements", table, place, dtype=table.dtype, axis=1)


def _cannot_take(graph: Graph, factor: _Factor, atom: Tensor, rest: Tensor, products: Array) -> Tensor:
    """Extend the factor by an atom; return where it was taken before, says nothing new, or depends on the others."""
    tiny = np.asarray(np.finfo(products.dtype).eps, products.dtype)
    value = _at(graph, rest, atom)
    refused = graph.compare("Less", graph.binary("Mul", value, value), tiny)
    mine = graph.gather(products, graph.vector(atom))
    pivot = _at(graph, mine, atom)
    row: list[Tensor] = []
    for number, (other, line) in enumerate(zip(factor.atoms, factor.lower, strict=True)):
        refused = graph.op("Or", refused, graph.compare("Equal", atom, other), dtype=BOOL)
        entry = _at(graph, mine, other)
        for place in range(number):
            entry = graph.binary("Sub", entry, graph.binary("Mul", line[place], row[place]))
        row.append(graph.binary("Div", entry, line[number]))
    for entry in row:
        pivot = graph.binary("Sub", pivot, graph.binary("Mul", entry, entry))
    if row:
        refused = graph.op("Or", refused, graph.compare("LessOrEqual", pivot, tiny), dtype=BOOL)
    factor.lower.append([*row, graph.unary("Sqrt", pivot)])
    return refused


def _solved(graph: Graph, factor: _Factor) -> list[Tensor]:
    """Return the coefficients of the chosen atoms: down the factor, and up again."""
    down: list[Tensor] = []
    for line, given in zip(factor.lower, factor.given, strict=True):
        value = given
        for entry, before in zip(line, down, strict=False):
            value = graph.binary("Sub", value, graph.binary("Mul", entry, before))
        down.append(graph.binary("Div", value, line[len(down)]))
    up: dict[int, Tensor] = {}
    for place in reversed(range(len(down))):
        value = down[place]
        for later in range(place + 1, len(down)):
            value = graph.binary("Sub", value, graph.binary("Mul", factor.lower[later][place], up[later]))
        up[place] = graph.binary("Div", value, factor.lower[place][place])
    return [up[place] for place in range(len(down))]
