"""Operators that move elements: shapes, slices, gathers, scatters.

Source: https://onnx.ai/onnx/operators/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.replay._jax_values import Tensor, constant, dtype_of, ints, op, raw, tensor
from vitrify.transforms.replay._sizes import Sizes, axis_of, is_constant

if TYPE_CHECKING:
    from vitrify.transforms.replay.walk import Node

_ENDS = 1_000_000_000
"""From here on a bound means the end of the axis: exporters write this number, 2**31 - 1 or 2**63 - 1 for it."""


@raw("Shape")
def _shape(node: Node, x: Any) -> Any:
    sizes = list(np.shape(x)) if is_constant(x) else list(x.values.shape if isinstance(x, Sizes) else x.shape)
    return Sizes.of(sizes[slice(node.get("start", 0), node.get("end"))])


@raw("Size")
def _size(_: Node, x: Any) -> Any:
    total: Any = 1
    for size in tensor(x).shape:
        total = total * size
    return Sizes.of(total)


@raw("Constant")
def _constant(node: Node) -> Any:
    [(name, value)] = node.attributes.items()
    kinds = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    return np.asarray(value, kinds[name]) if name in kinds else np.asarray(value)


@raw("ConstantOfShape")
def _constant_of_shape(node: Node, shape: Any) -> Tensor:
    value = node.get("value")
    filler = np.zeros(1, np.float32) if value is None else value
    return jnp.full(ints(shape), filler[0], filler.dtype)


@raw("Reshape")
def _reshape(node: Node, x: Any, shape: Any) -> Any:
    wanted = ints(shape)
    if isinstance(x, Sizes):
        return x.like(x.values.reshape([int(size) for size in wanted]))
    x = tensor(x)
    if not node.get("allowzero", 0):
        wanted = [x.shape[axis] if _is(size, 0) else size for axis, size in enumerate(wanted)]
    return jnp.reshape(x, wanted)


def _is(size: Any, number: int) -> bool:
    return isinstance(size, (int, np.integer)) and int(size) == number


@raw("Squeeze")
def _squeeze(_: Node, x: Any, axes: Any = None) -> Any:
    if isinstance(x, Sizes):
        return x.like(np.squeeze(x.values, None if axes is None else tuple(ints(axes))))
    x = tensor(x)
    return jnp.squeeze(x, None if axes is None else tuple(axis_of(axis, x.ndim) for axis in ints(axes)))


@raw("Unsqueeze")
def _unsqueeze(_: Node, x: Any, axes: Any) -> Any:
    if isinstance(x, Sizes):
        return x.like(np.expand_dims(x.values, tuple(ints(axes))))
    return jnp.expand_dims(tensor(x), tuple(ints(axes)))


@op("Flatten")
def _flatten(node: Node, x: Tensor) -> Tensor:
    axis = node.get("axis", 1)
    axis = axis_of(axis, x.ndim)
    front: Any = 1
    for size in x.shape[:axis]:
        front = front * size
    back: Any = 1
    for size in x.shape[axis:]:
        back = back * size
    return jnp.reshape(x, (front, back))


@op("Transpose")
def _transpose(node: Node, x: Tensor) -> Tensor:
    return jnp.transpose(x, node.get("perm"))


@raw("Concat")
def _concat(node: Node, *values: Any) -> Any:
    if any(isinstance(value, Sizes) for value in values) and all(
        isinstance(value, Sizes) or is_constant(value) for value in values
    ):
        parts = [value.values if isinstance(value, Sizes) else np.asarray(value, object) for value in values]
        first = next(value for value in values if isinstance(value, Sizes))
        return first.like(np.concatenate(parts, node.get("axis")))
    return jnp.concatenate([tensor(value) for value in values], node.get("axis"))


@raw("Expand")
def _expand(_: Node, x: Any, shape: Any) -> Tensor:
    x, wanted = tensor(x), ints(shape)
    own = [1] * (len(wanted) - x.ndim) + list(x.shape)
    wanted = [1] * (len(own) - len(wanted)) + wanted
    sizes = [mine if _is(size, 1) else size for mine, size in zip(own, wanted, strict=True)]
    return jnp.broadcast_to(jnp.reshape(x, own), sizes)


@raw("Tile")
def _tile(_: Node, x: Any, repeats: Any) -> Tensor:
    return jnp.tile(tensor(x), tuple(ints(repeats)))


@raw("Slice")
def _slice(_: Node, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    whole = x if isinstance(x, Sizes) else tensor(x)
    rank = whole.values.ndim if isinstance(whole, Sizes) else whole.ndim
    places = range(len(ints(starts))) if axes is None else [axis_of(axis, rank) for axis in ints(axes)]
    strides = [1] * len(ints(starts)) if steps is None else ints(steps)
    cuts: list[Any] = [slice(None)] * rank
    for axis, start, end, step in zip(places, ints(starts), ints(ends), strides, strict=True):
        cuts[axis] = _cut(start, end, step)
    return whole.like(whole.values[tuple(cuts)]) if isinstance(whole, Sizes) else whole[tuple(cuts)]


def _cut(start: Any, end: Any, step: Any) -> slice:
    """Return Python's slice: huge numbers are the ends."""
    low, high = (_open(bound) for bound in (start, end))
    if _is(start, 0) and step > 0:
        low = None
    return slice(low, high, None if step == 1 else step)


def _open(bound: Any) -> Any:
    return None if isinstance(bound, int) and abs(bound) >= _ENDS else bound


@raw("Split")
def _split(node: Node, x: Any, sizes: Any = None) -> tuple[Tensor, ...]:
    x = tensor(x)
    axis = axis_of(node.get("axis", 0), x.ndim)
    if sizes is None:
        count = node.get("num_outputs") or len(node.outputs)
        each = -(-x.shape[axis] // count)
        lengths = [each] * (count - 1) + [x.shape[axis] - each * (count - 1)]
    else:
        lengths = ints(sizes)
    start, parts = 0, []
    for length in lengths:
        parts.append(jax.lax.slice_in_dim(x, start, start + length, axis=axis))
        start = start + length
    return tuple(parts)


@raw("Gather")
def _gather(node: Node, x: Any, places: Any) -> Any:
    axis = node.get("axis", 0)
    if isinstance(x, Sizes) and is_constant(places):
        return x.like(np.take(x.values, places, axis))
    x, places = tensor(x), tensor(places)
    axis = axis_of(axis, x.ndim)
    return jnp.take(x, jnp.where(places < 0, places + x.shape[axis], places), axis=axis, mode="clip")


@op("GatherElements")
def _gather_elements(node: Node, x: Tensor, places: Tensor) -> Tensor:
    axis = axis_of(node.get("axis", 0), x.ndim)
    cut = tuple(slice(None) if at == axis else slice(0, size) for at, size in enumerate(places.shape))
    places = jnp.where(places < 0, places + x.shape[axis], places)
    return jnp.take_along_axis(x[cut], places, axis=axis, mode="clip")


@op("GatherND")
def _gather_nd(node: Node, x: Tensor, places: Tensor) -> Tensor:
    function = _gather_one
    for _ in range(node.get("batch_dims", 0)):
        function = jax.vmap(function)
    return function(x, places)


def _gather_one(x: Tensor, places: Tensor) -> Tensor:
    index = tuple(_wrapped(places[..., at], x.shape[at]) for at in range(places.shape[-1]))
    return x.at[index].get(mode="clip")


def _wrapped(places: Tensor, size: Any) -> Tensor:
    return jnp.where(places < 0, places + size, places)


def _scattered(x: Tensor, index: tuple[Tensor, ...], values: Tensor, how: str) -> Tensor:
    target = x.at[index]
    match how:
        case "add":
            return target.add(values)
        case "mul":
            return target.multiply(values)
        case "max":
            return target.max(values)
        case "min":
            return target.min(values)
    return target.set(values)


@op("ScatterElements", "Scatter")
def _scatter_elements(node: Node, x: Tensor, places: Tensor, values: Tensor) -> Tensor:
    axis = axis_of(node.get("axis", 0), x.ndim)
    index = list(jnp.indices(places.shape, sparse=True))
    index[axis] = _wrapped(places, x.shape[axis])
    return _scattered(x, tuple(index), values, node.get("reduction", "none"))


@op("ScatterND")
def _scatter_nd(node: Node, x: Tensor, places: Tensor, values: Tensor) -> Tensor:
    index = tuple(_wrapped(places[..., at], x.shape[at]) for at in range(places.shape[-1]))
    return _scattered(x, index, values, node.get("reduction", "none"))


@raw("Range")
def _range(_: Node, start: Any, limit: Any, step: Any) -> Tensor:
    if isinstance(limit, Sizes) and is_constant(start) and is_constant(step):
        first, by = int(constant(start)), int(constant(step))
        count = (
            (limit.values.item() - first + by - 1) // by if by > 0 else (first - limit.values.item() - by - 1) // -by
        )
        return first + by * jnp.arange(count, dtype=limit.dtype)
    bounds: list[Any] = [constant(value) for value in (start, limit, step)]
    return jnp.asarray(np.arange(*bounds, dtype=bounds[0].dtype))


@raw("OneHot")
def _one_hot(node: Node, places: Any, depth: Any, values: Any) -> Tensor:
    places, values = tensor(places), tensor(values)
    count = ints(depth)[0]
    axis = axis_of(node.get("axis", -1), places.ndim + 1)
    whole = places.astype(jnp.int64)
    numbers = jnp.expand_dims(_wrapped(whole, count), axis)
    shape = [1] * (places.ndim + 1)
    shape[axis] = count
    return jnp.where(numbers == jnp.arange(count).reshape(shape), values[1], values[0])


@raw("Pad")
def _pad(node: Node, x: Any, pads: Any, value: Any = None, axes: Any = None) -> Tensor:
    x, numbers = tensor(x), ints(pads)
    places = range(x.ndim) if axes is None else [axis_of(axis, x.ndim) for axis in ints(axes)]
    around = [(0, 0)] * x.ndim
    for at, axis in enumerate(places):
        around[axis] = (numbers[at], numbers[at + len(numbers) // 2])
    mode = node.get("mode", "constant")
    grown = [(max(low, 0), max(high, 0)) for low, high in around]
    if mode == "constant":
        filler = jnp.zeros((), x.dtype) if value is None else tensor(value).reshape(()).astype(x.dtype)
        x = jnp.pad(x, grown, constant_values=filler)
    else:
        x = jnp.pad(x, grown, mode={"reflect": "reflect", "edge": "edge", "wrap": "wrap"}[mode])
    cut = tuple(slice(-low if low < 0 else None, high if high < 0 else None) for low, high in around)
    return x[cut]


@raw("Trilu")
def _trilu(node: Node, x: Any, shift: Any = None) -> Tensor:
    x = tensor(x)
    by = 0 if shift is None else ints(shift)[0]
    return jnp.triu(x, by) if node.get("upper", 1) else jnp.tril(x, by)


@op("EyeLike")
def _eye_like(node: Node, x: Tensor) -> Tensor:
    dtype = dtype_of(node.get("dtype")) if node.get("dtype") else x.dtype
    return jnp.eye(x.shape[0], x.shape[1], node.get("k", 0), dtype=dtype)


@op("DepthToSpace")
def _depth_to_space(node: Node, x: Tensor) -> Tensor:
    by = node.get("blocksize")
    batch, depth, height, width = x.shape
    if node.get("mode", "DCR") == "DCR":
        parts = jnp.reshape(x, (batch, by, by, depth // by**2, height, width)).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = jnp.reshape(x, (batch, depth // by**2, by, by, height, width)).transpose(0, 1, 4, 2, 5, 3)
    return jnp.reshape(parts, (batch, depth // by**2, height * by, width * by))


@op("SpaceToDepth")
def _space_to_depth(node: Node, x: Tensor) -> Tensor:
    by = node.get("blocksize")
    batch, depth, height, width = x.shape
    order = (0, 3, 5, 1, 2, 4) if node.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    parts = jnp.reshape(x, (batch, depth, height // by, by, width // by, by)).transpose(order)
    return jnp.reshape(parts, (batch, depth * by**2, height // by, width // by))


@op("ReverseSequence")
def _reverse_sequence(node: Node, x: Tensor, lengths: Tensor) -> Tensor:
    time, batch = node.get("time_axis", 0), node.get("batch_axis", 1)
    shape = [1] * x.ndim
    shape[time] = x.shape[time]
    steps = jnp.arange(x.shape[time]).reshape(shape)
    ends = jnp.reshape(lengths, [x.shape[batch] if axis == batch else 1 for axis in range(x.ndim)])
    places = jnp.where(steps < ends, ends - 1 - steps, steps)
    return jnp.take_along_axis(x, jnp.broadcast_to(places, x.shape), axis=time)


@raw("NonZero", "Compress", "Unique")
def _sized_by_data(node: Node, *_: Any) -> Any:
    msg = f"{node.kind}: how much it gives depends on the data, and JAX compiles for sizes that are known"
    raise UnsupportedModelError(msg, remedy="keep the ONNX form")


@raw("Dropout")
def _dropout(_: Node, x: Any, *_more: Any) -> Any:
    x = tensor(x)
    return x, jnp.ones(x.shape, bool)
