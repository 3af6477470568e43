"""Operators of images and signals: convolutions, pools, resizing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.replay._torch_register import op, raw
from vitrify.transforms.replay._torch_values import tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from vitrify.transforms.replay.walk import Node

Sizes = list[int]

_CONVS: dict[int, Callable[..., Tensor]] = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_TRANSPOSED: dict[int, Callable[..., Tensor]] = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}
_MAX_POOLS: dict[int, Callable[..., Any]] = {
    1: functional.max_pool1d,
    2: functional.max_pool2d,
    3: functional.max_pool3d,
}


def _window(node: Node, kernel: Sizes, x: Tensor) -> tuple[Sizes, Sizes, Sizes, Sizes]:
    """Return strides, dilations, and what is padded before and after each axis."""
    rank = len(kernel)
    strides, dilations = (list(node.get(name) or [1] * rank) for name in ("strides", "dilations"))
    pads, auto = node.get("pads") or [0] * (2 * rank), node.get("auto_pad", "NOTSET")
    before, after = list(pads[:rank]), list(pads[rank:])
    if auto == "VALID":
        before, after = [0] * rank, [0] * rank
    elif auto.startswith("SAME"):
        for axis in range(rank):
            size = x.shape[2 + axis]
            span = dilations[axis] * (kernel[axis] - 1) + 1
            total = max((-(-size // strides[axis]) - 1) * strides[axis] + span - size, 0)
            small, large = total // 2, total - total // 2
            before[axis], after[axis] = (small, large) if auto == "SAME_UPPER" else (large, small)
    return strides, dilations, before, after


def padded(x: Tensor, before: Sizes, after: Sizes, value: float = 0) -> Tensor:
    """Pad the last axes."""
    if not any((*before, *after)):
        return x
    flat = [size for pair in zip(reversed(before), reversed(after), strict=True) for size in pair]
    return functional.pad(x, flat, value=value)


@op("Conv")
def _conv(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    strides, dilations, before, after = _window(node, list(weight.shape[2:]), x)
    pads = before
    if before != after:
        x, pads = padded(x, before, after), [0] * len(before)
    convolve = _CONVS[weight.ndim - 2]
    return convolve(x, weight, bias, strides, pads, dilations, node.get("group", 1))


@op("ConvTranspose")
def _conv_transpose(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    kernel = list(weight.shape[2:])
    rank = len(kernel)
    strides, dilations = (list(node.get(name) or [1] * rank) for name in ("strides", "dilations"))
    extra = list(node.get("output_padding") or [0] * rank)
    pads, auto, wanted = node.get("pads") or [0] * (2 * rank), node.get("auto_pad", "NOTSET"), node.get("output_shape")
    before, after = list(pads[:rank]), list(pads[rank:])
    for axis in range(rank):
        whole = strides[axis] * (x.shape[2 + axis] - 1) + extra[axis] + (kernel[axis] - 1) * dilations[axis] + 1
        if wanted or auto.startswith("SAME"):
            size = wanted[axis] if wanted else x.shape[2 + axis] * strides[axis]
            total = whole - size
            small, large = total // 2, total - total // 2
            before[axis], after[axis] = (small, large) if auto == "SAME_UPPER" else (large, small)
    transpose = _TRANSPOSED[rank]
    least = [max(pair) for pair in zip(strides, dilations, strict=True)]
    if before == after and min(before) >= 0 and all(more < most for more, most in zip(extra, least, strict=True)):
        return transpose(x, weight, bias, strides, before, extra, node.get("group", 1), dilations)
    whole_map = padded(transpose(x, weight, bias, strides, 0, 0, node.get("group", 1), dilations), [0] * rank, extra)
    if any(extra) and bias is not None:  # what is added at the end has the bias only
        whole_map = padded(
            transpose(x, weight, None, strides, 0, 0, node.get("group", 1), dilations), [0] * rank, extra
        ) + bias.reshape([1, -1, *[1] * rank])
    return padded(whole_map, [-pad for pad in before], [-pad for pad in after])


@op("MaxPool")
def _max_pool(node: Node, x: Tensor) -> Any:
    """Pool as ONNX Runtime does: a NaN is less than any number."""
    kernel = list(node.get("kernel_shape"))
    strides, dilations, before, after = _window(node, kernel, x)
    least = -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    values = torch.where(torch.isnan(x), torch.full_like(x, least), x) if x.is_floating_point() else x
    whole = not x.is_floating_point()
    if whole:
        values = values.double()
    wide = padded(values, before, _reached(node, x, kernel, strides, dilations, before, after), least)
    pool = _MAX_POOLS[len(kernel)]
    if len(node.outputs) == 1:
        return pool(wide, kernel, strides, 0, dilations).to(x.dtype)
    found, places = pool(wide, kernel, strides, 0, dilations, return_indices=True)
    return found.to(x.dtype), _places(node, places, x, wide, before)


def _reached(
    node: Node, x: Tensor, kernel: Sizes, strides: Sizes, dilations: Sizes, before: Sizes, after: Sizes
) -> Sizes:
    """Return what to pad behind; where sizes are rounded up, the last window begins within what was padded before."""
    if not node.get("ceil_mode", 0):
        return after
    reached = []
    for axis in range(len(kernel)):
        size = x.shape[2 + axis]
        span, stride = dilations[axis] * (kernel[axis] - 1) + 1, strides[axis]
        count = -(-(size + before[axis] + after[axis] - span) // stride) + 1
        if (count - 1) * stride >= size + before[axis]:
            count -= 1
        reached.append(max((count - 1) * stride + span - size - before[axis], 0))
    return reached


def _places(node: Node, places: Tensor, x: Tensor, wide: Tensor, before: Sizes) -> Tensor:
    """Return places in the input, counted through rows and channels, as ONNX counts them."""
    sizes, wide_sizes = list(x.shape[2:]), list(wide.shape[2:])
    coordinates: list[Tensor] = []
    for axis in reversed(range(len(sizes))):
        coordinates.insert(0, places % wide_sizes[axis] - before[axis])
        places = places // wide_sizes[axis]
    if node.get("storage_order", 0):
        coordinates, sizes = coordinates[::-1], sizes[::-1]
    flat = torch.zeros_like(coordinates[0])
    for coordinate, size in zip(coordinates, sizes, strict=True):
        flat = flat * size + coordinate
    planes = torch.arange(x.shape[0] * x.shape[1]).reshape([x.shape[0], x.shape[1], *[1] * len(sizes)])
    return flat + planes * math.prod(sizes)


@op("AveragePool", "LpPool")
def _average_pool(node: Node, x: Tensor) -> Tensor:
    kernel = list(node.get("kernel_shape"))
    strides, dilations, before, after = _window(node, kernel, x)
    last = _reached(node, x, kernel, strides, dilations, before, after)
    if node.kind == "LpPool":
        p = node.get("p", 2)
        powers = _sums(torch.pow(torch.abs(x), p), kernel, strides, dilations, before, last)
        return torch.pow(powers, 1 / p)
    total = _sums(x, kernel, strides, dilations, before, last)
    ones = torch.ones([1, 1, *x.shape[2:]], dtype=x.dtype)
    if node.get("count_include_pad", 0):
        inside = padded(ones, before, after, 1)
        more = [end - own for end, own in zip(last, after, strict=True)]
        return total / _sums(inside, kernel, strides, dilations, [0] * len(kernel), more)
    return total / _sums(ones, kernel, strides, dilations, before, last)


def _sums(x: Tensor, kernel: Sizes, strides: Sizes, dilations: Sizes, before: Sizes, after: Sizes) -> Tensor:
    """Add what each window holds."""
    wide = padded(x, before, after)
    weight = torch.ones([1, 1, *kernel], dtype=x.dtype)
    planes = wide.reshape(-1, 1, *wide.shape[2:])
    summed = _CONVS[len(kernel)](planes, weight, None, strides, 0, dilations)
    return summed.reshape(*x.shape[:2], *summed.shape[2:])


@op("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(node: Node, x: Tensor) -> Tensor:
    axes = list(range(2, x.ndim))
    if node.kind == "GlobalAveragePool":
        return x.mean(axes, keepdim=True)
    if node.kind == "GlobalMaxPool":
        return torch.amax(x, axes, keepdim=True)
    p = node.get("p", 2)
    return torch.pow(torch.sum(torch.pow(torch.abs(x), p), axes, keepdim=True), 1 / p)


@raw("MaxUnpool")
def _max_unpool(node: Node, x: Any, indices: Any, shape: Any = None) -> Tensor:
    from vitrify.transforms.replay._torch_values import ints

    x, places = tensor(x), tensor(indices)
    kernel = list(node.get("kernel_shape"))
    strides, _, before, after = _window(node, kernel, x)
    own = [
        (size - 1) * stride + span - low - high
        for size, stride, span, low, high in zip(x.shape[2:], strides, kernel, before, after, strict=True)
    ]
    inner = [*x.shape[:2], *own]
    flat = torch.zeros(math.prod(inner), dtype=x.dtype).scatter(0, places.reshape(-1), x.reshape(-1))
    answer = flat.reshape(inner)
    if shape is None:
        return answer
    wanted = ints(shape)[2:]
    return padded(answer, [0] * len(own), [want - size for want, size in zip(wanted, own, strict=True)])


@op("GridSample")
def _grid_sample(node: Node, x: Tensor, grid: Tensor) -> Tensor:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(name := node.get("mode", "linear"), name)
    corners = bool(node.get("align_corners", 0))
    return functional.grid_sample(x, grid, mode, node.get("padding_mode", "zeros"), corners)


@raw("Col2Im")
def _col2im(node: Node, x: Any, image: Any, block: Any) -> Tensor:
    from vitrify.transforms.replay._torch_values import ints

    size, kernel = ints(image), ints(block)
    rank = len(size)
    pads = node.get("pads") or [0] * (2 * rank)
    if rank != 2 or pads[:rank] != pads[rank:]:  # noqa: PLR2004 (images)
        msg = "Col2Im for other than images that are padded alike on both sides"
        raise UnsupportedModelError(msg, remedy="use a transposed convolution")
    strides, dilations = (list(node.get(name) or [1] * rank) for name in ("strides", "dilations"))
    return functional.fold(tensor(x), size, kernel, dilations, pads[:rank], strides)
