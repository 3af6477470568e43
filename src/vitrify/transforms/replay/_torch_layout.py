"""Operators that move elements: shapes, slices, gathers, scatters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional

from vitrify.transforms.replay._sizes import Sizes, axis_of, is_constant
from vitrify.transforms.replay._torch_register import op, raw
from vitrify.transforms.replay._torch_values import dtype_of, from_numpy, ints, tensor

if TYPE_CHECKING:
    from torch import Tensor

    from vitrify.transforms.replay.walk import Node


_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
_FAR = 1 << 62


@raw("Constant")
def _constant(node: Node) -> Any:
    (value,) = (node.get(name) for name in node.attributes if name.startswith("value"))
    return np.asarray(value)


@raw("Shape")
def _shape(node: Node, x: Any) -> Any:
    shape = list(np.shape(x.values)) if isinstance(x, Sizes) else list(x.shape)
    return Sizes.of(shape[node.get("start", 0) : node.get("end", len(shape))])


@raw("Size")
def _size(_: Node, x: Any) -> Any:
    return Sizes.of(np.array(math.prod(tensor(x).shape), object))


@raw("Reshape")
def _reshape(node: Node, x: Any, shape: Any) -> Any:
    if isinstance(x, Sizes):
        return x.like(x.values.reshape([int(size) for size in ints(shape)]))
    x = tensor(x)
    wanted = ints(shape)
    if not node.get("allowzero", 0):
        wanted = [x.shape[axis] if isinstance(size, int) and size == 0 else size for axis, size in enumerate(wanted)]
    return x.reshape(wanted)


@op("Flatten")
def _flatten(node: Node, x: Tensor) -> Tensor:
    axis = axis_of(node.get("axis", 1), x.ndim)
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:])) if axis != 1 or x.ndim == 0 else x.flatten(1)


@op("Transpose")
def _transpose(node: Node, x: Tensor) -> Tensor:
    return x.permute(node.get("perm") or list(range(x.ndim))[::-1])


@raw("Squeeze")
def _squeeze(node: Node, x: Any, axes: Any = None) -> Any:
    if isinstance(x, Sizes):
        return x.like(x.values.reshape(()))
    x = tensor(x)
    if axes is None:
        return x.squeeze()
    return x.squeeze([axis_of(axis, x.ndim) for axis in ints(axes)])


@raw("Unsqueeze")
def _unsqueeze(node: Node, x: Any, axes: Any) -> Any:
    if isinstance(x, Sizes):
        return x.like(x.values.reshape([1] * (x.values.ndim + len(ints(axes)))))
    x = tensor(x)
    for axis in sorted(axis_of(axis, x.ndim + len(ints(axes))) for axis in ints(axes)):
        x = x.unsqueeze(axis)
    return x


@op("Concat")
def _concat(node: Node, *values: Tensor) -> Tensor:
    return torch.cat(values, node.get("axis"))


@raw("Split")
def _split(node: Node, x: Any, sizes: Any = None) -> tuple[Tensor, ...]:
    x, axis = tensor(x), node.get("axis", 0)
    if sizes is None:
        count = node.get("num_outputs", len(node.outputs))
        return tuple(torch.split(x, -(-x.shape[axis] // count), axis))
    return tuple(torch.split(x, ints(sizes), axis))


@raw("Slice")
def _slice(node: Node, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    if isinstance(x, Sizes):
        from vitrify.transforms.replay._torch_sizes import computed

        if (answer := computed(node, (x, starts, ends, axes, steps))) is not None:
            return answer
    x = tensor(x)
    first, last = ints(starts), ints(ends)
    for start, end, axis, step in zip(
        first,
        last,
        range(len(first)) if axes is None else ints(axes),
        [1] * len(first) if steps is None else ints(steps),
        strict=True,
    ):
        x = _cut(x, start, end, axis_of(axis, x.ndim), step)
    return x


def _cut(x: Tensor, start: Any, end: Any, axis: int, step: int) -> Tensor:
    if step < 0:  # from the other end
        size = x.shape[axis]
        start = size - 1 - (max(start + size, -1) if start < 0 else min(start, size - 1))
        end = size - 1 - (max(end + size, -1) if end < 0 else min(end, size - 1))
        x, step = x.flip(axis), -step
    if isinstance(end, int) and end > _FAR:
        end = _FAR * 2 - 1
    return torch.ops.aten.slice.Tensor(x, axis, start, end, step)


@op("Gather")
def _gather(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    axis = axis_of(node.get("axis", 0), x.ndim)
    places = _from_front(indices, x.shape[axis])
    if places.ndim == 0:
        return x.index_select(axis, places.reshape(1)).squeeze(axis)
    found = x.index_select(axis, places.reshape(-1))
    return found.reshape([*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]])


def _from_front(indices: Tensor, size: Any) -> Tensor:
    places = indices.to(torch.int64)
    return torch.where(places < 0, places + size, places)


@op("GatherElements")
def _gather_elements(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    axis = axis_of(node.get("axis", 0), x.ndim)
    return torch.gather(x, axis, _from_front(indices, x.shape[axis]))


@op("GatherND")
def _gather_nd(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    batch = node.get("batch_dims", 0)
    depth = indices.shape[-1]
    lead: list[Tensor] = []
    for axis in range(batch):
        view = [1] * (indices.ndim - 1)
        view[axis] = x.shape[axis]
        lead.append(torch.arange(x.shape[axis]).reshape(view))
    places = [_from_front(indices[..., part], x.shape[batch + part]) for part in range(depth)]
    return x[tuple(torch.broadcast_tensors(*lead, *places))]


@op("ScatterElements", "Scatter")
def _scatter_elements(node: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    axis = axis_of(node.get("axis", 0), x.ndim)
    places = _from_front(indices, x.shape[axis])
    reduction = node.get("reduction", "none")
    if reduction == "none":
        return x.scatter(axis, places, updates)
    return x.scatter_reduce(axis, places, updates, _REDUCTIONS[reduction])


@op("ScatterND")
def _scatter_nd(node: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    depth = indices.shape[-1]
    rest = x.shape[depth:]
    flat = x.reshape(-1, *rest) if depth else x.reshape(1, *rest)
    place = torch.zeros(indices.shape[:-1], dtype=torch.int64)
    for part in range(depth):
        place = place * x.shape[part] + _from_front(indices[..., part], x.shape[part])
    place, values = place.reshape(-1), updates.reshape(-1, *rest)
    reduction = node.get("reduction", "none")
    if reduction == "none":
        return flat.index_put((place,), values).reshape(x.shape)
    if reduction == "add":
        return flat.index_add(0, place, values).reshape(x.shape)
    lines = place.reshape(-1, *[1] * len(rest)).expand_as(values)
    return flat.scatter_reduce(0, lines, values, _REDUCTIONS[reduction]).reshape(x.shape)


@raw("Expand")
def _expand(_: Node, x: Any, shape: Any) -> Tensor:
    x, wanted = tensor(x), ints(shape)
    lead = len(wanted) - x.ndim
    if lead < 0:
        wanted, lead = [1] * -lead + wanted, 0
    own = [1] * lead + list(x.shape)
    sizes = [have if isinstance(want, int) and want == 1 else want for have, want in zip(own, wanted, strict=True)]
    sizes = [want if isinstance(have, int) and have == 1 else have for have, want in zip(own, sizes, strict=True)]
    return x.expand(sizes)


@raw("Tile")
def _tile(_: Node, x: Any, repeats: Any) -> Tensor:
    return tensor(x).repeat(ints(repeats))


@raw("ConstantOfShape")
def _constant_of_shape(node: Node, shape: Any) -> Tensor:
    value = node.get("value", np.zeros(1, np.float32))
    return from_numpy(np.asarray(value).reshape(())).expand(ints(shape)).contiguous()


@raw("Range")
def _range(_: Node, start: Any, limit: Any, delta: Any) -> Tensor:
    values = [start, limit, delta]
    if sizes := [value for value in values if isinstance(value, Sizes)]:
        return torch.arange(*(ints(value)[0] for value in values), dtype=getattr(torch, sizes[0].dtype.name))
    first = tensor(start)
    if is_constant(start) and is_constant(limit) and is_constant(delta):
        return from_numpy(np.arange(start, limit, delta).astype(np.asarray(start).dtype))
    return torch.arange(*(tensor(value).item() for value in values), dtype=first.dtype)


@raw("EyeLike")
def _eye_like(node: Node, x: Any) -> Tensor:
    x = tensor(x)
    dtype = dtype_of(node.get("dtype")) if node.get("dtype") else x.dtype
    rows, columns = torch.arange(x.shape[0]).unsqueeze(1), torch.arange(x.shape[1]).unsqueeze(0)
    return (columns == rows + node.get("k", 0)).to(dtype)


@raw("Trilu")
def _trilu(node: Node, x: Any, k: Any = None) -> Tensor:
    diagonal = 0 if k is None else ints(k)[0]
    return torch.triu(tensor(x), diagonal) if node.get("upper", 1) else torch.tril(tensor(x), diagonal)


@raw("OneHot")
def _one_hot(node: Node, indices: Any, depth: Any, values: Any) -> Tensor:
    size = int(np.asarray(depth).reshape(())) if is_constant(depth) else ints(tensor(depth).reshape(-1))[0]
    places = tensor(indices)
    axis = node.get("axis", -1)
    axis = axis + places.ndim + 1 if axis < 0 else axis
    places = _from_front(places, int(size)).unsqueeze(axis)
    line = torch.arange(int(size)).reshape([-1 if one == axis else 1 for one in range(places.ndim)])
    off, on = tensor(values).unbind(0)
    return torch.where(places == line, on, off)


@raw("Pad")
def _pad(node: Node, x: Any, pads: Any, value: Any = None, axes: Any = None) -> Tensor:
    x, amounts = tensor(x), ints(pads)
    places = list(range(x.ndim)) if axes is None else [axis_of(axis, x.ndim) for axis in ints(axes)]
    before, after = amounts[: len(places)], amounts[len(places) :]
    mode = node.get("mode", "constant")
    if mode != "constant":
        for axis, low, high in zip(places, before, after, strict=True):
            x = _mirrored(x, axis, low, high, mode)
        return x
    flat: list[Any] = [0] * (2 * x.ndim)
    for axis, low, high in zip(places, before, after, strict=True):
        flat[2 * (x.ndim - 1 - axis)], flat[2 * (x.ndim - 1 - axis) + 1] = low, high
    filler = 0 if value is None else tensor(value).reshape(()).item()
    kept = functional.pad(x.to(torch.uint8) if x.dtype == torch.bool else x, flat, value=filler)
    return kept.to(x.dtype)


def _mirrored(x: Tensor, axis: int, low: int, high: int, mode: str) -> Tensor:
    size = x.shape[axis]
    places = torch.arange(-low, size + high)
    if mode == "edge":
        places = places.clamp(0, size - 1)
    elif mode == "wrap":
        places = places % size
    else:
        period = max(2 * (size - 1), 1)
        places = places % period
        places = torch.where(places < size, places, period - places)
    return x.index_select(axis, places)


@raw("Compress")
def _compress(node: Node, x: Any, condition: Any) -> Tensor:
    x, axis = tensor(x), node.get("axis")
    if axis is None:
        x, axis = x.reshape(-1), 0
    chosen = torch.nonzero(tensor(condition)).reshape(-1)
    return x.index_select(axis, chosen)


@op("NonZero")
def _non_zero(_: Node, x: Tensor) -> Tensor:
    return torch.nonzero(x).t()


@op("ReverseSequence")
def _reverse_sequence(node: Node, x: Tensor, lengths: Tensor) -> Tensor:
    time, batch = node.get("time_axis", 0), node.get("batch_axis", 1)
    moved = x.movedim((batch, time), (0, 1))
    steps = torch.arange(moved.shape[1]).unsqueeze(0)
    last = lengths.to(torch.int64).unsqueeze(1)
    places = torch.where(steps < last, last - 1 - steps, steps)
    places = places.reshape([*places.shape, *[1] * (moved.ndim - 2)]).expand(moved.shape)
    return torch.gather(moved, 1, places).movedim((0, 1), (batch, time))


@op("DepthToSpace")
def _depth_to_space(node: Node, x: Tensor) -> Tensor:
    rows, channels, height, width = x.shape
    block = node.get("blocksize")
    depth = channels // block**2
    if node.get("mode", "DCR") == "DCR":
        parts = x.reshape(rows, block, block, depth, height, width).permute(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(rows, depth, block, block, height, width).permute(0, 1, 4, 2, 5, 3)
    return parts.reshape(rows, depth, height * block, width * block)


@op("SpaceToDepth")
def _space_to_depth(node: Node, x: Tensor) -> Tensor:
    rows, channels, height, width = x.shape
    block = node.get("blocksize")
    parts = x.reshape(rows, channels, height // block, block, width // block, block)
    parts = parts.permute(0, 3, 5, 1, 2, 4) if node.get("mode", "DCR") == "DCR" else parts.permute(0, 1, 3, 5, 2, 4)
    return parts.reshape(rows, channels * block**2, height // block, width // block)
