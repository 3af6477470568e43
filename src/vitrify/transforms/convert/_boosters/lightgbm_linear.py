"""LightGBM's linear trees: in each leaf a constant and some features' multiples, added in their order.

A row in which one of these features is missing gets the leaf's plain value instead.

Source: ``Tree::Predict``, https://github.com/microsoft/LightGBM/blob/master/include/LightGBM/tree.h
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vitrify.transforms.convert._building.graph import F64, I64
from vitrify.transforms.convert._trees.ensemble import leaf_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vitrify.transforms.convert._boosters.lightgbm import Model
    from vitrify.transforms.convert._building.graph import Graph, Tensor
    from vitrify.transforms.convert._trees.ensemble import Tree


def linear_values(
    plain: Tensor, model: Model, added: Sequence[Tree]
) -> Callable[[Graph, Sequence[Tree], Tensor], Tensor]:
    """Return what gives each tree's value: (rows, trees, 1).

    Args:
        plain: The features as the linear models take them.
        model: The booster.
        added: Its trees, as they are handed to what adds them up.
    """
    leaves = {id(tree): one for tree, one in zip(added, model.leaves(), strict=True)}

    def values(graph: Graph, trees: Sequence[Tree], x: Tensor) -> Tensor:
        chosen = [leaves[id(tree)] for tree in trees]
        numbers = leaf_numbers(graph, trees, x)
        width = max(len(features) for one in chosen for features in one.features)
        count = sum(len(one.constant) for one in chosen)
        # Leaves with fewer features point at a column of zeros behind the last one, whose multiple adds nothing.
        places = np.full((count, width), model.features)
        terms = np.zeros((count, width))
        rows = [row for one in chosen for row in zip(one.features, one.coefficients, strict=True)]
        for index, (features, coefficients) in enumerate(rows):
            places[index, : len(features)] = features
            terms[index, : len(features)] = coefficients
        constant = graph.constant(np.concatenate([one.constant for one in chosen]).reshape(-1, 1), "constants")
        value = graph.gather(constant, numbers)
        if width == 0:
            return value
        held = _features(graph, plain, graph.gather(graph.constant(places, "features"), numbers), len(trees), width)
        products = graph.binary("Mul", graph.gather(graph.constant(terms, "coefficients"), numbers), held)
        sums = graph.op("CumSum", graph.concat([value, products], axis=2), np.array(2), dtype=graph.real(F64))
        table = np.concatenate([tree.value[tree.leaves] for tree in trees])
        fallback = graph.gather(graph.constant(table, "leaves"), numbers)
        missing = graph.cast(graph.op("IsNaN", held, dtype=np.bool_), I64)
        some = graph.cast(graph.reduce("ReduceMax", missing, 2, keep=True), np.bool_)
        return graph.where(some, fallback, graph.gather(sums, np.array([-1]), axis=2))

    return values


def _features(graph: Graph, plain: Tensor, places: Tensor, trees: int, width: int) -> Tensor:
    """Return the features at some places of each row: (rows, trees, width)."""
    rows = graph.concat([graph.rows(plain), graph.constant(np.array([1]))], axis=0)
    zero = graph.op("Expand", np.zeros((1, 1)), rows, dtype=graph.real(F64))
    wide = graph.concat([plain, zero])
    flat = graph.reshape(places, 0, trees * width)
    return graph.reshape(graph.op("GatherElements", wide, flat, dtype=graph.real(F64), axis=1), 0, trees, width)
