"""StableHLO's gather and top-k, in the forms that NumPy's indexing takes.

A gather that takes single elements along one axis is Gather; along several, GatherND; along one with the others in
step (``take_along_axis``), GatherND with batch axes; one whole slice is Slice. An index that is out of bounds is moved
back in, as XLA does.

Source: https://openxla.org/stablehlo/spec#gather
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxlib.mlir.dialects import stablehlo

from vitrify.transforms.convert._building.graph import F32, F64, I64, Tensor
from vitrify.transforms.convert._building.steps import refuse
from vitrify.transforms.convert._hlo.elementwise import elementwise
from vitrify.transforms.convert._hlo.shape import size_of, sliced
from vitrify.transforms.convert._hlo.walk import Op, Value, Walk, converts
from vitrify.transforms.convert._numerics.erf import erf

if TYPE_CHECKING:
    from collections.abc import Sequence


@converts("gather", "dynamic_gather")
def gather(walk: Walk, op: Op) -> Value:
    """Elements or slices at computed places."""
    numbers = stablehlo.GatherDimensionNumbers(op.attribute("dimension_numbers"))
    value, indices = op.operands[:2]
    known: Sequence[int] | None = op.integers("slice_sizes")
    if op.name == "stablehlo.dynamic_gather":
        sizes = walk.known(op.operands[2])
        known = None if sizes is None else sizes.tolist()
    index = list(numbers.start_index_map)
    collapsed, batching = list(numbers.collapsed_slice_dims), list(numbers.operand_batching_dims)
    last = numbers.index_vector_dim == len(indices.sizes)
    vectors = walk.full(indices)
    if not last:
        if numbers.index_vector_dim != len(indices.sizes) - 1:
            refuse("with its index vectors along an inner axis", "index by the last axis")
    else:
        vectors = walk.graph.op("Unsqueeze", vectors, np.array([len(indices.sizes)]), dtype=vectors.dtype)
    rank = len(indices.sizes) + last - 1  # of the places
    order = [*[axis for axis in range(len(op.sizes)) if axis not in numbers.offset_dims], *numbers.offset_dims]
    if set(index) <= set(collapsed):
        data = _elements(walk, value, vectors, index, batching, list(numbers.start_indices_batching_dims))
        return Value(_transposed(walk, data, [order.index(axis) for axis in range(len(order))]), op.sizes)
    if rank or batching:
        refuse("of several slices that overlap", "index single elements, or one slice")
    return Value(_slice(walk, op, value, vectors, index, collapsed, known), op.sizes)


def _elements(  # noqa: PLR0917 (what a gather is)
    walk: Walk, value: Value, vectors: Tensor, index: list[int], batching: list[int], places: list[int]
) -> Tensor:
    """Return single elements along ``index``: batching axes, places, then the axes that stay whole."""
    graph = walk.graph
    whole = walk.full(value)
    vectors = _clamped(walk, value, vectors, index)
    if not batching and len(index) == 1:
        single = graph.op("Squeeze", vectors, np.array([-1]), dtype=I64)
        front = [index[0], *(axis for axis in range(len(value.sizes)) if axis != index[0])]
        return graph.gather(_transposed(walk, whole, front), single)
    if batching and places != list(range(len(places))):
        refuse("whose batch axes are not the first of its places", "index with the batch first")
    front = [*batching, *index]
    front += [axis for axis in range(len(value.sizes)) if axis not in front]
    data = _transposed(walk, whole, front)
    return graph.op("GatherND", data, vectors, dtype=data.dtype, batch_dims=len(batching) or None)


def _clamped(walk: Walk, value: Value, vectors: Tensor, index: list[int]) -> Tensor:
    """Return indices of int64 that are in bounds."""
    graph = walk.graph
    ends = [graph.binary("Sub", size_of(walk, value, axis), np.ones(1, I64)) for axis in index]
    end = ends[0] if len(ends) == 1 else graph.concat(ends, axis=0)
    inside = graph.op("Min", graph.cast(vectors, I64), end, dtype=I64)
    return graph.op("Max", inside, np.zeros(1, I64), dtype=I64)


def _transposed(walk: Walk, data: Tensor, order: list[int]) -> Tensor:
    if order == sorted(order):
        return data
    return walk.graph.op("Transpose", data, dtype=data.dtype, perm=order)


def _slice(  # noqa: PLR0917 (what a gather is)
    walk: Walk,
    op: Op,
    value: Value,
    vectors: Tensor,
    index: list[int],
    collapsed: list[int],
    lengths: Sequence[int] | None,
) -> Tensor:
    """Return one slice."""
    graph = walk.graph
    if lengths is None:
        sizes = iter(op.sizes)
        lengths = [1 if axis in collapsed else next(sizes) or -1 for axis in range(len(value.sizes))]
    if any(lengths[axis] < 0 for axis in index):
        refuse("of a slice whose size may change", "take a slice of a fixed size")
    size = np.array([lengths[axis] for axis in index], I64)
    ends = [graph.binary("Sub", size_of(walk, value, axis), np.array([lengths[axis]], I64)) for axis in index]
    end = ends[0] if len(ends) == 1 else graph.concat(ends, axis=0)
    start = graph.op("Max", graph.op("Min", graph.cast(vectors, I64), end, dtype=I64), np.zeros(1, I64), dtype=I64)
    data = sliced(walk, value, start, graph.binary("Add", start, size), np.array(index), None)
    return graph.op("Squeeze", data, np.array(collapsed), dtype=data.dtype) if collapsed else data


@converts("composite")
def composite(walk: Walk, op: Op) -> list[Value]:
    """What has a name and is written out besides: by its name where ONNX has it, else as it is written."""
    name = op.text("name")
    if name == "chlo.erf" and op.dtype == F32:
        return [elementwise(walk, op, lambda x: walk.graph.unary("Erf", x))]
    if name == "chlo.erf" and op.dtype == F64:
        return [elementwise(walk, op, lambda x: erf(walk.graph, x))]
    if name == "chlo.top_k" and op.dtype in {F32, F64}:
        return _top_k(walk, op)
    return walk.call(op.text("decomposition").lstrip("@"), op.operands)


def _top_k(walk: Walk, op: Op) -> list[Value]:
    """Return the largest of the last axis and their places, the first of equal ones first."""
    count = op.sizes[-1]
    results = op.operation.results
    if count is None:
        refuse("of a number that may change", "ask for a fixed number")
    data = walk.full(op.operands[0])
    values, places = walk.graph.ops("TopK", data, np.array([count]), dtypes=(data.dtype, I64), axis=-1)
    return [Value(values, op.sizes), Value(walk.graph.cast(places, np.int32), op.sizes)][: len(results)]
