"""Operators along an axis: sums, extremes, their places, running sums, products of matrices.

A row's elements are put in groups, one for each element of the answer; an operator is then a function of a group.

Source: https://onnx.ai/onnx/operators/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._pfa.document import (
    Array,
    Document,
    Expression,
    Row,
    array_of,
    inline,
    pfa_type,
)
from vitrify.transforms.convert._pfa.elementwise import each, rounded
from vitrify.transforms.convert._pfa.rows import RowError, op

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.transforms.replay.walk import Node

_MIXES = "it adds or compares values of several rows"
_I64 = np.dtype(np.int64)
_MATRIX = 2


def _axes(node: Node, x: Row, given: Any) -> tuple[int, ...] | None:
    """Return the axes of a row that are reduced; None for none at all."""
    axes = node.get("axes") if given is None else np.asarray(given).reshape(-1).tolist()
    rank = len(x.shape) + 1
    if not axes:
        if node.get("noop_with_empty_axes", 0):
            return None
        axes = range(rank)
    own = tuple(sorted({int(axis) % rank for axis in axes}))
    if 0 in own:
        raise RowError(_MIXES)
    return tuple(axis - 1 for axis in own)


def grouped(x: Row, axes: tuple[int, ...]) -> tuple[Row, tuple[int, ...]]:
    """Return the elements in groups, (groups, size of each), and the sizes of what is not in a group."""
    kept = [axis for axis in range(len(x.shape)) if axis not in axes]
    index = np.arange(x.size).reshape(x.shape).transpose(*kept, *axes)
    outer = tuple(x.shape[axis] for axis in kept)
    size = int(np.prod([x.shape[axis] for axis in axes], dtype=int))
    if size == 0:
        message = "an axis without elements"
        raise RowError(message)
    return x.document.take(x, index.reshape(-1, size)), outer


def _each_group(groups: Row, outer: tuple[int, ...], dtype: Any, body: Callable[[Any], Expression]) -> Row:
    """Return one element for each group."""
    document, (count, size) = groups.document, groups.shape
    if count == 1:
        value = body(groups.name)
        return document.let({"new": [value], "type": array_of(dtype)} if outer else value, dtype, outer)
    windows = {"a.slidingWindow": [groups.name, size, size]}
    function = inline({"g": array_of(groups.dtype)}, pfa_type(dtype), body("g"))
    return document.let({"a.map": [windows, function]}, dtype, outer)


def _kept(result: Row, x: Row, axes: tuple[int, ...], *, keep: bool) -> Row:
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    return result.reshaped(shape) if keep else result


def extreme(document: Document, dtype: Any, *, largest: bool) -> str:
    """Return a function that gives the larger or smaller of two numbers; NaN if one is."""
    kind, name = pfa_type(dtype), "larger" if largest else "smaller"
    test: Expression = {">=" if largest else "<=": ["x", "y"]}
    if np.dtype(dtype).kind == "f":
        test = {"||": [test, {"impute.isnan": "x"}]}
    body = {"if": test, "then": "x", "else": "y"}
    return document.function(f"{name}_{kind}", inline({"x": kind, "y": kind}, kind, body))


@op("ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceLogSumExp")
def _reduced(node: Node, x: Row, axes: Array | None = None) -> Row:
    found = _axes(node, x, axes)
    if found is None:
        return x
    groups, outer = grouped(x, found)

    def body(group: Any) -> Expression:
        match node.kind:
            case "ReduceSum":
                return {"a.sum": group}
            case "ReduceProd":
                return {"a.product": group}
            case "ReduceLogSumExp":  # ONNX writes it out as it must not be computed: the powers are too large
                return rounded(x.dtype, {"a.logsumexp": group})
            case "ReduceMean":
                return rounded(x.dtype, {"/": [{"a.sum": group}, groups.shape[1]]})
        name = extreme(x.document, x.dtype, largest=node.kind == "ReduceMax")
        return {"a.reduce": [group, {"fcn": name}]}

    if node.kind in {"ReduceMean", "ReduceLogSumExp"} and x.dtype.kind != "f":
        message = "a mean of whole numbers"
        raise RowError(message)
    result = _each_group(groups, outer, x.dtype, body)
    return _kept(result, x, found, keep=bool(node.get("keepdims", 1)))


@op("ArgMax", "ArgMin")
def _arg(node: Node, x: Row) -> Row:
    if node.get("select_last_index", 0):
        message = "the last of equal values"
        raise RowError(message)
    found = _axes(node, x, [node.get("axis", 0)])
    assert found is not None
    groups, outer = grouped(x, found)
    name = "a.argmax" if node.kind == "ArgMax" else "a.argmin"
    result = _each_group(groups, outer, _I64, lambda group: {"cast.long": {name: group}})
    return _kept(result, x, found, keep=bool(node.get("keepdims", 1)))


@op("CumSum")
def _running(node: Node, x: Row, axis: Array) -> Row:
    if node.get("exclusive", 0) or node.get("reverse", 0):
        message = "running sums that are exclusive or in reverse"
        raise RowError(message)
    found = _axes(node, x, axis)
    assert found is not None
    groups, outer = grouped(x, found)
    document, (count, size), kind, arrays = x.document, groups.shape, pfa_type(x.dtype), array_of(x.dtype)
    added = {"if": {"==": [{"a.len": "t"}, 0]}, "then": "x", "else": {"+": [{"a.last": "t"}, "x"]}}
    step = inline({"t": arrays, "x": kind}, arrays, {"a.append": ["t", added]})

    def sums(group: Any) -> Expression:
        return {"a.fold": [group, {"new": [], "type": arrays}, step]}

    windows = {"a.slidingWindow": [groups.name, size, size]}
    value = sums(groups.name) if count == 1 else {"a.flatMap": [windows, inline({"g": arrays}, arrays, sums("g"))]}
    flat = document.let(value, x.dtype, (count * size,))
    order = np.moveaxis(np.arange(count * size).reshape(*outer, size), -1, found[0])
    if np.array_equal(order.ravel(), np.arange(order.size)):
        return Row(document, flat.name, flat.dtype, order.shape, summed=groups)
    return document.take(flat, order)


@op("TopK")
def _top(node: Node, x: Row, count: Array) -> tuple[Row, Row]:
    axis = int(node.get("axis", -1)) % (len(x.shape) + 1) - 1
    if axis != len(x.shape) - 1 or axis < 0:
        message = "an axis that is not the last, or the rows"
        raise RowError(message)
    groups, outer = grouped(x, (axis,))
    k, (number, size) = int(np.asarray(count).reshape(-1)[0]), groups.shape
    name, document = "a.argmaxN" if node.get("largest", 1) else "a.argminN", x.document
    ints = {"type": "array", "items": "int"}
    if number == 1:
        value: Expression = {name: [groups.name, k]}
    else:
        windows = {"a.slidingWindow": [groups.name, size, size]}
        value = {"a.flatMap": [windows, inline({"g": array_of(x.dtype)}, ints, {name: ["g", k]})]}
    places = document.let(value, np.dtype(np.int32), (*outer, k))
    starts = (np.arange(number) * size).reshape(*outer, 1) + np.zeros(k, int)
    flat = each(
        document,
        [places, starts[np.newaxis].astype(np.int32)],
        x.dtype,
        lambda place, start: {"attr": groups.name, "path": [{"+": [start, place]}]},
    )
    return flat, each(document, [places], _I64, lambda place: {"cast.long": place})


# Products


@op("MatMul")
def _product(_: Node, x: Any, weights: Any) -> Row:
    if not isinstance(x, Row):
        message = "a constant to the left of rows"
        raise RowError(message)
    if isinstance(weights, Row):
        return _row_product(x, weights)
    table = np.asarray(weights)
    if table.ndim > _MATRIX:
        message = f"a product with a constant of {table.ndim} axes"
        raise RowError(message)
    vector = table.ndim == 1
    result = affine(x, table.reshape(-1, 1) if vector else table, None)
    return result.reshaped(result.shape[:-1]) if vector else result


@op("Gemm")
def _gemm(node: Node, x: Any, weights: Any, start: Any = None) -> Row:
    if not isinstance(x, Row) or isinstance(weights, Row) or isinstance(start, Row) or node.get("transA", 0):
        message = "a product whose right side is no constant"
        raise RowError(message)
    table = np.asarray(weights).T if node.get("transB", 0) else np.asarray(weights)
    alpha, beta = (table.dtype.type(node.get(key, 1.0)) for key in ("alpha", "beta"))
    width = table.shape[1]
    if start is None:
        return affine(x, table * alpha, None)
    constant = np.asarray(start) * beta
    if constant.ndim == _MATRIX and constant.shape[0] != 1:
        message = "a constant of several rows"
        raise RowError(message)
    return affine(x, table * alpha, np.broadcast_to(constant.reshape(-1), (width,)))


def affine(x: Row, table: Array, start: Array | None) -> Row:
    """Return ``x @ table + start``, added in double and rounded once."""
    if not x.shape or x.dtype.kind != "f":
        message = "a product of whole numbers, or along the rows"
        raise RowError(message)
    if not np.isfinite(table).all() or (start is not None and not np.isfinite(start).all()):
        message = "weights that are not finite"
        raise RowError(message)
    document, (size, width) = x.document, table.shape
    constants = np.zeros(width) if start is None else start
    type_ = _layer_type()
    content = {
        "coeff": [[float(one) for one in column] for column in table.T],
        "const": [float(one) for one in constants],
    }
    layer = document.cell(type_, content, "layer")

    def product(values: Any) -> Expression:
        found: Expression = {"model.reg.linear": [values, layer]}
        if x.dtype == np.float32:
            found = {"a.map": [found, inline({"d": "double"}, "float", {"cast.float": "d"})]}
        return found

    if len(x.shape) == 1:
        return document.let(product(x.name), x.dtype, (width,))
    windows = {"a.slidingWindow": [x.name, size, size]}
    body = inline({"g": array_of(x.dtype)}, array_of(x.dtype), product("g"))
    return document.let({"a.flatMap": [windows, body]}, x.dtype, (*x.shape[:-1], width))


def _layer_type() -> Any:
    """Return the type of a layer: PFA knows a record by its name, so it is the same one everywhere."""
    vector = {"type": "array", "items": "double"}
    fields = [{"name": "coeff", "type": {"type": "array", "items": vector}}, {"name": "const", "type": vector}]
    return {"type": "record", "name": "Layer", "fields": fields}


def _row_product(x: Row, y: Row) -> Row:
    """Return the product of two matrices of a row, element by element."""
    if len(x.shape) < _MATRIX or len(x.shape) != len(y.shape) or x.dtype.kind != "f":
        message = f"a product of shapes {x.shape} and {y.shape}"
        raise RowError(message)
    left, right = (np.arange(one.size).reshape(one.shape) for one in (x, y))
    outer = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    rows, inner, columns = x.shape[-2], x.shape[-1], y.shape[-1]
    left = np.broadcast_to(left, (*outer, rows, inner))[..., :, np.newaxis, :]
    right = np.swapaxes(np.broadcast_to(right, (*outer, inner, columns)), -1, -2)[..., np.newaxis, :, :]
    shape = (*outer, rows, columns, inner)
    document = x.document
    products = each(
        document,
        [document.take(x, np.broadcast_to(left, shape)), document.take(y, np.broadcast_to(right, shape))],
        np.float64,
        lambda one, other: {"*": [{"cast.double": one}, {"cast.double": other}]},
    )
    groups, kept = grouped(products, (len(shape) - 1,))
    return _each_group(groups, kept, x.dtype, lambda group: rounded(x.dtype, {"a.sum": group}))
