"""Resizing, on TensorFlow: along each axis a table of which elements make up a new one, and with what weights.

Source: https://onnx.ai/onnx/operators/onnx__Resize.html
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.formats._tensorflow.loaded import tf
from vitrify.transforms.replay._tensorflow_base import Array, axis_of, known, op, rank, refuse, required, tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.transforms.replay.walk import Node

_NEAREST: dict[str, Callable[[float], int]] = {
    "round_prefer_floor": lambda x: math.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: math.floor(x + 0.5),
    "floor": math.floor,
    "ceil": math.ceil,
}


@op("Resize")
def resize(node: Node, x: Any, roi: Any = None, scales: Any = None, lengths: Any = None) -> Any:
    x = tensor(x)
    kind = x.dtype
    axes = [axis_of(node, x, axis) for axis in node.get("axes", range(rank(node, x)))]
    old = [x.shape[axis] for axis in axes]
    new, factors = _sizes(node, old, scales, lengths)
    crop = (
        required(node, roi, "the region")
        if node.get("coordinate_transformation_mode") == "tf_crop_and_resize"
        else None
    )
    outside = None
    for position, axis in enumerate(axes):
        if factors[position] == 1 and crop is None:
            continue
        length = old[position]
        if length is None:
            refuse(node, "the size that it changes depends on the data")
        ends = None if crop is None else (float(crop[position]), float(crop[position + len(axes)]))
        places = [_place(node, at, length, new[position], factors[position], ends) for at in range(new[position])]
        x = _along(node, x, axis, places, factors[position])
        if crop is not None:
            out = np.array([place < 0 or place > length - 1 for place in places])
            shaped = out.reshape([-1 if at == axis else 1 for at in range(rank(node, x))])
            outside = shaped if outside is None else outside | shaped
    if outside is not None and outside.any():
        x = tf.where(tf.constant(outside), tf.constant(node.get("extrapolation_value", 0.0), x.dtype), x)
    return x if x.dtype == kind else tf.cast(tf.round(x), kind)


def _sizes(node: Node, old: list[Any], scales: Any, lengths: Any) -> tuple[list[Any], list[float]]:
    """Return the new sizes and the factors; the size of an axis that stays as it is may be unknown."""
    given = known(lengths)
    if lengths is None or (given is not None and not given.size):
        factors = [float(factor) for factor in required(node, scales, "the scale")]
        return [
            size if factor == 1 else math.floor(size * factor) if size else None
            for size, factor in zip(old, factors, strict=True)
        ], factors
    new = _lengths(node, lengths)
    # What is known of neither side is a size that goes on as it is, such as the batch.
    if any((before is None) != (after is None) for before, after in zip(old, new, strict=True)):
        refuse(node, "the size that it changes depends on the data")
    factors = [after / before if before else 1.0 for before, after in zip(old, new, strict=True)]
    policy = node.get("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        if None in old:
            refuse(node, "the size that it changes depends on the data")
        factor = min(factors) if policy == "not_larger" else max(factors)
        factors = [factor] * len(factors)
        new = [math.floor(factor * size + 0.5) for size in old]
    return new, factors


def _lengths(node: Node, lengths: Any) -> list[Any]:
    """Return the sizes that are asked for, None for one that is not known now."""
    found = known(lengths)
    if found is None:
        found = tf.get_static_value(lengths, partial=True)
    if found is None:
        refuse(node, "the size depends on the data")
    return [None if size is None else int(size) for size in found]


def _place(node: Node, at: int, old: int, new: int, factor: float, ends: tuple[float, float] | None) -> float:
    """Return where in the old axis an element of the new one lies."""
    how = node.get("coordinate_transformation_mode", "half_pixel")
    exact = old * factor
    match how:
        case "align_corners":
            return 0.0 if new == 1 else at * (old - 1) / (exact - 1 if math.floor(exact) == new else new - 1)
        case "asymmetric":
            return at / factor
        case "pytorch_half_pixel":
            return (at + 0.5) / factor - 0.5 if new > 1 else -0.5
        case "half_pixel_symmetric":
            adjustment = new / exact
            return old / 2 * (1 - adjustment) + (at + 0.5) / factor - 0.5
        case "tf_crop_and_resize" if ends is not None:
            start, end = ends
            if new == 1:
                return 0.5 * (start + end) * (old - 1)
            return start * (old - 1) + at * (end - start) * (old - 1) / (new - 1)
    return (at + 0.5) / factor - 0.5


def _along(node: Node, x: Any, axis: int, places: list[float], factor: float) -> Any:
    length, mode = int(x.shape[axis]), node.get("mode", "nearest")
    if mode == "nearest":
        nearest = _NEAREST[node.get("nearest_mode", "round_prefer_floor")]
        chosen = [min(max(nearest(place), 0), length - 1) for place in places]
        return tf.gather(x, tf.constant(chosen, tf.int32), axis=axis)
    weights = np.zeros((len(places), length))
    for row, place in enumerate(places):
        first, parts = _weights(node, place, factor if node.get("antialias", 0) else 1.0)
        where = np.arange(first, first + len(parts))
        if node.get("exclude_outside", 0):
            parts = np.where((where < 0) | (where >= length), 0, parts)
            parts = parts / parts.sum()
        np.add.at(weights[row], np.clip(where, 0, length - 1), parts)
    wide = x if x.dtype.is_floating else tf.cast(x, tf.float32)
    matrix = tf.constant(weights, wide.dtype)
    last = rank(node, x) - 1
    order = [*(other for other in range(last + 1) if other != axis), axis]
    found = tf.matmul(tf.transpose(wide, order), matrix, transpose_b=True)
    return tf.transpose(found, list(np.argsort(order)))


def _weights(node: Node, place: float, factor: float) -> tuple[int, Array]:
    """Return the first element that counts, and the weights from there on."""
    base, shrink = math.floor(place), min(factor, 1.0)
    ratio = place - base
    reach = 1 if node.get("mode") == "linear" else 2
    first = math.floor(-reach / shrink) + 1
    distance = np.abs(np.arange(first, 2 - first if shrink < 1 else reach + 1) - ratio) * shrink
    if reach == 1:
        parts = np.clip(1 - distance, 0, 1)
    else:
        a = node.get("cubic_coeff_a", -0.75)
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        parts = np.where(distance <= 1, near, np.where(distance < 2, far, 0))  # noqa: PLR2004 (the kernel's reach)
    return base + first, parts / parts.sum()
