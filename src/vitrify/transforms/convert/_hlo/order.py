"""StableHLO's sort along an axis: by one key, upwards, NaN behind all, as JAX writes it.

TopK keeps the order of equal keys but says nothing of NaN, which is therefore put behind by a second sort of flags.

Source: https://openxla.org/stablehlo/spec#sort
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vitrify.transforms.convert._building.graph import I64, Tensor
from vitrify.transforms.convert._building.steps import refuse
from vitrify.transforms.convert._hlo.shape import size_of
from vitrify.transforms.convert._hlo.walk import Op, Value, Walk, converts

if TYPE_CHECKING:
    from jaxlib.mlir import ir

_PLAIN = ["compare", "return"]
_FLOATS = [*["compare", "select"] * 4, "compare", "return"]
"""A float is compared as zero where it is a zero, and as one NaN where it is any."""
_INT32 = np.dtype(np.int32)


@converts("sort")
def sort(walk: Walk, op: Op) -> list[Value]:
    """By the first operand; the others go along."""
    if not _is_by_first(op.operation.regions[0].blocks[0]):
        refuse("by another order than upwards by one key", "sort by one key, and gather the others by its argsort")
    graph, axis = walk.graph, op.integer("dimension", -1)
    key = walk.full(op.operands[0])
    size = size_of(walk, op.operands[0], axis)

    def upwards(values: Tensor) -> Tensor:
        wide = values if values.dtype.kind == "f" else graph.cast(values, I64)
        return graph.ops("TopK", wide, size, dtypes=(wide.dtype, I64), axis=axis, largest=0)[1]

    def moved(values: Tensor, places: Tensor) -> Tensor:
        return graph.op("GatherElements", values, places, dtype=values.dtype, axis=axis)

    if key.dtype.kind == "f":
        missing = graph.op("IsNaN", key, dtype=bool)
        places = upwards(graph.where(missing, np.array(np.inf, key.dtype), key))
        places = moved(places, upwards(moved(graph.cast(missing, _INT32), places)))
    else:
        places = upwards(key)
    return [Value(moved(walk.full(one), places), one.sizes) for one in op.operands]


def _is_by_first(body: ir.Block) -> bool:
    """Say whether a body compares the two of its first operand, upwards."""
    inner = [one.operation for one in body.operations]
    names = [one.name.removeprefix("stablehlo.") for one in inner]
    if names not in (_PLAIN, _FLOATS):
        return False
    first = [inner[0].operands[at] for at in ((0, 1) if names == _PLAIN else (0,))]
    if names == _FLOATS:
        first.append(inner[4].operands[0])
    return first == list(body.arguments)[:2] and "LT" in str(inner[-2].attributes["comparison_direction"])
