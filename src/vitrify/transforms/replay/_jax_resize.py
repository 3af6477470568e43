"""Resize: each axis is a matrix that says which neighbours an output element is made of.

Source: https://onnx.ai/onnx/operators/onnx__Resize.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.replay._jax_values import constant, raw, tensor

if TYPE_CHECKING:
    from vitrify.transforms.replay.walk import Node

    Array = np.ndarray[Any, Any]


@raw("Resize")
def _resize(node: Node, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    x = tensor(x)
    if node.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        msg = "Resize of a region (tf_crop_and_resize)"
        raise UnsupportedModelError(msg, remedy="crop before the model")
    del roi
    axes = [axis + x.ndim if axis < 0 else axis for axis in node.get("axes") or range(x.ndim)]
    factors, lengths = _targets(node, x, axes, scales, sizes)
    for axis, factor, length in zip(axes, factors, lengths, strict=True):
        size = x.shape[axis]
        if length is None or (isinstance(size, int) and length == size and factor == 1):
            continue
        if not isinstance(size, int):
            msg = "Resize of a size that may change"
            raise UnsupportedModelError(msg, remedy="fix the size of images")
        table = _table(node, size, length, factor)
        x = jnp.moveaxis(jnp.moveaxis(x, axis, -1) @ jnp.asarray(table.T, _type(x)), -1, axis).astype(x.dtype)
    return x


def _type(x: Any) -> Any:
    return x.dtype if x.dtype.kind == "f" else jnp.float32


def _targets(node: Node, x: Any, axes: list[int], scales: Any, sizes: Any) -> tuple[list[float], list[int | None]]:
    if scales is not None and np.size(scales):
        factors = [float(factor) for factor in constant(scales)]
        lengths = [
            None
            if factor == 1
            else int(np.floor(np.float32(x.shape[axis]) * np.float32(factor)))
            if isinstance(x.shape[axis], int)
            else -1
            for axis, factor in zip(axes, factors, strict=True)
        ]
        return factors, lengths
    wanted = sizes.values.tolist() if hasattr(sizes, "values") else [int(size) for size in constant(sizes)]
    given = [x.shape[axis] for axis in axes]
    same = [str(one) == str(other) for one, other in zip(wanted, given, strict=True)]
    factors = [1.0 if equal else one / other for one, other, equal in zip(wanted, given, same, strict=True)]
    policy = node.get("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        factor = min(factors) if policy == "not_larger" else max(factors)
        factors = [factor] * len(factors)
        wanted = [int(np.floor(factor * size + 0.5)) for size in given]
        same = [one == other for one, other in zip(wanted, given, strict=True)]
    return factors, [None if equal else one for one, equal in zip(wanted, same, strict=True)]


def _table(node: Node, size: int, length: int, factor: float) -> Array:
    """Return (outputs, inputs): how much of each input there is in an output."""
    places = _places(node, size, length, factor)
    mode = node.get("mode", "nearest")
    table = np.zeros((length, size))
    if mode == "nearest":
        table[np.arange(length), np.clip(_nearest(node, places), 0, size - 1)] = 1
        return table
    antialias = bool(node.get("antialias", 0)) and factor < 1
    width = 1.0 if mode == "linear" else 2.0
    wide = width / factor if antialias else width
    for row, place in enumerate(places):
        first, last = int(np.floor(place - wide)) + 1, int(np.ceil(place + wide)) - 1
        if first > last:
            first = last = round(place)
        near = np.arange(first, last + 1)
        away = (near - place) * (factor if antialias else 1)
        shares = np.maximum(1 - np.abs(away), 0) if mode == "linear" else _cubic(away, node.get("cubic_coeff_a", -0.75))
        if node.get("exclude_outside", 0):
            shares = np.where((near < 0) | (near >= size), 0, shares)
        if node.get("exclude_outside", 0) or antialias:
            shares = shares / shares.sum()
        np.add.at(table[row], np.clip(near, 0, size - 1), shares)
    return table


def _places(node: Node, size: int, length: int, factor: float) -> Array:
    at = np.arange(length, dtype=np.float64)
    match node.get("coordinate_transformation_mode", "half_pixel"):
        case "asymmetric":
            return at / factor
        case "align_corners":
            return at * 0 if length == 1 else at * (size - 1) / (length - 1)
        case "pytorch_half_pixel":
            return (at + 0.5) / factor - 0.5 if length > 1 else at * 0
        case "half_pixel_symmetric":
            adjustment = length / (factor * size)
            return size / 2 * (1 - adjustment) + (at + 0.5) / factor - 0.5
    return (at + 0.5) / factor - 0.5


def _nearest(node: Node, places: Array) -> Array:
    match node.get("nearest_mode", "round_prefer_floor"):
        case "floor":
            near = np.floor(places)
        case "ceil":
            near = np.ceil(places)
        case "round_prefer_ceil":
            near = np.floor(places + 0.5)
        case _:
            near = np.ceil(places - 0.5)
    return near.astype(int)


def _cubic(away: Array, a: float) -> Array:
    size = np.abs(away)
    near = ((a + 2) * size - (a + 3)) * size * size + 1
    far = ((a * size - 5 * a) * size + 8 * a) * size - 4 * a
    return np.where(size <= 1, near, np.where(size < 2, far, 0))  # noqa: PLR2004 (the kernel's reach)
