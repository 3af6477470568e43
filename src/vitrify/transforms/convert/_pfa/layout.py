"""Operators that move elements and change none: each is tried on the elements' own places.

The places of two and of three rows go through ONNX's reference of the operator. If each row comes back as its own
elements, and always the same ones, then that is what the operator does to a row; else it mixes rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._pfa.document import Array, Document, Row, inline, literal, pfa_type
from vitrify.transforms.convert._pfa.elementwise import each
from vitrify.transforms.convert._pfa.rows import BATCHES, RowError, Sized, document_of, op, reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.transforms.replay.walk import Node

_MIXES = "it moves values from one row to another"
_SIZES = (1, 2, 3, 4)


@op("Identity", "Dropout")
def _identity(_: Node, x: Row, *__: Any) -> Row:
    return x


@op(
    *("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Split", "Expand", "Tile"),
    *("DepthToSpace", "SpaceToDepth"),
    sizes=_SIZES,
)
def _moved(node: Node, x: Row, *sizes: Any) -> tuple[Row, ...]:
    return _selected(node, (x, *sizes), (0,))


@op("ArrayFeatureExtractor", domain="ai.onnx.ml")
def _features(node: Node, x: Row, places: Array) -> tuple[Row, ...]:
    if isinstance(places, Row):
        raise RowError(_MIXES)
    return _selected(node, (x, places), (0,))


@op("Concat")
def _concat(node: Node, *parts: Any) -> tuple[Row, ...]:
    axis = int(node.get("axis"))
    rank = next(len(one.shape) + 1 for one in parts if isinstance(one, Row))
    if axis % rank == 0:
        raise RowError(_MIXES)
    spread = [one if isinstance(one, Row) else _only_row(np.asarray(one)) for one in parts]
    return _selected(node, spread, range(len(parts)))


def _only_row(array: Array) -> Array:
    if array.ndim and array.shape[0] == 1:
        return array
    message = "a constant of several rows beside rows of the data"
    raise RowError(message)


@op("Pad", sizes=(1, 3))
def _pad(node: Node, x: Row, pads: Array, value: Any = None, axes: Any = None) -> tuple[Row, ...]:
    if isinstance(value, Row):
        message = "what it pads with is only known when it runs"
        raise RowError(message)
    fill = np.zeros((1,), x.dtype) if value is None else np.asarray(value, x.dtype).reshape(1)
    return _selected(node, (x, pads, fill, axes), (0, 2))


def _selected(node: Node, given: Sequence[Any], data: Sequence[int]) -> tuple[Row, ...]:
    """Return what an operator does to a row.

    Args:
        node: The operator.
        given: Its inputs.
        data: Which of them hold what is moved; a constant among them is numbered below zero.
    """
    document = document_of(given)
    rows = [given[at] for at in data if isinstance(given[at], Row)]
    constants = [np.asarray(given[at]) for at in data if given[at] is not None and not isinstance(given[at], Row)]
    tried = [_tried(node, given, data, batch) for batch in range(len(BATCHES))]
    found = []
    for answers in zip(*tried, strict=True):
        index = _own_places(answers, sum(one.size for one in rows))
        found.append(_taken(document, rows, constants, index))
    return tuple(found)


def _tried(node: Node, given: Sequence[Any], data: Sequence[int], at: int) -> tuple[Array, ...]:
    batch, total = BATCHES[at], sum(given[one].size for one in data if isinstance(given[one], Row))
    start, below, feeds = 0, 0, []
    for place, one in enumerate(given):
        if place not in data or one is None:
            feeds.append(one.values[at] if isinstance(one, Sized) else one)
        elif isinstance(one, Row):
            numbers = np.arange(one.size) + start + np.arange(batch)[:, np.newaxis] * total
            feeds.append(numbers.reshape(batch, *one.shape))
            start += one.size
        else:
            array = np.asarray(one)
            numbers = -1 - below - np.arange(array.size).reshape(array.shape)
            wide = array.ndim and array.shape[0] == 1 and node.kind == "Concat"
            feeds.append(np.broadcast_to(numbers, (batch, *array.shape[1:])) if wide else numbers)
            below += array.size
    if any(isinstance(one, Row) for one in feeds):
        message = "where it moves values to is only known when it runs"
        raise RowError(message)
    return reference(node, feeds)


def _own_places(answers: Sequence[Array], total: int) -> Array:
    """Return the place of each element among a row's own; a constant's are below zero."""
    first = None
    for answer, batch in zip(answers, BATCHES, strict=True):
        if answer.ndim == 0 or len(answer) != batch:
            raise RowError(_MIXES)
        shift = np.arange(batch).reshape(-1, *[1] * (answer.ndim - 1)) * total
        index = np.where(answer < 0, answer, answer - shift)
        first = index[0] if first is None else first
        if index.shape[1:] != first.shape or not (index == first).all() or (index >= total).any():
            raise RowError(_MIXES)
    assert first is not None
    return np.asarray(first)


def _taken(document: Document, rows: Sequence[Row], constants: Sequence[Array], index: Array) -> Row:
    used = [at for at in range(len(rows)) if _uses(rows, at, index)]
    if not (index < 0).any() and len(used) == 1:
        (at,) = used
        return document.take(rows[at], index - sum(one.size for one in rows[:at]))
    dtype = rows[0].dtype
    flat = [np.ravel(one).astype(dtype) for one in constants]
    held = [document.row(np.concatenate(flat))] if flat and (index < 0).any() else []
    whole = document.joined([*rows, *held])
    total = sum(one.size for one in rows)
    return document.take(whole, np.where(index < 0, total - 1 - index, index))


def _uses(rows: Sequence[Row], at: int, index: Array) -> bool:
    start = sum(one.size for one in rows[:at])
    return bool(((index >= start) & (index < start + rows[at].size)).any())


# Places that the data decides


@op("Gather")
def _gather(node: Node, table: Any, places: Any) -> Any:
    if not isinstance(places, Row):
        return _selected(node, (table, places), (0,))
    axis = int(node.get("axis", 0))
    if isinstance(table, Row) or axis % np.ndim(table):
        message = "where it looks is only known when it runs"
        raise RowError(message)
    return look_up(np.asarray(table), places)


def look_up(table: Array, places: Row) -> Row:
    """Return the rows of a constant table at places that the data decides."""
    document, inner = places.document, table.shape[1:]
    width = int(np.prod(inner, dtype=int))
    cell, kind = document.constant(table), pfa_type(table.dtype)
    if width == 1 and not inner:
        return each(document, [places], table.dtype, lambda i: {"attr": cell, "path": [_from_end(i, len(table))]})

    def part(i: Any) -> Any:
        start = {"*": [_from_end(i, len(table)), width]}
        return {"a.subseq": [cell, start, {"+": [start, width]}]}

    result = {"type": "array", "items": kind}
    if not places.shape:
        return document.let(part(places.name), table.dtype, inner)
    body = inline({"i": pfa_type(places.dtype)}, result, part("i"))
    return document.let({"a.flatMap": [places.name, body]}, table.dtype, (*places.shape, *inner))


def _from_end(place: Any, count: int) -> Any:
    """Return a place as an int; what is negative counts from the end."""
    whole = {"cast.int": place}
    return {"if": {"<": [place, 0]}, "then": {"+": [whole, count]}, "else": whole}


@op("GatherElements")
def _gather_elements(node: Node, table: Any, places: Any) -> Row:
    document = document_of((table, places))
    if not isinstance(places, Row) or not isinstance(table, Row):
        message = "one of data and places is constant"
        raise RowError(message)
    axis = int(node.get("axis", 0)) % (len(table.shape) + 1) - 1
    if axis < 0:
        raise RowError(_MIXES)
    length, stride = table.shape[axis], int(np.prod(table.shape[axis + 1 :], dtype=int))
    grid = np.indices(places.shape)
    grid[axis] = 0
    base = np.ravel_multi_index(tuple(grid), table.shape) if places.size else np.zeros(places.shape, int)

    def part(place: Any, start: Any) -> Any:
        at = {"+": [start, {"*": [_from_end(place, length), stride]}]}
        return {"attr": table.name, "path": [at]}

    return each(document, [places, base[np.newaxis].astype(np.int32)], table.dtype, part)


@op("OneHot")
def _one_hot(node: Node, places: Row, depth: Array, values: Array) -> Row:
    if int(node.get("axis", -1)) not in {-1, len(places.shape) + 1}:
        message = "a new axis that is not the last"
        raise RowError(message)
    count = int(np.asarray(depth).reshape(-1)[0])
    off, on = np.asarray(values).reshape(-1)
    spread = places.reshaped((*places.shape, 1))
    numbers = np.arange(count).astype(places.dtype).reshape(1, *[1] * len(places.shape), count)

    def body(place: Any, number: Any) -> Any:
        same = {"||": [{"==": [place, number]}, {"==": [{"+": [place, count]}, number]}]}
        return {"if": same, "then": literal(on, values.dtype), "else": literal(off, values.dtype)}

    return each(places.document, [spread, numbers], values.dtype, body)
