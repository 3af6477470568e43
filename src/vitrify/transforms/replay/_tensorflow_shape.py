"""Shapes, indices and order, on TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.formats._tensorflow.loaded import tf
from vitrify.transforms.replay._tensorflow_base import (
    axis_of,
    element_type,
    floating,
    ints,
    is_nan,
    known,
    op,
    product,
    rank,
    refuse,
    required,
    sizes,
    tensor,
)

if TYPE_CHECKING:
    from vitrify.transforms.replay.walk import Node

_MAX = np.iinfo(np.int32).max


@op("Constant")
def constant(node: Node) -> Any:
    for name, dtype in (
        ("value_float", np.float32),
        ("value_int", np.int64),
        ("value_floats", np.float32),
        ("value_ints", np.int64),
        ("value_string", object),
        ("value_strings", object),
    ):
        if name in node.attributes:
            return np.asarray(node.attributes[name], dtype)
    return node.attributes["value"]


@op("Shape")
def shape(node: Node, x: Any) -> Any:
    found = sizes(tensor(x))[slice(node.get("start", 0), node.get("end"))]
    if all(isinstance(size, int) for size in found):
        return np.array(found, np.int64)
    return tf.cast(tf.stack(found), tf.int64)


@op("Size")
def size(_: Node, x: Any) -> Any:
    total = product(sizes(tensor(x)))
    return np.int64(total) if isinstance(total, int) else tf.cast(total, tf.int64)


@op("Reshape")
def reshape(node: Node, x: Any, to: Any) -> Any:
    x, wanted = tensor(x), known(to)
    if node.get("allowzero", 0):
        return tf.reshape(x, tensor(to))
    if wanted is not None:
        own = sizes(x)
        return tf.reshape(x, [own[position] if number == 0 else int(number) for position, number in enumerate(wanted)])
    to = tensor(to)
    count = rank(node, x)
    own = tf.cast(tf.shape(x), to.dtype)
    length = to.shape[0]
    if length is None:
        return tf.reshape(x, to)
    own = own[:length] if count >= length else tf.concat([own, tf.ones([length - count], to.dtype)], 0)
    return tf.reshape(x, tf.where(to == 0, own, to))


@op("Flatten")
def flatten(node: Node, x: Any) -> Any:
    x = tensor(x)
    axis = node.get("axis", 1)
    own = sizes(x)
    axis = axis + len(own) if axis < 0 else axis
    front, back = product(own[:axis]), product(own[axis:])
    return tf.reshape(x, [-1, back] if isinstance(back, int) and back else [front, back])


@op("Transpose")
def transpose(node: Node, x: Any) -> Any:
    return tf.transpose(tensor(x), node.get("perm"))


@op("Squeeze")
def squeeze(node: Node, x: Any, axes: Any = None) -> Any:
    x = tensor(x)
    if axes is None:
        return tf.squeeze(x)
    found = {axis_of(node, x, axis) for axis in ints(node, axes, "which axes go")}
    return tf.squeeze(x, sorted(found)) if found else x


@op("Unsqueeze")
def unsqueeze(node: Node, x: Any, axes: Any) -> Any:
    x, asked = tensor(x), ints(node, axes, "which axes come")
    total = rank(node, x) + len(asked)
    for axis in sorted(axis % total for axis in asked):
        x = tf.expand_dims(x, axis)
    return x


@op("Concat")
def concat(node: Node, *values: Any) -> Any:
    return tf.concat([tensor(value) for value in values], node.attributes["axis"])


@op("Split")
def split(node: Node, x: Any, parts: Any = None) -> Any:
    x = tensor(x)
    axis = axis_of(node, x, node.get("axis", 0))
    if parts is not None:
        return tuple(tf.split(x, ints(node, parts, "how long the parts are"), axis))
    count, length = len(node.outputs), x.shape[axis]
    if length is None:
        refuse(node, "the length that it splits depends on the data")
    each = -(-length // count)
    lengths = [each] * (count - 1)
    return tuple(tf.split(x, [*lengths, length - sum(lengths)], axis))


@op("Slice")
def cut(node: Node, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    x = tensor(x)
    found = known(starts), known(ends)
    strides = [1] * int(tensor(starts).shape[0]) if steps is None else ints(node, steps, "how far it steps")
    count = rank(node, x)
    where = ints(node, axes, "which axes it cuts") if axes is not None else list(range(len(strides)))
    slices: list[Any] = [slice(None)] * count
    for position, axis in enumerate(where):
        step = int(strides[position])
        start, end = (None if one is None else int(one[position]) for one in found)
        if start is None or end is None:
            start, end = _bounds(tensor(starts)[position], tensor(ends)[position], step, tf.shape(x)[axis])
            slices[axis] = slice(start, end, step)
        else:
            slices[axis] = _plain_slice(start, end, step)
    return x[tuple(slices)]


def _plain_slice(start: int, end: int, step: int) -> slice:
    """Return a slice that TensorFlow reads as ONNX means it: bounds beyond int32 are none."""
    if step > 0:
        return slice(start if start > -_MAX else None, end if end < _MAX else None, step)
    return slice(start if start < _MAX else None, end if end > -_MAX else None, step)


def _bounds(start: Any, end: Any, step: int, length: Any) -> tuple[Any, Any]:
    """Return bounds that depend on the data, from the front and inside."""
    length = tf.cast(length, tf.int64)
    low, high = (0, length) if step > 0 else (-1, length - 1)
    found = []
    for bound in (start, end):
        value = tf.cast(bound, tf.int64)
        found.append(tf.clip_by_value(tf.where(value < 0, value + length, value), low, high))
    # A negative end would count from the back again; behind the front there is only "none", which is -length - 1.
    stop = tf.where(found[1] < 0, -length - 1, found[1])
    return found[0], stop


@op("Gather")
def gather(node: Node, x: Any, indices: Any) -> Any:
    x = tensor(x)
    axis = axis_of(node, x, node.get("axis", 0))
    wanted = known(indices)
    if wanted is not None and wanted.ndim == 0:
        return x[tuple([slice(None)] * axis + [int(wanted)])]  # the form in which shapes stay known
    return tf.gather(x, _positive(tensor(indices) if wanted is None else wanted, x, axis), axis=axis)


def _positive(indices: Any, x: Any, axis: int) -> Any:
    length = x.shape[axis]
    if isinstance(indices, np.ndarray):
        if not (indices < 0).any():
            return tf.constant(indices)
        if length is not None:
            return tf.constant(np.where(indices < 0, indices + length, indices))
        indices = tf.constant(indices)
    indices = indices if indices.dtype in {tf.int32, tf.int64} else tf.cast(indices, tf.int32)
    if _was_boolean(indices):
        return indices
    bound = tf.cast(tf.shape(x)[axis] if length is None else length, indices.dtype)
    return tf.where(indices < 0, indices + bound, indices)


def _was_boolean(indices: Any) -> bool:
    """Say whether a tensor is a cast boolean, never negative: TFLite's converter fails where one is compared with 0."""
    made: Any = getattr(indices, "op", None)
    while made is not None and made.type in {"Cast", "Identity"}:
        if made.inputs[0].dtype == tf.bool:
            return True
        made = made.inputs[0].op
    return False


@op("GatherElements")
def gather_elements(node: Node, x: Any, indices: Any) -> Any:
    x, indices = tensor(x), tensor(indices)
    axis = axis_of(node, x, node.get("axis", 0))
    indices = _positive(indices, x, axis)
    if axis == rank(node, x) - 1 and x.shape[:-1].is_fully_defined() and x.shape[:-1] == indices.shape[:-1]:
        return tf.gather(x, indices, batch_dims=axis, axis=axis)
    return tf.gather_nd(x, _full_indices(indices, axis))


def _full_indices(indices: Any, axis: int) -> Any:
    """Return for each element where it stands, but along one axis where the indices say."""
    own = tf.shape(indices)
    places = []
    for position in range(indices.shape.rank):
        if position == axis:
            places.append(indices)
            continue
        count = tf.range(tf.cast(own[position], indices.dtype), dtype=indices.dtype)
        shaped = tf.reshape(count, [-1 if other == position else 1 for other in range(indices.shape.rank)])
        places.append(tf.broadcast_to(shaped, own))
    return tf.stack(places, -1)


@op("GatherND")
def gather_nd(node: Node, x: Any, indices: Any) -> Any:
    x, indices = tensor(x), tensor(indices)
    batch = node.get("batch_dims", 0)
    return tf.gather_nd(x, _positive_rows(x, indices, batch), batch_dims=batch)


def _positive_rows(x: Any, indices: Any, batch: int = 0) -> Any:
    depth = int(indices.shape[-1])
    bound = tf.cast(tf.shape(x)[batch : batch + depth], indices.dtype)
    return tf.where(indices < 0, indices + bound, indices)


@op("ScatterElements", "Scatter")
def scatter_elements(node: Node, x: Any, indices: Any, updates: Any) -> Any:
    x, indices, updates = tensor(x), tensor(indices), tensor(updates)
    axis = axis_of(node, x, node.get("axis", 0))
    places = _full_indices(_positive(indices, x, axis), axis)
    return _scattered(node, x, tf.reshape(places, [-1, rank(node, x)]), tf.reshape(updates, [-1]))


@op("ScatterND")
def scatter_nd(node: Node, x: Any, indices: Any, updates: Any) -> Any:
    x, indices = tensor(x), tensor(indices)
    return _scattered(node, x, _positive_rows(x, indices), tensor(updates))


def _scattered(node: Node, x: Any, places: Any, updates: Any) -> Any:
    how = node.get("reduction", "none")
    if x.dtype == tf.bool:
        return tf.cast(_scattered(node, tf.cast(x, tf.int32), places, tf.cast(updates, tf.int32)), tf.bool)
    if how == "mul":
        return x * _products(x, places, updates)
    functions = {
        "none": tf.tensor_scatter_nd_update,
        "add": tf.tensor_scatter_nd_add,
        "max": tf.tensor_scatter_nd_max,
        "min": tf.tensor_scatter_nd_min,
    }
    return functions[how](x, places, updates)


def _products(x: Any, places: Any, updates: Any) -> Any:
    """Return for each element the product of what comes to it."""
    depth = int(places.shape[-1])
    own = tf.shape(x, places.dtype)
    steps = tf.math.cumprod(own[:depth], exclusive=True, reverse=True)
    rows = tf.reshape(tf.reduce_sum(places * steps, -1), [-1])
    parts = tf.reshape(updates, tf.concat([tf.shape(rows, places.dtype), own[depth:]], 0))
    found = tf.math.unsorted_segment_prod(parts, rows, tf.reduce_prod(own[:depth]))
    return tf.reshape(found, own)


@op("OneHot")
def one_hot(node: Node, indices: Any, depth: Any, values: Any) -> Any:
    indices, count = tensor(indices), known(depth)
    wide = tf.cast(indices, tf.int64)
    number: Any = int(count.ravel()[0]) if count is not None else tf.cast(tf.reshape(tensor(depth), []), tf.int32)
    wide = tf.where(wide < 0, wide + tf.cast(number, tf.int64), wide)
    off, on = tf.unstack(tensor(values), 2)
    chosen = tf.one_hot(wide, number, axis=node.get("axis", -1), dtype=tf.bool, on_value=True, off_value=False)
    return tf.where(chosen, on, off)


@op("NonZero")
def non_zero(_: Node, x: Any) -> Any:
    x = tensor(x)
    x = x if x.dtype == tf.bool else tf.not_equal(x, tf.zeros([], x.dtype))
    return tf.transpose(tf.where(x))


@op("Compress")
def compress(node: Node, x: Any, condition: Any) -> Any:
    x, condition = tensor(x), tensor(condition)
    if "axis" not in node.attributes:
        x = tf.reshape(x, [-1])
    places = tf.reshape(tf.where(condition), [-1])
    return tf.gather(x, places, axis=axis_of(node, x, node.get("axis", 0)))


@op("Expand")
def expand(_: Node, x: Any, to: Any) -> Any:
    x, to = tensor(x), tensor(to)
    text = x.dtype == tf.string
    target = tf.broadcast_dynamic_shape(tf.shape(x, to.dtype), to)
    wanted = known(to)
    if wanted is not None and None not in list(x.shape):
        target = tf.constant(np.broadcast_shapes(tuple(x.shape), tuple(int(number) for number in wanted)), tf.int64)
    if text and x.shape.rank == 0:
        return tf.fill(target, x)
    return tf.broadcast_to(x, target)


@op("Tile")
def tile(_: Node, x: Any, repeats: Any) -> Any:
    return tf.tile(tensor(x), tensor(repeats))


@op("ConstantOfShape")
def constant_of_shape(node: Node, to: Any) -> Any:
    value = np.asarray(node.get("value", np.zeros(1, np.float32))).reshape(())
    return tf.fill(tensor(to), tensor(value))


@op("Range")
def counted(_: Node, start: Any, limit: Any, delta: Any) -> Any:
    start, limit, delta = tensor(start), tensor(limit), tensor(delta)
    if start.dtype == tf.int16:
        return tf.cast(tf.range(*(tf.cast(value, tf.int32) for value in (start, limit, delta))), start.dtype)
    return tf.range(start, limit, delta)


@op("EyeLike")
def eye_like(node: Node, x: Any) -> Any:
    x = tensor(x)
    dtype = element_type(node, node.attributes["dtype"]) if "dtype" in node.attributes else x.dtype
    rows, columns = tf.range(tf.shape(x)[0]), tf.range(tf.shape(x)[1])
    return tf.cast(tf.equal(rows[:, tf.newaxis] + node.get("k", 0), columns), dtype)


@op("Trilu")
def triangle(node: Node, x: Any, k: Any = None) -> Any:
    x = tensor(x)
    shift = tf.cast(tf.reshape(tensor(np.int64(0) if k is None else k), []), tf.int32)
    rows, columns = tf.range(tf.shape(x)[-2])[:, tf.newaxis], tf.range(tf.shape(x)[-1])
    kept = columns - rows >= shift if node.get("upper", 1) else columns - rows <= shift
    return tf.where(kept, x, tf.zeros([], x.dtype))


@op("Pad")
def pad(node: Node, x: Any, pads: Any, value: Any = None, axes: Any = None) -> Any:
    x = tensor(x)
    count = rank(node, x)
    where = (
        [axis % count for axis in ints(node, axes, "which axes it pads")] if axes is not None else list(range(count))
    )
    asked = ints(node, pads, "how much it pads")
    each = [[0, 0] for _ in range(count)]
    for position, axis in enumerate(where):
        each[axis] = [asked[position], asked[position + len(where)]]
    mode = node.get("mode", "constant")
    x = x[tuple(slice(max(-front, 0), -max(-back, 0) or None) for front, back in each)]
    each = [[max(front, 0), max(back, 0)] for front, back in each]
    if mode == "constant":
        return padded(x, each, tensor(value) if value is not None else None)
    for axis, (front, back) in enumerate(each):
        if front or back:
            length = tf.shape(x)[axis]
            x = tf.gather(x, _source(mode, tf.range(-front, length + back), length), axis=axis)
    return x


def padded(x: Any, each: list[list[int]], value: Any = None) -> Any:
    """Return a tensor with more of one value around it."""
    if not any(front or back for front, back in each):
        return x
    if x.dtype == tf.bool:
        return tf.cast(padded(tf.cast(x, tf.int32), each, None if value is None else tf.cast(value, tf.int32)), tf.bool)
    if value is None:
        return tf.pad(x, each)
    return tf.pad(x, each, constant_values=tf.reshape(value, []))


def _source(mode: str, places: Any, length: Any) -> Any:
    """Return which element stands at a place before the front or behind the back."""
    if mode == "edge":
        return tf.clip_by_value(places, 0, length - 1)
    if mode == "wrap":
        return tf.math.floormod(places, length)
    period = tf.maximum(2 * (length - 1), 1)  # reflect
    inside = tf.math.floormod(places, period)
    return tf.where(inside < length, inside, period - inside)


@op("DepthToSpace", "SpaceToDepth")
def depth_and_space(node: Node, x: Any) -> Any:
    x, block = tensor(x), node.attributes["blocksize"]
    batch, depth, high, wide = sizes(x)
    if node.kind == "SpaceToDepth":
        parts = tf.reshape(x, [batch, depth, high // block, block, wide // block, block])
        order = [0, 3, 5, 1, 2, 4] if node.get("mode", "DCR") == "DCR" else [0, 1, 3, 5, 2, 4]
        return tf.reshape(tf.transpose(parts, order), [batch, depth * block**2, high // block, wide // block])
    if node.get("mode", "DCR") == "DCR":
        parts = tf.transpose(tf.reshape(x, [batch, block, block, depth // block**2, high, wide]), [0, 3, 4, 1, 5, 2])
    else:
        parts = tf.transpose(tf.reshape(x, [batch, depth // block**2, block, block, high, wide]), [0, 1, 4, 2, 5, 3])
    return tf.reshape(parts, [batch, depth // block**2, high * block, wide * block])


@op("ReverseSequence")
def reverse_sequence(node: Node, x: Any, lengths: Any) -> Any:
    return tf.reverse_sequence(
        tensor(x), tensor(lengths), seq_axis=node.get("time_axis", 0), batch_axis=node.get("batch_axis", 1)
    )


@op("TopK")
def top_k(node: Node, x: Any, k: Any) -> Any:
    x = tensor(x)
    axis = axis_of(node, x, node.get("axis", -1))
    number = known(k)
    count = int(number.ravel()[0]) if number is not None else tf.cast(tf.reshape(tensor(k), []), tf.int32)
    last = rank(node, x) - 1
    order = [*(position for position in range(last + 1) if position != axis), axis]
    back = list(np.argsort(order))
    keys = _ordered(tf.transpose(x, order) if axis != last else x)
    if not node.get("largest", 1):
        keys = tf.bitwise.bitwise_xor(keys, tf.constant(-1, keys.dtype))
    places = tf.math.top_k(keys, count).indices
    values = tf.gather(tf.transpose(x, order) if axis != last else x, places, batch_dims=last, axis=last)
    found = (values, tf.cast(places, tf.int64))
    return found if axis == last else tuple(tf.transpose(one, back) for one in found)


def _ordered(x: Any) -> Any:
    """Return signed integers that are ordered as the values are; NaN is above all, and the two zeros are equal."""
    if not floating(x):
        return x if x.dtype in {tf.int32, tf.int64} else tf.cast(x, tf.int64)
    if x.dtype in {tf.float16, tf.bfloat16}:
        x = tf.cast(x, tf.float32)
    signed = tf.int64 if x.dtype == tf.float64 else tf.int32
    x = tf.where(is_nan(x), tf.constant(np.nan, x.dtype), x + tf.zeros([], x.dtype))
    bits = tf.bitcast(x, signed)
    return tf.where(bits < 0, tf.bitwise.bitwise_xor(bits, tf.constant(signed.max, signed)), bits)


@op("Unique")
def unique(node: Node, x: Any) -> Any:
    x = tensor(x)
    if "axis" in node.attributes:
        axis = axis_of(node, x, node.attributes["axis"])
        if not node.get("sorted", 1) or len(node.outputs) > 1 or rank(node, x) != 1:
            refuse(node, f"along axis {axis}")
    x = tf.reshape(x, [-1])
    values, inverse, counts = tf.unique_with_counts(x, tf.int64)
    places = tf.math.unsorted_segment_min(tf.range(tf.size(x, tf.int64), dtype=tf.int64), inverse, tf.size(values))
    if node.get("sorted", 1):
        order = tf.argsort(values, stable=True)
        values, places, counts = (tf.gather(part, order) for part in (values, places, counts))
        inverse = tf.gather(tf.cast(tf.argsort(order), tf.int64), inverse)
    return values, places, inverse, counts


@op("StringConcat")
def string_concat(_: Node, left: Any, right: Any) -> Any:
    left, right = tensor(left), tensor(right)
    both = tf.broadcast_dynamic_shape(tf.shape(left), tf.shape(right))
    return tf.strings.join([tf.broadcast_to(left, both), tf.broadcast_to(right, both)])


@op("RegexFullMatch")
def regex_full_match(node: Node, x: Any) -> Any:
    return tf.strings.regex_full_match(tensor(x), node.attributes["pattern"])


@op("CenterCropPad")
def center_crop_pad(node: Node, x: Any, to: Any) -> Any:
    x, wanted = tensor(x), [int(number) for number in required(node, to, "the size")]
    axes = [axis % rank(node, x) for axis in node.get("axes", range(rank(node, x)))]
    for axis, target in zip(axes, wanted, strict=True):
        own = x.shape[axis]
        if own is None:
            refuse(node, "the size that it crops depends on the data")
        front = abs(own - target) // 2
        if own >= target:
            x = x[tuple([slice(None)] * axis + [slice(front, front + target)])]
        else:
            each = [[0, 0] for _ in range(rank(node, x))]
            each[axis] = [front, target - own - front]
            x = padded(x, each)
    return x
