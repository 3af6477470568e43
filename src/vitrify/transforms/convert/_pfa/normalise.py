"""Operators that scale the elements of a group by what the group is: in double, but for what may overflow.

Source: https://onnx.ai/onnx/operators/onnx__Softmax.html, onnx__LayerNormalization.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._pfa.document import Expression, Row, array_of, inline, pfa_type
from vitrify.transforms.convert._pfa.elementwise import each, rounded
from vitrify.transforms.convert._pfa.groups import extreme, grouped
from vitrify.transforms.convert._pfa.rows import RowError, op

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.transforms.replay.walk import Node

_MIXES = "it compares values of several rows"


def _each_scaled(x: Row, axes: tuple[int, ...], steps: Callable[[Any], list[Expression]]) -> Row:
    """Return as many elements as there are: ``steps`` are expressions of a group, of which the last gives it anew."""
    groups, outer = grouped(x, axes)
    count, size = groups.shape
    arrays, document = array_of(x.dtype), x.document
    if count == 1:
        value: Expression = {"do": steps(groups.name)}
    else:
        body = inline({"g": arrays}, arrays, {"do": steps("g")})
        value = {"a.flatMap": [{"a.slidingWindow": [groups.name, size, size]}, body]}
    flat = document.let(value, x.dtype, (count * size,))
    inner = tuple(x.shape[axis] for axis in axes)
    kept = [axis for axis in range(len(x.shape)) if axis not in axes]
    order = np.arange(x.size).reshape(*outer, *inner).transpose(np.argsort([*kept, *axes]))
    return document.take(flat, order)


def _mapped(values: Any, x: Row, body: Expression) -> Expression:
    kind = pfa_type(x.dtype)
    return {"a.map": [values, inline({"v": kind}, kind, rounded(x.dtype, body))]}


def _axis(node: Node, x: Row) -> int:
    axis = int(node.get("axis", -1)) % (len(x.shape) + 1) - 1
    if axis < 0:
        raise RowError(_MIXES)
    return axis


@op("Softmax", "LogSoftmax")
def _softmax(node: Node, x: Row) -> Row:
    larger, kind = extreme(x.document, x.dtype, largest=True), pfa_type(x.dtype)
    away: Expression = {"-": ["v", "top"]}

    def steps(group: Any) -> list[Expression]:
        powers = inline({"v": kind}, "double", {"m.exp": away})
        share = {"/": [{"m.exp": away}, "whole"]} if node.kind == "Softmax" else {"-": [away, {"m.ln": "whole"}]}
        return [
            {"let": {"top": {"a.reduce": [group, {"fcn": larger}]}}},
            {"let": {"whole": {"a.sum": {"a.map": [group, powers]}}}},
            _mapped(group, x, share),
        ]

    return _each_scaled(x, (_axis(node, x),), steps)


@op("LayerNormalization")
def _layer_normalisation(node: Node, x: Row, scale: Any, bias: Any = None) -> Row:
    first = _axis(node, x)
    size = int(np.prod(x.shape[first:], dtype=int))
    kind, epsilon = pfa_type(x.dtype), float(np.float32(node.get("epsilon", 1e-5)))
    away: Expression = {"-": ["v", "mean"]}

    def steps(group: Any) -> list[Expression]:
        wide = inline({"v": kind}, "double", {"cast.double": "v"})
        squares = inline({"v": kind}, kind, {"*": [away, away]})  # too large in the source is too large here
        spread = rounded(x.dtype, {"m.sqrt": {"+": [{"/": [{"a.sum": {"a.map": [group, squares]}}, size]}, epsilon]}})
        return [
            {"let": {"mean": rounded(x.dtype, {"a.mean": {"a.map": [group, wide]}})}},
            {"let": {"spread": spread}},
            _mapped(group, x, {"/": [away, "spread"]}),
        ]

    result = _each_scaled(x, tuple(range(first, len(x.shape))), steps)
    scaled = each(x.document, [result, scale], x.dtype, lambda v, s: {"*": [v, s]})
    return scaled if bias is None else each(x.document, [scaled, bias], x.dtype, lambda v, b: {"+": [v, b]})
