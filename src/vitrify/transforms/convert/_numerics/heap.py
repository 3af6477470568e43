"""The k smallest of many values, with the ties of the heap that scikit-learn keeps them in.

Values come one after the other; one that is smaller than the largest of the k takes its place at the root and
sinks. Of several that are equally large the heap drops the one that happens to be at the root, so which of the equals
are left depends on all that came before. Where the k-th and the next value differ there is nothing to
decide, and TopK answers; the other rows go through the heap itself.

Source: ``sklearn/utils/_heap.pyx``
"""

from __future__ import annotations

import numpy as np

from vitrify.transforms.convert._building.graph import BOOL, F64, I64, Graph, Tensor


def first_smallest(
    graph: Graph, values: Tensor, count: int, width: int, *, unknown: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the ``count`` smallest of each row in order, and their places: (rows, count) each.

    Args:
        graph: Where it is computed.
        values: (rows, width) in double.
        count: How many.
        width: How many there are in a row.
        unknown: Whether there may be NaN, which the heap takes and gives away again.
    """
    if count >= width and not unknown:
        return _smallest(graph, values, count)
    several, places = _smallest(graph, values, min(count + 1, width))
    last, beyond = (graph.gather(several, np.array(place), axis=1) for place in (count - 1, min(count, width - 1)))
    tied = graph.compare("Equal", last, beyond)
    if unknown:
        nan = graph.cast(graph.op("IsNaN", values, dtype=BOOL), I64)
        some = graph.cast(graph.op("ReduceMax", nan, np.array([1]), dtype=I64, keepdims=0), BOOL)
        tied = graph.op("Or", tied, some, dtype=BOOL)
    rows = graph.op("NonZero", tied, dtype=I64)
    rows = graph.op("Squeeze", rows, np.array([0]), dtype=I64)
    held, where = _through_heap(graph, graph.gather(values, rows), count, width)
    first = np.arange(count)
    at = graph.column(rows)
    return (
        graph.op("ScatterND", graph.gather(several, first, axis=1), at, held, dtype=several.dtype),
        graph.op("ScatterND", graph.gather(places, first, axis=1), at, where, dtype=I64),
    )


def first_known(graph: Graph, values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` smallest of each row in order, of equals the first, NaN last, and their places.

    It is what NumPy's partition leaves, but for the choice among equals, which there hangs on the processor.
    """
    unknown = graph.op("IsNaN", values, dtype=BOOL)
    last = graph.binary("Min", values, float(np.finfo(np.float64).max))
    _, places = _smallest(graph, graph.where(unknown, np.array(np.inf), last), count)
    return graph.op("GatherElements", values, places, dtype=values.dtype, axis=1), places


def _smallest(graph: Graph, values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    found, places = graph.ops(
        "TopK", values, np.array([count]), dtypes=(values.dtype, I64), axis=1, largest=0, sorted=1
    )
    return found, places


def _through_heap(graph: Graph, values: Tensor, count: int, width: int) -> tuple[Tensor, Tensor]:
    rows = graph.rows(values)
    shape = graph.concat([rows, graph.constant(np.array([count]))], axis=0)
    start = graph.op("ConstantOfShape", shape, dtype=graph.real(F64), value=np.full(1, np.inf, graph.real(F64)))
    nobody = graph.op("ConstantOfShape", shape, dtype=I64, value=np.zeros(1, np.int64))
    # Without rows there is nothing to go through.
    some = graph.op("Min", graph.op("Squeeze", rows, dtype=I64), np.array(1), dtype=I64)

    def step(number: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        return _push(graph, states, graph.gather(values, number, axis=1), number, count)

    steps = graph.binary("Mul", some, np.array(width))
    held, places = graph.loop(steps, (graph.cast(start, values.dtype), nobody), step)
    ordered, order = _smallest(graph, held, count)
    return ordered, graph.op("GatherElements", places, order, dtype=I64, axis=1)


def _push(graph: Graph, heap: tuple[Tensor, ...], value: Tensor, number: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the heaps of all rows after one value came to each: values and places."""
    values, places = heap
    root = graph.gather(values, np.array([0]), axis=1)
    value = graph.column(value)
    active = graph.op("Not", graph.compare("GreaterOrEqual", value, root), dtype=BOOL)
    # A heap that does not take the value has its own root sink nowhere.
    value = graph.where(active, value, root)
    mine = graph.where(active, number, graph.gather(places, np.array([0]), axis=1))
    at = graph.op("Mul", graph.cast(active, I64), np.array(0), dtype=I64)
    for _ in range(int(np.log2(count)) + 1):
        padded = graph.op("Pad", values, np.array([0, 0, 0, count + 2]), np.array(-np.inf), dtype=values.dtype)
        left = graph.binary("Add", graph.binary("Mul", at, np.array(2)), np.array(1))
        right = graph.binary("Add", left, np.array(1))
        first, second = (_at(graph, padded, place) for place in (left, right))
        larger = graph.compare("GreaterOrEqual", first, second)
        child, size = graph.where(larger, left, right), graph.where(larger, first, second)
        sinks = graph.op("And", active, graph.compare("Less", value, size), dtype=BOOL)
        inside = graph.where(sinks, child, np.array(0))
        values = _put(graph, values, at, graph.where(sinks, size, value))
        places = _put(graph, places, at, graph.where(sinks, _at(graph, places, inside), mine))
        at, active = graph.where(sinks, child, at), sinks
    return _put(graph, values, at, value), _put(graph, places, at, mine)


def _at(graph: Graph, table: Tensor, place: Tensor) -> Tensor:
    return graph.op("GatherElements", table, place, dtype=table.dtype, axis=1)


def _put(graph: Graph, table: Tensor, place: Tensor, value: Tensor) -> Tensor:
    return graph.op("ScatterElements", table, place, value, dtype=table.dtype, axis=1)
