"""Operators of quantised models: to whole numbers and back, and products of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from vitrify.transforms.replay._sizes import axis_of
from vitrify.transforms.replay._torch_image import _conv
from vitrify.transforms.replay._torch_register import op
from vitrify.transforms.replay._torch_values import dtype_of

if TYPE_CHECKING:
    from torch import Tensor

    from vitrify.transforms.replay.walk import Node


def _spread(value: Tensor, like: Tensor, axis: int, block: int) -> Tensor:
    """Return a scale or zero point in a shape that fits the tensor: one for all, one a channel, or one a block."""
    if value.ndim == 0 or value.numel() == 1:
        return value.reshape(())
    axis = axis_of(axis, like.ndim)
    if value.ndim == 1:
        return value.reshape([-1 if one == axis else 1 for one in range(like.ndim)])
    return value.repeat_interleave(block, axis).narrow(axis, 0, like.shape[axis])


@op("DequantizeLinear")
def _dequantize(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    axis, block = node.get("axis", 1), node.get("block_size", 0)
    factor = _spread(scale, x, axis, block)
    values = x.to(torch.int32)
    if zero is not None:
        values = values - _spread(zero, x, axis, block).to(torch.int32)
    kind = dtype_of(node.get("output_dtype")) if node.get("output_dtype") else scale.dtype
    return (values.to(scale.dtype) * factor).to(kind)


@op("QuantizeLinear")
def _quantize(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    axis, block = node.get("axis", 1), node.get("block_size", 0)
    kind = zero.dtype if zero is not None else dtype_of(node.get("output_dtype") or 2)
    offset = torch.zeros((), dtype=torch.int32) if zero is None else _spread(zero, x, axis, block).to(torch.int32)
    values = x if x.is_floating_point() else x.to(scale.dtype)
    return quantized(torch.round(values / _spread(scale, x, axis, block)), offset, kind)


def quantized(rounded: Tensor, zero: Tensor, kind: torch.dtype) -> Tensor:
    """Return rounded numbers, moved by the zero point and cut to the type's ends."""
    info = torch.iinfo(kind)
    moved = rounded.double() + zero.double()
    return moved.clamp(info.min, info.max).to(torch.int32).to(kind)


@op("DynamicQuantizeLinear")
def _dynamic_quantize(_: Node, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    high, low = (torch.maximum(x.max(), torch.zeros(())), torch.minimum(x.min(), torch.zeros(())))
    scale = (high - low) / 255
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    zero = torch.round(torch.clamp(0 - low / scale, 0, 255)).to(torch.uint8)
    return quantized(torch.round(x / scale), zero, torch.uint8), scale, zero


def _minus(x: Tensor, zero: Tensor | None, *, per_row: bool = False) -> Tensor:
    values = x.to(torch.int32)
    if zero is None:
        return values
    offset = zero.to(torch.int32)
    if offset.ndim == 1 and offset.numel() > 1 and per_row:
        offset = offset.reshape(-1, 1)
    return values - (offset.reshape(()) if offset.numel() == 1 else offset)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Multiply matrices of whole numbers exactly: every sum of them fits a double."""
    return torch.matmul(a.double(), b.double())


@op("MatMulInteger")
def _matmul_integer(
    _: Node, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    return _product(_minus(a, a_zero, per_row=True), _minus(b, b_zero)).to(torch.int32)


@op("QLinearMatMul")
def _qlinear_matmul(
    _: Node,
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
) -> Tensor:
    product = _product(_minus(a, a_zero, per_row=True), _minus(b, b_zero))
    factor = a_scale.float() * b_scale.float() / scale.float()
    return quantized(torch.round(product.float() * factor), zero, zero.dtype)


@op("ConvInteger")
def _conv_integer(
    node: Node, x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None
) -> Tensor:
    offset = None if w_zero is None else w_zero.reshape([-1, *[1] * (w.ndim - 1)]) if w_zero.numel() > 1 else w_zero
    weight = w.to(torch.int32) - (0 if offset is None else offset.to(torch.int32))
    return _conv(node, _minus(x, x_zero).double(), weight.double()).to(torch.int32)


@op("QLinearConv")
def _qlinear_conv(node: Node, x: Tensor, x_scale: Tensor, x_zero: Tensor, *rest: Any) -> Tensor:
    w, w_scale, w_zero, scale, zero, *bias = rest
    view = [-1, *[1] * (w.ndim - 1)]
    weight = w.to(torch.int32) - (w_zero.reshape(view) if w_zero.numel() > 1 else w_zero).to(torch.int32)
    total = _conv(node, _minus(x, x_zero).double(), weight.double(), bias[0].double() if bias else None)
    factor = x_scale.float() * w_scale.float() / scale.float()
    if factor.numel() > 1:
        factor = factor.reshape([1, -1, *[1] * (w.ndim - 2)])
    return quantized(torch.round(total.float() * factor), zero, zero.dtype)
