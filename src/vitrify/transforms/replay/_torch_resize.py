"""Resize: each axis on its own, by the coordinates of the source that ONNX defines.

Source: Resize-19, https://onnx.ai/onnx/operators/onnx__Resize.html
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vitrify.transforms.replay._sizes import axis_of
from vitrify.transforms.replay._torch_register import raw
from vitrify.transforms.replay._torch_values import floats, ints, tensor

if TYPE_CHECKING:
    from torch import Tensor

    from vitrify.transforms.replay.walk import Node


@dataclass(frozen=True)
class _Axis:
    """One axis to resize: its place, size before and after, scale, and the part of it that is looked at."""

    place: int
    before: Any
    after: Any
    scale: Any
    start: float
    end: float


@raw("Upsample")
def _upsample(node: Node, x: Any, scales: Any) -> Tensor:
    x, factors = tensor(x), floats(scales)
    axes = [
        _Axis(axis, x.shape[axis], math.floor(x.shape[axis] * factor), factor, 0.0, 1.0)
        for axis, factor in enumerate(factors)
        if factor != 1
    ]
    return _resized(node, x, axes, way="asymmetric", rounding="floor")


@raw("Resize")
def _resize(node: Node, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Tensor:
    x = tensor(x)
    places = [axis_of(axis, x.ndim) for axis in node.get("axes") or range(x.ndim)]
    spans = _spans(roi, len(places), node)
    axes = []
    if sizes is not None and _given(sizes):
        wanted = ints(sizes)
        factors = [want / x.shape[place] for want, place in zip(wanted, places, strict=True)]
        policy = node.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            factor = (min if policy == "not_larger" else max)(factors)
            factors = [factor] * len(places)
            wanted = [math.floor(factor * x.shape[place] + 0.5) for place in places]
    else:
        factors = floats(scales)
        wanted = [
            x.shape[place] if factor == 1 else _scaled(x.shape[place], factor, end - start)
            for place, factor, (start, end) in zip(places, factors, spans, strict=True)
        ]
    for place, factor, want, (start, end) in zip(places, factors, wanted, spans, strict=True):
        same = isinstance(factor, float) and factor == 1 and (start, end) == (0.0, 1.0)
        if not same and want is not x.shape[place]:
            axes.append(_Axis(place, x.shape[place], want, factor, start, end))
    way, rounding = node.get("coordinate_transformation_mode", "half_pixel"), node.get("nearest_mode")
    return _resized(node, x, axes, way=way, rounding=rounding or "round_prefer_floor")


def _given(value: Any) -> bool:
    return not isinstance(value, np.ndarray) or value.size > 0


def _scaled(size: Any, factor: float, span: float) -> Any:
    if isinstance(size, int):
        return math.floor(size * span * factor)
    return size * int(factor) if factor == int(factor) else torch.sym_int(size * factor)


def _spans(roi: Any, count: int, node: Node) -> list[tuple[float, float]]:
    if node.get("coordinate_transformation_mode") != "tf_crop_and_resize" or roi is None:
        return [(0.0, 1.0)] * count
    numbers = floats(roi)
    return list(zip(numbers[:count], numbers[count:], strict=True))


def _resized(node: Node, x: Tensor, axes: list[_Axis], *, way: str, rounding: str) -> Tensor:
    mode = node.get("mode", "nearest")
    kind = x.dtype
    work = x if mode == "nearest" or x.is_floating_point() else x.double()
    outside = None
    for axis in axes:
        where = _coordinates(axis, way, work.dtype if work.is_floating_point() else torch.float32)
        if way == "tf_crop_and_resize":
            beyond = (where < 0) | (where > axis.before - 1)
            beyond = beyond.reshape([-1 if one == axis.place else 1 for one in range(x.ndim)])
            outside = beyond if outside is None else outside | beyond
        if mode == "nearest":
            work = work.index_select(axis.place, _nearest(where, rounding).clamp(0, axis.before - 1))
        else:
            work = _mixed(work, axis, where, node)
    if outside is not None:
        work = torch.where(outside, torch.full_like(work, node.get("extrapolation_value", 0.0)), work)
    if not kind.is_floating_point and work.is_floating_point():
        info = torch.iinfo(kind)
        return torch.round(work).clamp(info.min, info.max).to(kind)
    return work.to(kind)


def _coordinates(axis: _Axis, way: str, dtype: torch.dtype) -> Tensor:
    """Return where each place of the result lies in the source."""
    places = torch.arange(axis.after, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
    before, after, scale = axis.before, axis.after, axis.scale
    if way == "half_pixel_symmetric":
        whole = before * scale
        shift = before / 2 * (1 - after / whole)
        return shift + (places + 0.5) / scale - 0.5
    if way == "asymmetric":
        return places / scale
    if way == "align_corners":
        return places * ((before - 1) / (after - 1)) if _more_than_one(after) else places * 0
    if way == "pytorch_half_pixel":
        return (places + 0.5) / scale - 0.5 if _more_than_one(after) else places * 0
    if way == "tf_crop_and_resize":
        start, end = axis.start * (before - 1), axis.end * (before - 1)
        if _more_than_one(after):
            return start + places * ((end - start) / (after - 1))
        return places * 0 + 0.5 * (start + end)
    return (places + 0.5) / scale - 0.5


def _more_than_one(size: Any) -> bool:
    return not isinstance(size, int) or size > 1


def _nearest(where: Tensor, rounding: str) -> Tensor:
    match rounding:
        case "floor":
            whole = torch.floor(where)
        case "ceil":
            whole = torch.ceil(where)
        case "round_prefer_ceil":
            whole = torch.floor(where + 0.5)
        case _:
            whole = torch.ceil(where - 0.5)
    return whole.to(torch.int64)


def _mixed(x: Tensor, axis: _Axis, where: Tensor, node: Node) -> Tensor:
    """Mix the neighbours of each place by their weights."""
    cubic = node.get("mode") == "cubic"
    a = node.get("cubic_coeff_a", -0.75)
    narrow = min(axis.scale, 1.0) if node.get("antialias", 0) and isinstance(axis.scale, float) else 1.0
    reach = (2 if cubic else 1) / narrow
    first = torch.floor(where).to(torch.int64) if narrow == 1 else torch.floor(where - reach).to(torch.int64) + 1
    count = 4 if cubic else 2
    low = -1 if cubic else 0
    if narrow != 1:
        count, low = math.ceil(2 * reach), 0
    exclude = bool(node.get("exclude_outside", 0))
    weights, parts = [], []
    for step in range(low, low + count):
        place = first + step
        distance = torch.abs((place - where) * narrow)
        weight = _cubic(distance, a) if cubic else torch.clamp(1 - distance, min=0)
        inside = (place >= 0) & (place < axis.before)
        weights.append(torch.where(inside, weight, torch.zeros_like(weight)) if exclude else weight)
        parts.append(place.clamp(0, axis.before - 1))
    total = sum(weights) if exclude or narrow != 1 else None
    view = [-1 if one == axis.place else 1 for one in range(x.ndim)]
    answer: Any = 0
    for weight, place in zip(weights, parts, strict=True):
        share = (weight if total is None else weight / total).to(x.dtype).reshape(view)
        answer = answer + x.index_select(axis.place, place) * share
    mixed: Tensor = answer
    return mixed


def _cubic(d: Tensor, a: float) -> Tensor:
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return torch.where(d <= 1, near, torch.where(d < 2, far, torch.zeros_like(d)))  # noqa: PLR2004 (the kernel's ends)
