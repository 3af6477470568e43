"""Piecewise linear functions, as ``numpy.interp`` computes them.

Source: ``numpy/_core/src/multiarray/compiled_base.c``, ``arr_interp``
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vitrify.transforms.convert._building.graph import F64, I64, Array, Graph, Tensor

if TYPE_CHECKING:
    from vitrify.transforms.convert._building.graph import DType


def count_below(graph: Graph, x: Tensor, edges: Array, kind: str = "GreaterOrEqual") -> Tensor:
    """Return for each value of a vector how many sorted edges are at or below it: int64.

    ``kind`` is ``GreaterOrEqual`` (``searchsorted(side="right")``) or ``Greater`` (``side="left"``).
    """
    if not len(edges):
        return graph.op("Expand", np.array([0]), graph.rows(x), dtype=I64)
    past = graph.compare(kind, graph.column(x), np.asarray(edges).reshape(1, -1))
    return graph.reduce("ReduceSum", graph.cast(past, I64), 1)


def interpolate(graph: Graph, x: Tensor, knots: Array, heights: Array, dtype: DType = F64) -> Tensor:
    """Return ``numpy.interp(x, knots, heights)`` for a vector; beyond the knots the end's height holds."""
    knots, heights = np.asarray(knots, dtype), np.asarray(heights, dtype)
    x = graph.cast(x, dtype)
    if len(knots) == 1:
        return graph.where(graph.op("IsNaN", x, dtype=bool), x, heights[0])
    place = count_below(graph, x, knots[1:-1])
    with np.errstate(all="ignore"):
        slope = np.diff(heights) / np.diff(knots)
    left, base = graph.gather(knots[:-1], place), graph.gather(heights[:-1], place)
    inner = graph.binary("Add", graph.binary("Mul", graph.gather(slope, place), graph.binary("Sub", x, left)), base)
    inner = graph.where(graph.compare("Equal", x, left), base, inner)
    inner = graph.where(graph.compare("Less", x, knots[0]), heights[0], inner)
    return graph.where(graph.compare("GreaterOrEqual", x, knots[-1]), heights[-1], inner)
