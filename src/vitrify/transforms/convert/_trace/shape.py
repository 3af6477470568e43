"""Shapes of traced values: the batch stays one axis of its own, whatever else is reshaped."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.graph import I64, Tensor
from vitrify.transforms.convert._trace.errors import untraceable
from vitrify.transforms.convert._trace.value import ROWS, Rows, Shape, Value, axis_of, count, lift, moved

if TYPE_CHECKING:
    from collections.abc import Sequence


def reshape(value: Value, shape: Any) -> Value:
    """Return ``value.reshape(shape)``; -1, or the number of rows, stands for the batch where there is one."""
    sizes = list(shape) if isinstance(shape, tuple | list) else [shape]
    asked = [size if isinstance(size, Rows) else int(size) for size in sizes]
    elements, batches = count(value.shape)
    known, given = count([size for size in asked if not isinstance(size, int) or size != -1])
    if batches > 1 or given > batches:
        untraceable("reshapes the rows of the batch together", "keep the batch as the first axis")
    if -1 in asked:
        free = ROWS if batches > given else elements // max(known, 1)
        left = known if batches > given else known * (free if isinstance(free, int) else 1)
        asked[asked.index(-1)] = free
    else:
        left = known
    if left != elements or sum(isinstance(size, Rows) for size in asked) != batches:
        untraceable(f"reshapes {value.shape} to {tuple(asked)}, which mixes rows", "keep each row's elements together")
    if batches and math.prod(_before(value.shape)) != math.prod(_before(asked)):
        untraceable("moves elements from row to row in a reshape", "keep the batch as the first axis")
    target = np.array([-1 if isinstance(size, Rows) else size for size in asked], np.int64)
    return moved(value, lambda tensor: value.graph.op("Reshape", tensor, target, dtype=tensor.dtype), tuple(asked))


def _before(shape: Sequence[int | Rows]) -> list[int]:
    """Return the sizes in front of the batch."""
    place = next(place for place, size in enumerate(shape) if isinstance(size, Rows))
    return [size for size in shape[:place] if isinstance(size, int)]


def expand(value: Value, axis: int) -> Value:
    """Return the value with a new axis of size one."""
    shape = (*value.shape[:axis], 1, *value.shape[axis:])
    return moved(value, lambda tensor: value.graph.op("Unsqueeze", tensor, np.array([axis]), dtype=tensor.dtype), shape)


def squeeze(value: Value, axis: Any = None) -> Value:
    """Return the value without axes of size one."""
    if axis is None:
        axes = [place for place, size in enumerate(value.shape) if isinstance(size, int) and size == 1]
    else:
        axes = [axis_of(value, place) for place in (axis if isinstance(axis, tuple) else (axis,))]
    if any(value.shape[place] != 1 for place in axes):
        msg = "cannot select an axis to squeeze out which has size not equal to one"
        raise ValueError(msg)
    if not axes:
        return value
    shape = tuple(size for place, size in enumerate(value.shape) if place not in axes)
    return moved(value, lambda tensor: value.graph.op("Squeeze", tensor, np.array(axes), dtype=tensor.dtype), shape)


def transpose(value: Value, axes: Any = None) -> Value:
    """Return the value with its axes in another order, reversed by default."""
    order = [axis_of(value, axis) for axis in axes] if axes else list(range(value.ndim))[::-1]
    shape = tuple(value.shape[axis] for axis in order)
    return moved(value, lambda tensor: value.graph.op("Transpose", tensor, dtype=tensor.dtype, perm=order), shape)


def broadcast_to(value: Value, shape: Shape) -> Value:
    """Return the value repeated to a shape whose batch, if it has none of its own, is that of the graph's inputs."""
    if value.shape == shape:
        return value
    graph = value.graph
    for _ in range(len(shape) - value.ndim):
        value = expand(value, 0)
    return moved(value, lambda tensor: graph.op("Expand", tensor, sizes(value, shape), dtype=tensor.dtype), shape)


def sizes(value: Value, shape: Shape) -> Tensor | Any:
    """Return a shape as a tensor; the number of rows is asked of an input of the graph."""
    graph = value.graph
    known = np.array([1 if isinstance(size, Rows) else size for size in shape], np.int64)
    if not any(isinstance(size, Rows) for size in shape):
        return known
    if any(isinstance(size, Rows) for size in value.shape):
        return known  # Expand leaves an axis as it is where 1 is asked for
    rows = graph.rows(Tensor(graph.inputs[0].name, I64))
    return graph.concat(
        [rows if isinstance(size, Rows) else graph.constant(np.array([size], np.int64)) for size in shape], axis=0
    )


def concatenate(values: Sequence[Any], axis: Any = 0) -> Value:
    """Return ``numpy.concatenate``, along an axis that is not the batch's."""
    graph = next(value.graph for value in values if isinstance(value, Value))
    parts = [lift(graph, value) for value in values]
    place = axis_of(parts[0], axis)
    if any(isinstance(part.shape[place], Rows) for part in parts):
        untraceable("puts rows of the batch behind one another", "put columns side by side: axis=1")
    kind = np.result_type(*(part.dtype for part in parts))
    others = [(*part.shape[:place], 1, *part.shape[place + 1 :]) for part in parts]
    whole = next((other for other in others if any(isinstance(size, Rows) for size in other)), others[0])
    filled = [_matched(part, whole, place) for part in parts]
    tensors = [graph.cast(part.tensor, kind) for part in filled]
    size = sum(part.shape[place] for part in filled if isinstance(part.shape[place], int))
    tensor = tensors[0] if len(tensors) == 1 else graph.op("Concat", *tensors, dtype=tensors[0].dtype, axis=place)
    return Value(graph, tensor, kind, (*whole[:place], size, *whole[place + 1 :]))


def _matched(part: Value, whole: Shape, axis: int) -> Value:
    """Refuse a part whose rows are a fixed number."""
    shape = (*whole[:axis], part.shape[axis], *whole[axis + 1 :])
    if part.shape != shape:
        if any(isinstance(size, Rows) for size in part.shape) == any(isinstance(size, Rows) for size in whole):
            msg = f"all the input array dimensions except for the concatenation axis must match: {part.shape}, {whole}"
            raise ValueError(msg)
        untraceable("puts an array of a fixed number of rows beside the batch", "use np.full_like(x[:, :1], value)")
    return part


def stack(values: Sequence[Any], axis: Any = 0) -> Value:
    """Return ``numpy.stack``."""
    graph = next(value.graph for value in values if isinstance(value, Value))
    parts = [lift(graph, value) for value in values]
    place = int(axis) % (parts[0].ndim + 1)
    return concatenate([expand(part, place) for part in parts], place)


def tile(value: Value, times: int, axis: int) -> Value:
    """Return the value several times over along one axis."""
    return concatenate([value] * times, axis)
