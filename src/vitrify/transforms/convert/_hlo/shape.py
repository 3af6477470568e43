"""StableHLO's operations that move elements: shapes, broadcasts, slices, pads, gathers.

Source: https://openxla.org/stablehlo/spec
"""

from __future__ import annotations

import numpy as np

from vitrify.transforms.convert._building.graph import I64, Array, Tensor
from vitrify.transforms.convert._building.steps import refuse
from vitrify.transforms.convert._hlo.walk import Op, Sizes, Value, Walk, converts

_END = np.iinfo(np.int64).max


def reshaped(walk: Walk, value: Tensor, sizes: Sizes, shape: Tensor | Array | None = None) -> Tensor:
    """Return a tensor in another shape; where one size may change, it follows from the others."""
    if sum(size is None for size in sizes) <= 1 and 0 not in sizes:
        return walk.graph.op("Reshape", value, _sizes(sizes, -1), dtype=value.dtype)
    if shape is None:
        refuse("to several sizes that may change", "fix all sizes but the batch")
    return walk.graph.op("Reshape", value, shape, dtype=value.dtype, allowzero=1)


def _sizes(sizes: Sizes, otherwise: int) -> Array:
    return np.array([otherwise if size is None else size for size in sizes], I64)


@converts("reshape", "dynamic_reshape")
def reshape(walk: Walk, op: Op) -> Value:
    """The same elements in the same order."""
    value = op.operands[0]
    known = walk.known(value)
    if known is not None and None not in op.sizes:
        return Value(known.reshape(_sizes(op.sizes, -1)), op.sizes)
    if value.whole is not None and isinstance(value.data, np.ndarray) and value.data.size == 1:
        shape = (
            _sizes(op.sizes, -1) if None not in op.sizes else walk.shape(op.operands[1]) if op.operands[1:] else None
        )
        if shape is not None:
            return Value(value.data.reshape([1] * len(op.sizes)), op.sizes, shape)
    shape = walk.shape(op.operands[1]) if op.operands[1:] else None
    return Value(reshaped(walk, walk.full(value), op.sizes, shape), op.sizes)


@converts("broadcast_in_dim", "dynamic_broadcast_in_dim")
def broadcast(walk: Walk, op: Op) -> Value:
    """Put off: only the rank is made right."""
    value, places = op.operands[0], op.integers("broadcast_dimensions")
    shape = walk.shape(op.operands[1]) if op.operands[1:] else _sizes(op.sizes, -1)
    whole = None if value.whole is None and value.sizes == op.sizes else shape
    order = sorted(range(len(places)), key=places.__getitem__)
    if isinstance(value.data, np.ndarray):
        inner = value.data.transpose(order) if value.data.ndim else value.data
        ranked = np.ones(len(op.sizes), int)
        ranked[sorted(places)] = inner.shape
        return Value(inner.reshape(ranked), op.sizes, whole)
    data = value.data if value.whole is None else walk.full(value)
    if order != list(range(len(places))):
        data = walk.graph.op("Transpose", data, dtype=data.dtype, perm=order)
    if missing := [axis for axis in range(len(op.sizes)) if axis not in places]:
        data = walk.graph.op("Unsqueeze", data, np.array(missing), dtype=data.dtype)
    return Value(data, op.sizes, whole)


@converts("transpose")
def transpose(walk: Walk, op: Op) -> Value:
    """Axes in another order."""
    value, order = op.operands[0], op.integers("permutation")
    if (known := walk.known(value)) is not None:
        return Value(np.ascontiguousarray(known.transpose(order)), op.sizes)
    return Value(walk.graph.op("Transpose", walk.full(value), dtype=value.dtype, perm=order), op.sizes)


@converts("concatenate")
def concatenate(walk: Walk, op: Op) -> Value:
    """Side by side."""
    axis, known = op.integer("dimension"), [walk.known(one) for one in op.operands]
    if all(one is not None for one in known):
        return Value(np.concatenate([one for one in known if one is not None], axis), op.sizes)
    if len(known) == 1:
        return op.operands[0]
    return Value(walk.graph.op("Concat", *map(walk.full, op.operands), dtype=op.dtype, axis=axis), op.sizes)


@converts("get_dimension_size")
def dimension_size(walk: Walk, op: Op) -> Value:
    """A size as a scalar."""
    value, axis = op.operands[0], op.integer("dimension")
    size = value.sizes[axis]
    if size is not None:
        return Value(np.array(size, op.dtype), ())
    shape = value.whole
    if shape is not None:
        found = walk.graph.gather(shape, np.array(axis))
    else:
        found = walk.graph.op("Shape", walk.tensor(value), dtype=I64, start=axis, end=axis + 1)
        found = walk.graph.op("Squeeze", found, np.array([0]), dtype=I64)
    return Value(walk.graph.cast(found, op.dtype), ())


@converts("iota", "dynamic_iota")
def iota(walk: Walk, op: Op) -> Value:
    """Numbers from zero along one axis, put off along the others."""
    axis = op.integer("iota_dimension")
    ranked = [-1 if at == axis else 1 for at in range(len(op.sizes))]
    shape = walk.shape(op.operands[0]) if op.operands else _sizes(op.sizes, -1)
    whole = shape if len(op.sizes) > 1 else None
    size = op.sizes[axis]
    if size is not None:
        return Value(np.arange(size, dtype=op.dtype).reshape(ranked), op.sizes, whole)
    count = walk.graph.gather(shape, np.array(axis))
    numbers = walk.graph.op("Range", np.array(0), count, np.array(1), dtype=I64)
    numbers = walk.graph.op("Reshape", numbers, np.array(ranked), dtype=I64)
    return Value(walk.graph.cast(numbers, op.dtype), op.sizes, whole)


@converts("slice")
def cut(walk: Walk, op: Op) -> Value:
    """A part with constant bounds."""
    starts, limits, steps = (op.integers(f"{name}") for name in ("start_indices", "limit_indices", "strides"))
    value = op.operands[0]
    if (known := walk.known(value)) is not None:
        every = zip(starts, limits, steps, strict=True)
        return Value(known[tuple(slice(start, limit, step) for start, limit, step in every)], op.sizes)
    axes = [
        axis
        for axis, size in enumerate(value.sizes)
        if not (starts[axis] == 0 and steps[axis] == 1 and limits[axis] == size)
    ]
    bounds = [np.array([part[axis] for axis in axes], I64) for part in (starts, limits)]
    stride = np.array([steps[axis] for axis in axes], I64)
    return Value(sliced(walk, value, bounds[0], bounds[1], np.array(axes, I64), stride), op.sizes)


@converts("real_dynamic_slice")
def dynamic_cut(walk: Walk, op: Op) -> Value:
    """A part with bounds that are computed."""
    value, *bounds = op.operands
    start, limit, step = map(walk.shape, bounds)
    return Value(sliced(walk, value, start, limit, np.arange(len(op.sizes)), step), op.sizes)


@converts("dynamic_slice")
def moving_cut(walk: Walk, op: Op) -> Value:
    """A part of constant size; where it would stick out, it is moved back."""
    value, *starts = op.operands
    sizes = op.integers("slice_sizes")
    axes = [axis for axis, size in enumerate(value.sizes) if size != sizes[axis]]
    if not axes:
        return value
    begins = [_inside(walk, starts[axis], value, axis, sizes[axis]) for axis in axes]
    start = begins[0] if len(begins) == 1 else walk.graph.concat(begins, axis=0)
    limit = walk.graph.binary("Add", start, np.array([sizes[axis] for axis in axes], I64))
    return Value(sliced(walk, value, start, limit, np.array(axes), None), op.sizes)


def _inside(walk: Walk, start: Value, value: Value, axis: int, size: int) -> Tensor:
    """Return a vector of one start that leaves room for ``size`` elements."""
    graph = walk.graph
    begin = graph.op("Reshape", graph.cast(walk.tensor(start), I64), np.array([1]), dtype=I64)
    last = graph.binary("Sub", size_of(walk, value, axis), np.array(size, I64))
    return graph.op("Max", graph.op("Min", begin, last, dtype=I64), np.zeros(1, I64), dtype=I64)


def size_of(walk: Walk, value: Value, axis: int) -> Tensor:
    """Return one size as a vector of one int64."""
    size = value.sizes[axis]
    if size is not None:
        return walk.graph.constant(np.array([size], I64))
    return walk.graph.op("Shape", walk.full(value), dtype=I64, start=axis, end=axis + 1)


def sliced(  # noqa: PLR0917 (what a slice is)
    walk: Walk, value: Value, start: Tensor | Array, limit: Tensor | Array, axes: Array, step: Tensor | Array | None
) -> Tensor:
    """Return a part along some axes."""
    whole = walk.full(value)
    if not len(axes):
        return whole
    return walk.graph.op("Slice", whole, start, limit, axes, step, dtype=value.dtype)


@converts("reverse")
def reverse(walk: Walk, op: Op) -> Value:
    """Backwards along some axes."""
    value, axes = op.operands[0], op.integers("dimensions")
    if (known := walk.known(value)) is not None:
        return Value(np.ascontiguousarray(np.flip(known, tuple(axes))), op.sizes)
    count = len(axes)
    start, limit, step = (np.full(count, number, I64) for number in (-1, -_END, -1))
    return Value(sliced(walk, value, start, limit, np.array(axes), step), op.sizes)


@converts("pad")
def pad(walk: Walk, op: Op) -> Value:
    """A value around; where less than nothing is put, something is cut off."""
    value, filler = op.operands
    low, high = op.integers("edge_padding_low"), op.integers("edge_padding_high")
    if any(op.integers("interior_padding")):
        refuse("between elements", "write it without interior padding")
    graph = walk.graph
    data = walk.full(value)
    if any(number > 0 for number in (*low, *high)):
        around = np.maximum([*low, *high], 0)
        if data.dtype == np.bool_:
            wide = graph.op(
                "Pad", graph.cast(data, np.int32), around, graph.cast(walk.tensor(filler), np.int32), dtype=np.int32
            )
            data = graph.cast(wide, bool)
        else:
            data = graph.op("Pad", data, around, walk.tensor(filler), dtype=data.dtype)
    axes = [axis for axis in range(len(low)) if low[axis] < 0 or high[axis] < 0]
    start = np.array([max(-low[axis], 0) for axis in axes], I64)
    limit = np.array([high[axis] if high[axis] < 0 else _END for axis in axes], I64)
    return Value(sliced(walk, Value(data, op.sizes), start, limit, np.array(axes, I64), None), op.sizes)


@converts("dynamic_update_slice")
def update(walk: Walk, op: Op) -> Value:
    """A part replaced: what is before, the part, what is behind, along one axis."""
    value, part, *starts = op.operands
    axes = [axis for axis, (whole, size) in enumerate(zip(value.sizes, part.sizes, strict=True)) if whole != size]
    if not axes:
        return part
    if len(axes) > 1:
        refuse("along several axes", "replace along one axis at a time")
    [axis] = axes
    size = part.sizes[axis]
    if size is None:
        refuse("of a size that may change", "replace a part of a fixed size")
    graph, at = walk.graph, np.array([axis])
    start = _inside(walk, starts[axis], value, axis, size)
    behind = graph.binary("Add", start, np.array([size], I64))
    before = sliced(walk, value, np.zeros(1, I64), start, at, None)
    rest = sliced(walk, value, behind, np.array([_END]), at, None)
    return Value(graph.op("Concat", before, walk.full(part), rest, dtype=op.dtype, axis=axis), op.sizes)
