"""Operators of networks: convolutions, pools, normalisation, quantised values.

Source: https://onnx.ai/onnx/operators/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.replay._jax_values import Tensor, dtype_of, op

if TYPE_CHECKING:
    from vitrify.transforms.replay.walk import Node

Pads = list[tuple[int, int]]


def _pads(node: Node, sizes: list[Any], window: list[int], strides: list[int], dilations: list[int]) -> Pads:
    """Return what is put before and behind each axis."""
    spatial, how = len(window), node.get("auto_pad", "NOTSET")
    if how == "VALID":
        return [(0, 0)] * spatial
    if how == "NOTSET":
        numbers = node.get("pads") or [0] * (2 * spatial)
        return list(zip(numbers[:spatial], numbers[spatial:], strict=True))
    pads = []
    for size, reach, stride, dilation in zip(sizes, window, strides, dilations, strict=True):
        if not isinstance(size, int):
            msg = f"{node.kind}: auto_pad={how!r} of a size that may change"
            raise UnsupportedModelError(msg, remedy="write the pads out, or fix the size")
        total = max((-(-size // stride) - 1) * stride + (reach - 1) * dilation + 1 - size, 0)
        less, more = total // 2, total - total // 2
        pads.append((less, more) if how == "SAME_UPPER" else (more, less))
    return pads


def _settings(node: Node, spatial: int) -> tuple[list[int], list[int]]:
    return list(node.get("strides") or [1] * spatial), list(node.get("dilations") or [1] * spatial)


@op("Conv")
def _conv(node: Node, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    spatial = x.ndim - 2
    strides, dilations = _settings(node, spatial)
    pads = _pads(node, list(x.shape[2:]), list(w.shape[2:]), strides, dilations)
    groups = node.get("group", 1)
    given = jax.lax.conv_general_dilated(
        x, w, strides, pads, rhs_dilation=dilations, feature_group_count=groups, precision="highest"
    )
    return given if b is None else given + b.reshape(1, -1, *[1] * spatial)


@op("ConvInteger")
def _conv_integer(
    node: Node, x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None
) -> Tensor:
    left = x.astype(jnp.int32) - (0 if x_zero is None else x_zero.astype(jnp.int32))
    right = w.astype(jnp.int32)
    if w_zero is not None:
        right -= w_zero.astype(jnp.int32).reshape(-1, *[1] * (w.ndim - 1))
    given: Tensor = _conv(node, left, right)
    return given


@op("ConvTranspose")
def _conv_transpose(node: Node, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    spatial, groups = x.ndim - 2, node.get("group", 1)
    strides, dilations = _settings(node, spatial)
    window = list(w.shape[2:])
    more = list(node.get("output_padding") or [0] * spatial)
    pads = _transposed_pads(node, x, window, strides, dilations, more)
    reach = [(size - 1) * dilation for size, dilation in zip(window, dilations, strict=True)]
    around = [(far - low, far - high + extra) for far, (low, high), extra in zip(reach, pads, more, strict=True)]
    inner, outer = w.shape[0], w.shape[1]
    kernel = jnp.flip(w, tuple(range(2, w.ndim))).reshape(groups, inner // groups, outer, *window)
    kernel = jnp.moveaxis(kernel, 2, 1).reshape(groups * outer, inner // groups, *window)
    given = jax.lax.conv_general_dilated(
        x,
        kernel,
        [1] * spatial,
        around,
        lhs_dilation=strides,
        rhs_dilation=dilations,
        feature_group_count=groups,
        precision="highest",
    )
    return given if b is None else given + b.reshape(1, -1, *[1] * spatial)


def _transposed_pads(
    node: Node, x: Tensor, window: list[int], strides: list[int], dilations: list[int], more: list[int]
) -> Pads:
    spatial, how = len(window), node.get("auto_pad", "NOTSET")
    wanted = node.get("output_shape")
    if how in {"NOTSET", "VALID"} and not wanted:
        numbers = (node.get("pads") or [0] * (2 * spatial)) if how == "NOTSET" else [0] * (2 * spatial)
        return list(zip(numbers[:spatial], numbers[spatial:], strict=True))
    pads = []
    for at in range(spatial):
        size = wanted[-spatial:][at] if wanted else x.shape[2 + at] * strides[at]
        total = strides[at] * (x.shape[2 + at] - 1) + more[at] + (window[at] - 1) * dilations[at] + 1 - size
        less = total // 2
        pads.append((less, total - less) if how == "SAME_UPPER" else (total - less, less))
    return pads


def _window(node: Node, x: Tensor) -> tuple[list[int], list[int], list[int], Pads]:
    window = list(node.get("kernel_shape"))
    strides, dilations = _settings(node, len(window))
    pads = _pads(node, list(x.shape[2:]), window, strides, dilations)
    if node.get("ceil_mode", 0) and node.get("auto_pad", "NOTSET") == "NOTSET":
        parts = zip(x.shape[2:], pads, window, strides, dilations, strict=True)
        pads = [(pad[0], pad[1] + _extra(size, pad, *more)) for size, pad, *more in parts]
    return window, strides, dilations, pads


def _extra(size: Any, pad: tuple[int, int], reach: int, stride: int, dilation: int) -> int:
    """Return what a last window that sticks out needs; one that would begin behind the end is none."""
    if not isinstance(size, int):
        msg = "a pool with ceil_mode over a size that may change"
        raise UnsupportedModelError(msg, remedy="fix the size")
    steps, left = divmod(size + sum(pad) - (reach - 1) * dilation - 1, stride)
    return 0 if left == 0 or (steps + 1) * stride >= size + pad[0] else stride - left


def _pooled(x: Tensor, start: Any, function: Any, window: tuple[list[int], list[int], list[int], Pads]) -> Tensor:
    shape, strides, dilations, pads = window
    return jax.lax.reduce_window(
        x,
        jnp.asarray(start, x.dtype),
        function,
        (1, 1, *shape),
        (1, 1, *strides),
        ((0, 0), (0, 0), *pads),
        window_dilation=(1, 1, *dilations),
    )


@op("MaxPool")
def _max_pool(node: Node, x: Tensor) -> Tensor:
    """A NaN is less than any number, as in ONNX Runtime."""
    if len(node.outputs) > 1 and node.outputs[1]:
        msg = "MaxPool with the places of the largest values"
        raise UnsupportedModelError(msg, remedy="leave out its second output")
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    x = jnp.where(jnp.isnan(x), jnp.asarray(least, x.dtype), x) if x.dtype.kind == "f" else x
    return _pooled(x, least, jax.lax.max, _window(node, x))


@op("AveragePool")
def _average_pool(node: Node, x: Tensor) -> Tensor:
    window = _window(node, x)
    total = _pooled(x, 0, jax.lax.add, window)
    ones = jnp.ones((1, 1, *x.shape[2:]), x.dtype)
    if not node.get("count_include_pad", 0):
        return total / _pooled(ones, 0, jax.lax.add, window)
    shape, strides, dilations, pads = window
    plain = _pads(node, list(x.shape[2:]), shape, strides, dilations)
    counted = jnp.pad(ones, ((0, 0), (0, 0), *plain), constant_values=1)
    rest = [(low - own_low, high - own_high) for (low, high), (own_low, own_high) in zip(pads, plain, strict=True)]
    return total / _pooled(counted, 0, jax.lax.add, (shape, strides, dilations, rest))


@op("LpPool")
def _lp_pool(node: Node, x: Tensor) -> Tensor:
    power = node.get("p", 2)
    return _pooled(jnp.abs(x) ** power, 0, jax.lax.add, _window(node, x)) ** (1 / power)


@op("GlobalAveragePool")
def _global_average(_: Node, x: Tensor) -> Tensor:
    return jnp.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True)


@op("GlobalMaxPool")
def _global_max(_: Node, x: Tensor) -> Tensor:
    return jnp.max(x, axis=tuple(range(2, x.ndim)), keepdims=True)


@op("GlobalLpPool")
def _global_lp(node: Node, x: Tensor) -> Tensor:
    power = node.get("p", 2)
    return jnp.sum(jnp.abs(x) ** power, axis=tuple(range(2, x.ndim)), keepdims=True) ** (1 / power)


@op("BatchNormalization")
def _batch_normalisation(node: Node, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    if node.get("training_mode", 0):
        msg = "BatchNormalization in training mode"
        raise UnsupportedModelError(msg, remedy="export the model in eval mode")
    shape = (1, -1, *[1] * (x.ndim - 2))
    scale, bias, mean, var = (value.astype(x.dtype).reshape(shape) for value in (scale, bias, mean, var))
    return (x - mean) / jnp.sqrt(var + jnp.asarray(node.get("epsilon", 1e-5), x.dtype)) * scale + bias


@op("InstanceNormalization")
def _instance_normalisation(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    axes, shape = tuple(range(2, x.ndim)), (1, -1, *[1] * (x.ndim - 2))
    apart = x - jnp.mean(x, axes, keepdims=True)
    var = jnp.mean(apart * apart, axes, keepdims=True)
    return apart / jnp.sqrt(var + node.get("epsilon", 1e-5)) * scale.reshape(shape) + bias.reshape(shape)


@op("LayerNormalization")
def _layer_normalisation(node: Node, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> tuple[Tensor, ...]:
    first = node.get("axis", -1)
    axes = tuple(range(first + x.ndim if first < 0 else first, x.ndim))
    wide = x.astype(jnp.float32) if x.dtype.itemsize < 4 else x  # noqa: PLR2004 (bytes: the stash type is float)
    mean = jnp.mean(wide, axes, keepdims=True)
    apart = wide - mean
    inverse = 1 / jnp.sqrt(jnp.mean(apart * apart, axes, keepdims=True) + node.get("epsilon", 1e-5))
    given = (apart * inverse).astype(x.dtype) * scale
    return (given if bias is None else given + bias), mean, inverse


@op("LRN")
def _lrn(node: Node, x: Tensor) -> Tensor:
    size = node.get("size")
    low, high = (size - 1) // 2, size - 1 - (size - 1) // 2
    shape = (1, size, *[1] * (x.ndim - 2))
    pads = ((0, 0), (low, high), *[(0, 0)] * (x.ndim - 2))
    total = jax.lax.reduce_window(x * x, jnp.zeros((), x.dtype), jax.lax.add, shape, (1,) * x.ndim, pads)
    return x / (node.get("bias", 1.0) + node.get("alpha", 1e-4) / size * total) ** node.get("beta", 0.75)


@op("LpNormalization")
def _lp_normalisation(node: Node, x: Tensor) -> Tensor:
    axis, power = node.get("axis", -1), node.get("p", 2)
    size = jnp.sum(jnp.abs(x), axis, keepdims=True) if power == 1 else jnp.sqrt(jnp.sum(x * x, axis, keepdims=True))
    return jnp.where(size == 0, jnp.zeros_like(x), x / size)


def _along(node: Node, value: Tensor, x: Tensor) -> Tensor:
    """Return a scale or a zero point in a shape that goes with the values: one each, a channel's, or a block's."""
    if value.ndim == 0 or value.size == 1:
        return value.reshape(())
    axis = node.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    if block := node.get("block_size", 0):
        return jax.lax.slice_in_dim(jnp.repeat(value, block, axis=axis), 0, x.shape[axis], axis=axis)
    return value.reshape([-1 if at == axis else 1 for at in range(x.ndim)])


@op("QuantizeLinear")
def _quantise(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    asked = node.get("output_dtype", 0)
    dtype = np.dtype(zero.dtype) if zero is not None else dtype_of(asked) if asked else np.dtype(np.uint8)
    if dtype.kind not in "iu":
        msg = f"QuantizeLinear to {dtype}"
        raise UnsupportedModelError(msg, remedy="quantise to integers")
    bounds = np.iinfo(dtype)
    whole = jnp.round(x / _along(node, scale, x).astype(x.dtype))
    shift = 0 if zero is None else _along(node, zero, x).astype(x.dtype)
    return jnp.clip(whole + shift, bounds.min, bounds.max).astype(dtype)


@op("DequantizeLinear")
def _dequantise(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    wide = x.astype(jnp.int32) if x.dtype.kind in "iu" else x
    if zero is not None:
        wide = wide - _along(node, zero, x).astype(wide.dtype)
    return wide.astype(scale.dtype) * _along(node, scale, x)


@op("QLinearMatMul")
def _quantised_product(node: Node, *given: Tensor) -> Tensor:
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = given
    left, right = _dequantise(node, a, a_scale, a_zero), _dequantise(node, b, b_scale, b_zero)
    return _quantise(node, jnp.matmul(left, right, precision="highest"), scale, zero)
