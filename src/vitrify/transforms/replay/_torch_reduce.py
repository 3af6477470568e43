"""Operators over whole axes: sums, extremes, sorting, normalisation, products of matrices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from vitrify.transforms.replay._sizes import axis_of
from vitrify.transforms.replay._torch_elementwise import cast, widened
from vitrify.transforms.replay._torch_register import op, raw
from vitrify.transforms.replay._torch_values import ints, tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from vitrify.transforms.replay.walk import Node


def _product(x: Tensor, axes: list[int], keep: bool) -> Tensor:  # noqa: FBT001 (a reducer's)
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, axis, keepdim=keep, dtype=x.dtype)
    return x


def _extreme(function: Callable[..., Tensor], least: float) -> Callable[[Tensor, list[int], bool], Tensor]:
    def reduce(x: Tensor, axes: list[int], keep: bool) -> Tensor:  # noqa: FBT001 (a reducer's)
        if x.dtype == torch.bool:
            return reduce(x.to(torch.uint8), axes, keep).to(torch.bool)
        if any(isinstance(x.shape[axis], int) and x.shape[axis] == 0 for axis in axes):
            info = torch.finfo(x.dtype) if x.is_floating_point() else torch.iinfo(x.dtype)
            filler = math.copysign(math.inf, least) if x.is_floating_point() else info.min if least < 0 else info.max
            return torch.sum(x, axes, keepdim=keep, dtype=x.dtype) + filler
        return function(x, axes, keepdim=keep)

    return reduce


_REDUCERS: dict[str, Callable[[Tensor, list[int], bool], Tensor]] = {
    "ReduceSum": lambda x, axes, keep: torch.sum(x, axes, keepdim=keep, dtype=x.dtype),
    "ReduceMean": lambda x, axes, keep: (
        torch.mean(x, axes, keepdim=keep)
        if x.is_floating_point()
        else cast(torch.mean(x.double(), axes, keepdim=keep), x.dtype)
    ),
    "ReduceMax": _extreme(torch.amax, -1),
    "ReduceMin": _extreme(torch.amin, 1),
    "ReduceProd": _product,
    "ReduceL1": lambda x, axes, keep: torch.sum(torch.abs(x), axes, keepdim=keep, dtype=x.dtype),
    "ReduceL2": lambda x, axes, keep: torch.sqrt(torch.sum(x * x, axes, keepdim=keep)).to(x.dtype),
    "ReduceLogSum": lambda x, axes, keep: torch.log(torch.sum(x, axes, keepdim=keep)),
    "ReduceLogSumExp": lambda x, axes, keep: torch.logsumexp(x, axes, keepdim=keep),
    "ReduceSumSquare": lambda x, axes, keep: torch.sum(x * x, axes, keepdim=keep, dtype=x.dtype),
}


@raw(*(kind for kind in _REDUCERS))
def _reduce(node: Node, x: Any, axes: Any = None) -> Any:
    from vitrify.transforms.replay._sizes import Sizes
    from vitrify.transforms.replay._torch_sizes import computed

    if isinstance(x, Sizes) and (answer := computed(node, (x, axes))) is not None:
        return answer
    x = tensor(x)
    chosen = [] if axes is None else [axis_of(axis, x.ndim) for axis in ints(axes)]
    if not chosen:
        if node.get("noop_with_empty_axes", 0):
            return _REDUCERS[node.kind](x.unsqueeze(0), [0], False)  # noqa: FBT003 (a reducer's)
        chosen = list(range(x.ndim))
    if not chosen:  # a scalar
        return _REDUCERS[node.kind](x.reshape(1), [0], False)  # noqa: FBT003 (a reducer's)
    return _REDUCERS[node.kind](x, chosen, bool(node.get("keepdims", 1)))


@op("ArgMax", "ArgMin")
def _arg(node: Node, x: Tensor) -> Tensor:
    """Return the place of the first extreme; a NaN is none, unless it comes first."""
    axis = axis_of(node.get("axis", 0), x.ndim)
    most = node.kind == "ArgMax"
    last = bool(node.get("select_last_index", 0))
    numbers = widened(x)[0]
    if x.is_floating_point():
        numbers = torch.where(torch.isnan(x), torch.full_like(x, -math.inf if most else math.inf), x)
    numbers = numbers.flip(axis) if last else numbers
    found = (torch.argmax if most else torch.argmin)(numbers, axis, keepdim=True)
    if last:
        found = x.shape[axis] - 1 - found
    if x.is_floating_point():
        found = torch.where(torch.isnan(x.narrow(axis, 0, 1)), torch.zeros_like(found), found)
    return found if node.get("keepdims", 1) else found.squeeze(axis)


@raw("TopK")
def _top_k(node: Node, x: Any, k: Any) -> tuple[Tensor, Tensor]:
    """Take the first of a stable sort: of equal values, that with the lower place; NaN is the largest."""
    x, axis = tensor(x), node.get("axis", -1)
    values, places = torch.sort(widened(x)[0], dim=axis, descending=bool(node.get("largest", 1)), stable=True)
    count = ints(k)[0]
    return values.narrow(axis, 0, count).to(x.dtype), places.narrow(axis, 0, count)


@raw("CumSum", "CumProd")
def _cumulate(node: Node, x: Any, axis: Any) -> Tensor:
    x, along = tensor(x), axis_of(ints(axis)[0], tensor(x).ndim)
    function, start = (torch.cumsum, 0) if node.kind == "CumSum" else (torch.cumprod, 1)
    if node.get("reverse", 0):
        x = x.flip(along)
    total = function(x, along, dtype=x.dtype)
    if node.get("exclusive", 0):
        first = torch.full_like(total.narrow(along, 0, 1), start)
        total = torch.cat([first, total.narrow(along, 0, total.shape[along] - 1)], along)
    return total.flip(along) if node.get("reverse", 0) else total


@op("MatMul")
def _matmul(_: Node, left: Tensor, right: Tensor) -> Tensor:
    return torch.matmul(*widened(left, right)).to(left.dtype)


@op("Gemm")
def _gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    left, right = (a.t() if node.get("transA", 0) else a), (b.t() if node.get("transB", 0) else b)
    product = torch.matmul(left, right)
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    if alpha != 1:
        product = (product * alpha).to(a.dtype)
    if c is None or beta == 0:
        return product
    return product + (c if beta == 1 else (c * beta).to(a.dtype))


@op("Einsum")
def _einsum(node: Node, *values: Tensor) -> Tensor:
    equation = node.get("equation")
    if "->" not in equation and "..." in equation:
        letters = [letter for letter in sorted(set(equation)) if letter.isalpha() and equation.count(letter) == 1]
        equation = f"{equation}->...{''.join(letters)}"
    return torch.einsum(equation.replace(" ", ""), *values)


@op("Det")
def _det(_: Node, x: Tensor) -> Tensor:
    return torch.linalg.det(x)


@op("Softmax", "LogSoftmax")
def _softmax(node: Node, x: Tensor) -> Tensor:
    function = torch.softmax if node.kind == "Softmax" else torch.log_softmax
    return function(x, node.get("axis", -1))


@op("Hardmax")
def _hardmax(node: Node, x: Tensor) -> Tensor:
    axis = axis_of(node.get("axis", -1), x.ndim)
    line = torch.arange(x.shape[axis]).reshape([-1 if one == axis else 1 for one in range(x.ndim)])
    return (torch.argmax(x, axis, keepdim=True) == line).to(x.dtype)


@op("LpNormalization")
def _lp_normalization(node: Node, x: Tensor) -> Tensor:
    axis, p = node.get("axis", -1), node.get("p", 2)
    size = torch.sum(torch.abs(x), axis, keepdim=True) if p == 1 else torch.sqrt(torch.sum(x * x, axis, keepdim=True))
    return torch.where(size == 0, torch.zeros_like(x), x / size)


@op("BatchNormalization")
def _batch_normalization(node: Node, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor) -> Any:
    epsilon = node.get("epsilon", 1e-5)
    if not node.get("training_mode", 0):
        mean, var, scale, bias = (part.to(x.dtype) for part in (mean, var, scale, bias))
        return functional.batch_norm(x, mean, var, scale, bias, eps=epsilon)
    axes = [axis for axis in range(x.ndim) if axis != 1]
    momentum = node.get("momentum", 0.9)
    here, spread = x.mean(axes), x.var(axes, unbiased=False)
    view = [1, -1, *[1] * (x.ndim - 2)]
    answer = (x - here.reshape(view)) / torch.sqrt(spread.reshape(view) + epsilon)
    answer = answer * scale.reshape(view) + bias.reshape(view)
    return answer, mean * momentum + here * (1 - momentum), var * momentum + spread * (1 - momentum)


@op("InstanceNormalization")
def _instance_normalization(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    axes = list(range(2, x.ndim))
    view = [1, -1, *[1] * (x.ndim - 2)]
    centred = x - x.mean(axes, keepdim=True)
    spread = (centred * centred).mean(axes, keepdim=True)
    return centred / torch.sqrt(spread + node.get("epsilon", 1e-5)) * scale.reshape(view) + bias.reshape(view)


@op("LayerNormalization")
def _layer_normalization(node: Node, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Any:
    axis = axis_of(node.get("axis", -1), x.ndim)
    axes, epsilon = list(range(axis, x.ndim)), node.get("epsilon", 1e-5)
    if len(node.outputs) == 1 and all(isinstance(size, int) for size in x.shape[axis:]):
        shape = list(x.shape[axis:])
        if scale.shape == x.shape[axis:]:
            return functional.layer_norm(x, shape, scale, bias, epsilon)
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    inverse = torch.rsqrt((centred * centred).mean(axes, keepdim=True) + epsilon)
    answer = centred * inverse * scale
    return (answer if bias is None else answer + bias), mean, inverse


@op("GroupNormalization")
def _group_normalization(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return functional.group_norm(x, node.get("num_groups"), scale, bias, node.get("epsilon", 1e-5))


@op("LRN")
def _lrn(node: Node, x: Tensor) -> Tensor:
    size = node.get("size")
    before = (size - 1) // 2
    squares = functional.pad((x * x).flatten(2).unsqueeze(1), (0, 0, before, size - 1 - before))
    total = functional.avg_pool2d(squares, (size, 1), 1) * size
    total = total.squeeze(1).reshape(x.shape)
    return x / torch.pow(node.get("bias", 1.0) + node.get("alpha", 1e-4) / size * total, node.get("beta", 0.75))


@raw("Dropout")
def _dropout(node: Node, x: Any, ratio: Any = None, training: Any = None) -> Any:
    from vitrify.core.errors import UnsupportedModelError

    if training is not None and any(ints(training)) and (ratio is None or tensor(ratio).item() > 0):
        msg = "Dropout in training mode answers by chance"
        raise UnsupportedModelError(msg, remedy="export the model in eval mode")
    x = tensor(x)
    return x, torch.ones_like(x, dtype=torch.bool)


@op("BitShift")
def _bit_shift(node: Node, x: Tensor, amount: Tensor) -> Tensor:
    wide, by = widened(x, amount)
    if node.get("direction") == "LEFT":
        return torch.bitwise_left_shift(wide, by).to(x.dtype)
    shifted = torch.bitwise_right_shift(wide, by)
    if x.dtype == torch.uint64:  # the sign comes in from the left
        mask = torch.bitwise_left_shift(torch.full_like(wide, -1), 64 - by)
        shifted = torch.where(by == 0, wide, torch.bitwise_and(shifted, torch.bitwise_not(mask)))
    return shifted.to(x.dtype)


@raw("RandomNormalLike", "RandomUniformLike", "RandomNormal", "RandomUniform", "Bernoulli", "Multinomial")
def _random(node: Node, *_: Any) -> Any:
    from vitrify.core.errors import UnsupportedModelError

    msg = f"{node.kind} answers by chance, so that no copy could be proven"
    raise UnsupportedModelError(msg, remedy="take the sampling out of the model")


@op("Binarizer", domain="ai.onnx.ml")
def _binarizer(node: Node, x: Tensor) -> Tensor:
    return (x > node.get("threshold", 0.0)).to(x.dtype)
