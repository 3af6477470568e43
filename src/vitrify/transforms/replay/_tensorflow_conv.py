"""Convolutions and pooling, on TensorFlow.

ONNX has the channels first; TensorFlow's kernels on the CPU want them last, so each is between two transpositions,
which TensorFlow and TFLite take out again where they meet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.formats._tensorflow.loaded import tf
from vitrify.transforms.replay._tensorflow_base import op, rank, refuse, sizes, tensor
from vitrify.transforms.replay._tensorflow_shape import padded
from vitrify.transforms.replay._tensorflow_sum import requantized

if TYPE_CHECKING:
    from vitrify.transforms.replay.walk import Node

_IMAGE = 2


def channels_last(x: Any) -> Any:
    """Move the channels behind the space."""
    count = x.shape.rank
    return tf.transpose(x, [0, *range(2, count), 1])


def channels_first(x: Any) -> Any:
    """Move them back."""
    count = x.shape.rank
    return tf.transpose(x, [0, count - 1, *range(1, count - 1)])


@op("Conv")
def conv(node: Node, x: Any, weights: Any, bias: Any = None) -> Any:
    x, weights = tensor(x), tensor(weights)
    space = rank(node, x) - 2
    kernel = [int(size) for size in weights.shape[2:]]
    strides, dilations = node.get("strides") or [1] * space, node.get("dilations") or [1] * space
    x = padded(x, [[0, 0], [0, 0], *_pads(node, x, kernel, strides, dilations)])
    found = _convolved(node, channels_last(x), weights, strides, dilations)
    if bias is not None:
        found = found + tensor(bias)
    return channels_first(found)


def _convolved(node: Node, x: Any, weights: Any, strides: list[int], dilations: list[int]) -> Any:
    """Return the convolution of what has its channels last and its padding on."""
    groups, space = node.get("group", 1), len(strides)
    filters = tf.transpose(weights, [*range(2, space + 2), 1, 0])
    strided, dilated = any(step > 1 for step in strides), any(step > 1 for step in dilations)
    if groups == 1:
        if strided and dilated and space != _IMAGE:
            refuse(node, "strides with dilations in one or three dimensions")
        return tf.nn.convolution(x, filters, strides=strides, padding="VALID", dilations=dilations)
    alone = groups == int(x.shape[-1]) and len(set(strides)) == 1 and not (strided and dilated)
    if space == _IMAGE and alone and x.dtype != tf.int32:
        per = int(weights.shape[0]) // groups
        filters = tf.reshape(filters, [*filters.shape[:2], per, groups])
        return tf.nn.depthwise_conv2d(
            x, tf.transpose(filters, [0, 1, 3, 2]), [1, *strides, 1], "VALID", dilations=dilations
        )
    parts = zip(tf.split(x, groups, -1), tf.split(filters, groups, -1), strict=True)
    return tf.concat(
        [tf.nn.convolution(part, own, strides=strides, padding="VALID", dilations=dilations) for part, own in parts], -1
    )


def _pads(node: Node, x: Any, kernel: list[int], strides: list[int], dilations: list[int]) -> list[list[int]]:
    """Return how much is padded in front and behind, an axis of space each."""
    space = len(kernel)
    how = node.get("auto_pad", "NOTSET")
    if how == "NOTSET":
        pads = node.get("pads") or [0] * 2 * space
        return [[pads[axis], pads[axis + space]] for axis in range(space)]
    if how == "VALID":
        return [[0, 0]] * space
    found = []
    for axis in range(space):
        length = x.shape[axis + 2]
        if length is None and strides[axis] != 1:
            refuse(node, "its padding depends on the data")
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        total = (
            reach - 1
            if strides[axis] == 1
            else max((-(-length // strides[axis]) - 1) * strides[axis] + reach - length, 0)
        )
        small = total // 2
        found.append([small, total - small] if how == "SAME_UPPER" else [total - small, small])
    return found


@op("ConvTranspose")
def conv_transpose(node: Node, x: Any, weights: Any, bias: Any = None) -> Any:
    """Spread the input out with zeros, and convolve it with the turned kernel."""
    x, weights = tensor(x), tensor(weights)
    space, groups = rank(node, x) - 2, node.get("group", 1)
    kernel = [int(size) for size in weights.shape[2:]]
    strides, dilations = node.get("strides") or [1] * space, node.get("dilations") or [1] * space
    more = node.get("output_padding") or [0] * space
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    pads = _transposed_pads(node, x, strides, reach, more)
    spread = _spread(channels_last(x), strides)
    around = [[reach[axis] - 1 - pads[axis][0], reach[axis] - 1 - pads[axis][1] + more[axis]] for axis in range(space)]
    cut = [slice(max(-front, 0), -max(-back, 0) or None) for front, back in around]
    spread = spread[(slice(None), *cut)]
    spread = padded(spread, [[0, 0], *([max(front, 0), max(back, 0)] for front, back in around), [0, 0]])
    filters = tf.reverse(tf.transpose(weights, [*range(2, space + 2), 0, 1]), list(range(space)))
    parts = zip(tf.split(spread, groups, -1), tf.split(filters, groups, -2), strict=True)
    found = tf.concat([tf.nn.convolution(part, own, padding="VALID", dilations=dilations) for part, own in parts], -1)
    if bias is not None:
        found = found + tensor(bias)
    return channels_first(found)


def _transposed_pads(node: Node, x: Any, strides: list[int], reach: list[int], more: list[int]) -> list[list[int]]:
    space, how = len(strides), node.get("auto_pad", "NOTSET")
    wanted = node.get("output_shape")
    if wanted is None and how in {"NOTSET", "VALID"}:
        pads = (node.get("pads") if how == "NOTSET" else None) or [0] * 2 * space
        return [[pads[axis], pads[axis + space]] for axis in range(space)]
    found = []
    for axis in range(space):
        length = x.shape[axis + 2]
        if length is None:
            refuse(node, "its padding depends on the data")
        target = wanted[axis - space] if wanted else length * strides[axis]
        total = strides[axis] * (length - 1) + more[axis] + reach[axis] - target
        if total < 0:
            found.append([0, total])
            continue
        small = total // 2
        found.append([total - small, small] if how == "SAME_LOWER" else [small, total - small])
    return found


def _spread(x: Any, strides: list[int]) -> Any:
    """Put zeros between the elements of each axis of space."""
    for axis, step in enumerate(strides, 1):
        if step == 1:
            continue
        own = sizes(x)
        wide = tf.pad(
            tf.expand_dims(x, axis + 1), [[0, step - 1] if at == axis + 1 else [0, 0] for at in range(len(own) + 1)]
        )
        x = tf.reshape(wide, [*own[:axis], own[axis] * step, *own[axis + 1 :]])
        x = x[tuple([slice(None)] * axis + [slice(0, -(step - 1))])]
    return x


@op("ConvInteger")
def conv_integer(node: Node, x: Any, weights: Any, x_zero: Any = None, w_zero: Any = None) -> Any:
    x, weights = tensor(x), tensor(weights)
    wide = tf.cast(x, tf.float64) - (0 if x_zero is None else tf.cast(tf.reshape(tensor(x_zero), []), tf.float64))
    kernel = tf.cast(weights, tf.float64)
    if w_zero is not None:
        kernel = kernel - _first(tf.cast(tensor(w_zero), tf.float64), kernel)
    return tf.cast(conv(node, wide, kernel), tf.int32)  # exact: double holds every int32


@op("QLinearConv")
def quantized_conv(
    node: Node,
    x: Any,
    x_scale: Any,
    x_zero: Any,
    w: Any,
    w_scale: Any,
    w_zero: Any,
    scale: Any,
    zero: Any,
    bias: Any = None,
) -> Any:
    wide = conv_integer(node, x, w, x_zero, w_zero)
    along = [-1 if axis == 1 else 1 for axis in range(rank(node, wide))]
    if bias is not None:
        wide = wide + tf.reshape(tensor(bias), along)
    factor = tensor(x_scale) * tensor(w_scale) / tensor(scale)
    factor = (
        tf.reshape(factor, along) if factor.shape.rank and factor.shape.num_elements() != 1 else tf.reshape(factor, [])
    )
    return requantized(tf.cast(wide, tf.float32) * factor, zero)


def _first(value: Any, like: Any) -> Any:
    one = value.shape.num_elements() == 1
    return tf.reshape(value, [] if one else [-1, *([1] * (like.shape.rank - 1))])


def _window(node: Node, x: Any) -> tuple[list[int], list[int], list[int], list[list[int]]]:
    """Return kernel, strides, dilations and padding, with what ``ceil_mode`` adds behind."""
    kernel = node.attributes["kernel_shape"]
    space = len(kernel)
    strides, dilations = node.get("strides") or [1] * space, node.get("dilations") or [1] * space
    pads = [list(pair) for pair in _pads(node, x, kernel, strides, dilations)]
    if node.get("ceil_mode", 0):
        for axis in range(space):
            length = x.shape[axis + 2]
            if length is None:
                refuse(node, "how far its last window reaches depends on the data")
            reach = (kernel[axis] - 1) * dilations[axis] + 1
            whole = length + sum(pads[axis])
            steps = -(-(whole - reach) // strides[axis])
            if steps * strides[axis] >= length + pads[axis][0]:
                steps -= 1  # no window starts behind the end
            pads[axis][1] += max(steps * strides[axis] + reach - whole, 0)
    return kernel, strides, dilations, pads


@op("MaxPool")
def max_pool(node: Node, x: Any) -> Any:
    x = tensor(x)
    kernel, strides, dilations, pads = _window(node, x)
    if len([name for name in node.outputs if name]) > 1:
        return _with_indices(node, x, _window(node, x))
    lowest = tf.constant(-np.inf if x.dtype.is_floating else x.dtype.min, x.dtype)
    windows = padded(x, [[0, 0], [0, 0], *pads], lowest)
    return _reduced(windows, kernel, strides, dilations, tf.maximum)


def _reduced(x: Any, kernel: list[int], strides: list[int], dilations: list[int], function: Any) -> Any:
    """Reduce windows one axis after another: exact for maxima and sums, in every type and any number of axes."""
    for axis, (size, step, gap) in enumerate(zip(kernel, strides, dilations, strict=True), 2):
        length = sizes(x)[axis]
        count = (length - (size - 1) * gap - 1) // step + 1
        parts = []
        for shift in range(size):
            start = shift * gap
            parts.append(x[tuple([slice(None)] * axis + [slice(start, start + (count - 1) * step + 1, step)])])
        while len(parts) > 1:
            last = parts[-1:] if len(parts) % 2 else []
            parts = [function(*pair) for pair in zip(parts[::2], parts[1::2], strict=False)] + last
        x = parts[0]
    return x


def _with_indices(node: Node, x: Any, window: tuple[Any, ...]) -> Any:
    """Return maxima and where in the flat input they stand."""
    kernel, strides, dilations, pads = window
    own = sizes(x)
    if not all(isinstance(size, int) for size in own):
        refuse(node, "indices into a batch that may change")
    flat = np.arange(int(np.prod(own))).reshape(own)
    if node.get("storage_order", 0):
        order = np.arange(int(np.prod(own[2:]))).reshape(own[2:][::-1]).T
        flat = np.arange(own[0] * own[1]).reshape(own[0], own[1], *[1] * len(order.shape)) * order.size + order
    lowest = tf.constant(-np.inf if x.dtype.is_floating else x.dtype.min, x.dtype)
    values = padded(x, [[0, 0], [0, 0], *pads], lowest)
    places = padded(tf.constant(flat, tf.int64), [[0, 0], [0, 0], *pads], tf.constant(-1, tf.int64))

    def better(left: Any, right: Any) -> Any:
        first = (left[0] > right[0]) | ((left[0] == right[0]) & (left[1] <= right[1]))
        return tf.where(first, left[0], right[0]), tf.where(first, left[1], right[1])

    pair = (values, places)
    for axis, (size, step, gap) in enumerate(zip(kernel, strides, dilations, strict=True), 2):
        count = (int(pair[0].shape[axis]) - (size - 1) * gap - 1) // step + 1
        parts = []
        for shift in range(size):
            start = shift * gap
            where = tuple([slice(None)] * axis + [slice(start, start + (count - 1) * step + 1, step)])
            parts.append((pair[0][where], pair[1][where]))
        pair = parts[0]
        for part in parts[1:]:
            pair = better(pair, part)
    return pair


@op("AveragePool", "LpPool")
def average_pool(node: Node, x: Any) -> Any:
    x = tensor(x)
    kernel, strides, dilations, pads = _window(node, x)
    around = [[0, 0], [0, 0], *pads]
    if node.kind == "LpPool":
        power = tf.cast(node.get("p", 2), x.dtype)
        total = _reduced(padded(tf.pow(tf.abs(x), power), around), kernel, strides, dilations, tf.add)
        return tf.pow(total, tf.ones([], x.dtype) / power)
    total = _reduced(padded(x, around), kernel, strides, dilations, tf.add)
    if not any(front or back for front, back in pads):
        return total / tf.cast(np.prod(kernel), x.dtype)
    ones = tf.ones([1, 1, *sizes(x)[2:]], x.dtype)
    if node.get("count_include_pad", 0):  # but what ceil_mode adds is no padding
        asked = _pads(node, x, kernel, strides, dilations)
        more = [[0, back - wanted[1]] for (_, back), wanted in zip(pads, asked, strict=True)]
        ones = padded(tf.pad(ones, [[0, 0], [0, 0], *asked], constant_values=1), [[0, 0], [0, 0], *more])
    else:
        ones = padded(ones, around)
    return total / _reduced(ones, kernel, strides, dilations, tf.add)


@op("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(node: Node, x: Any) -> Any:
    x = tensor(x)
    axes = list(range(2, rank(node, x)))
    if node.kind == "GlobalLpPool":
        power = tf.cast(node.get("p", 2), x.dtype)
        return tf.pow(tf.reduce_sum(tf.pow(tf.abs(x), power), axes, keepdims=True), tf.ones([], x.dtype) / power)
    function = tf.reduce_mean if node.kind == "GlobalAveragePool" else tf.reduce_max
    return function(x, axes, keepdims=True)
