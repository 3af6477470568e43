"""Operators on the whole numbers of shapes, computed outside of the tensors so that they stay sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from onnx import TensorProto

from vitrify.transforms.replay._sizes import Sizes, is_constant

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.transforms.replay.walk import Node

    Array = np.ndarray[Any, Any]

_WHOLE = {TensorProto.INT64: np.dtype(np.int64), TensorProto.INT32: np.dtype(np.int32)}


def computed(node: Node, given: tuple[Any, ...]) -> Any:
    """Return what an operator gives for sizes and constants; None where only tensors can tell."""
    rule = _RULES.get(node.kind)
    if rule is None or not all(value is None or isinstance(value, Sizes) or is_constant(value) for value in given):
        return None
    arrays = [None if value is None else value.values if isinstance(value, Sizes) else value for value in given]
    if any(array is not None and np.asarray(array).dtype.kind == "f" for array in arrays):
        return None
    answer = rule(node, *arrays)
    if answer is None or (is_constant(answer) and answer.dtype == bool):
        return answer
    held = next(value.dtype for value in given if isinstance(value, Sizes))
    return Sizes.of(answer, _WHOLE[node.get("to")] if node.kind == "Cast" else held)


def _slice(node: Node, x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Any = None) -> Any:
    axes = np.arange(len(starts)) if axes is None else axes
    steps = np.ones(len(starts), int) if steps is None else steps
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if not all(isinstance(number, (int, np.integer)) for number in (start, end, step)):
            return None
        last = None if step < 0 and end < -x.shape[axis] else int(end)
        index[axis] = slice(int(start), last, int(step))
    return x[tuple(index)]


def _div(_: Node, left: Array, right: Array) -> Any:
    return np.floor_divide(left, right)  # sizes are not negative


def _equal(_: Node, left: Array, right: Array) -> Any:
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    pairs = np.broadcast(np.asarray(left, object), np.asarray(right, object))
    answers = []
    for one, other in pairs:
        if statically_known_true(one == other):
            answers.append(True)
        elif statically_known_true(one != other):
            answers.append(False)
        else:
            return None
    return np.array(answers, bool).reshape(pairs.shape)


def _where(_: Node, condition: Array, yes: Array, no: Array) -> Any:
    return np.where(condition, np.asarray(yes, object), np.asarray(no, object)) if condition.dtype == bool else None


def _fold(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def rule(_: Node, first: Array, *others: Array) -> Any:
        answer = np.asarray(first, object)
        for other in others:
            answer = np.frompyfunc(function, 2, 1)(answer, np.asarray(other, object))
        return answer

    return rule


def _reshape(_: Node, x: Array, shape: Array) -> Any:
    return x.reshape([int(size) for size in shape])


def _product(node: Node, x: Array, axes: Array | None = None) -> Any:
    if axes is not None and [int(axis) for axis in axes] not in ([0], [-1]):
        return None
    product: Any = 1
    for size in x.flat:
        product *= size
    return np.array([product] if node.get("keepdims", 1) else product, object)


_RULES: dict[str, Callable[..., Any]] = {
    "Identity": lambda _, x: x,
    "Cast": lambda node, x: x if node.get("to") in _WHOLE else None,
    "Gather": lambda node, x, indices: np.take(x, np.asarray(indices, np.int64), axis=node.get("axis", 0)),
    "Slice": _slice,
    "Concat": lambda _, *parts: np.concatenate([np.atleast_1d(np.asarray(part, object)) for part in parts]),
    "Unsqueeze": lambda _, x, axes: x.reshape([1] * (x.ndim + len(axes))) if x.size == 1 else None,
    "Squeeze": lambda _, x, axes=None: x.reshape(()) if x.size == 1 else None,
    "Add": lambda _, left, right: np.add(np.asarray(left, object), right),
    "Sub": lambda _, left, right: np.subtract(np.asarray(left, object), right),
    "Mul": lambda _, left, right: np.multiply(np.asarray(left, object), right),
    "Neg": lambda _, x: np.negative(x),
    "Div": _div,
    "Equal": _equal,
    "Where": _where,
    "Reshape": _reshape,
    "ReduceProd": _product,
    "Max": _fold(torch.sym_max),
    "Min": _fold(torch.sym_min),
}
