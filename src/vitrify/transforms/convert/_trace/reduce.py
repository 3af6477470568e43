"""Sums, means, extremes along the columns of a traced value, added in NumPy's own order.

NumPy sums a row in eight running sums (fewer than eight elements: one after the other), and splits what is longer
than 128 elements in halves; the graph does the same, so that the last bit is the same.

Source: ``numpy/_core/src/umath/loops_utils.h.src`` (pairwise sum), ``numpy/_core/_methods.py``
"""

from __future__ import annotations

from functools import reduce as fold
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.graph import BOOL, F32, F64, I64, TEXT, Graph, Tensor
from vitrify.transforms.convert._trace import shape as shaping
from vitrify.transforms.convert._trace.choose import where
from vitrify.transforms.convert._trace.errors import untraceable
from vitrify.transforms.convert._trace.ufuncs import apply
from vitrify.transforms.convert._trace.value import F16, Value, astype, axis_of, static, truth

if TYPE_CHECKING:
    from collections.abc import Callable

_LANES, _BLOCK, _LONGEST = 8, 128, 2048


def sum_(value: Value, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Value:
    """Return ``value.sum(axis)``; small integers are summed as int64, as on every platform of ours."""
    kind = np.dtype(dtype) if dtype is not None else _accumulator(value.dtype)
    value = astype(value, kind)
    return _along(value, axis, "adds up", keepdims, _added)


def prod(value: Value, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Value:
    """Return ``value.prod(axis)``."""
    value = astype(value, np.dtype(dtype) if dtype is not None else _accumulator(value.dtype))

    def multiplied(part: Value, place: int, size: int) -> Value:
        factors = [_piece(part, place, index) for index in range(size)]
        return fold(lambda left, right: apply(np.multiply, left, right), factors)

    return _along(value, axis, "multiplies", keepdims, multiplied)


def mean(value: Value, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Value:
    """Return ``value.mean(axis)``; integers are added as doubles, halves as singles."""
    place = _axis(value, axis, "takes the mean of")
    size = static(value, place, "takes the mean of")
    kind = np.dtype(dtype) if dtype is not None else {F16: F32}.get(value.dtype, value.dtype)
    kind = F64 if kind.kind in "iub" else kind
    total = sum_(value, place, dtype=kind, keepdims=keepdims)
    answer = apply(np.divide, total, np.asarray(size, kind))
    return astype(answer, F16) if dtype is None and value.dtype == F16 else answer


def var(value: Value, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Value:
    """Return ``value.var(axis)``: the mean of the squared distances from the mean."""
    place = _axis(value, axis, "takes the variance of")
    size = static(value, place, "takes the variance of")
    if value.dtype == F16:
        untraceable("takes the variance of half-precision numbers", "cast them first: x.astype(np.float32)")
    kind = F64 if value.dtype.kind in "iub" else value.dtype
    middle = apply(np.divide, sum_(value, place, dtype=kind, keepdims=True), np.asarray(size, kind))
    distance = apply(np.subtract, value, middle)
    total = sum_(apply(np.multiply, distance, distance), place, dtype=kind, keepdims=keepdims)
    return apply(np.divide, total, np.asarray(max(size - ddof, 0), kind))


def std(value: Value, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Value:
    """Return ``value.std(axis)``."""
    return apply(np.sqrt, var(value, axis, ddof=ddof, keepdims=keepdims))


def maximum(value: Value, axis: Any = None, *, keepdims: bool = False) -> Value:
    """Return ``value.max(axis)``; NaN wins."""
    return _extreme(value, axis, "ReduceMax", keepdims, -np.inf)


def minimum(value: Value, axis: Any = None, *, keepdims: bool = False) -> Value:
    """Return ``value.min(axis)``; NaN wins."""
    return _extreme(value, axis, "ReduceMin", keepdims, np.inf)


def any_(value: Value, axis: Any = None, *, keepdims: bool = False) -> Value:
    """Return ``value.any(axis)``."""
    return _truths(value, axis, "ReduceMax", keepdims)


def all_(value: Value, axis: Any = None, *, keepdims: bool = False) -> Value:
    """Return ``value.all(axis)``."""
    return _truths(value, axis, "ReduceMin", keepdims)


def argmax(value: Value, axis: Any = None) -> Value:
    """Return the place of the first largest element; the first NaN is the largest."""
    return _place(value, axis, "ArgMax")


def argmin(value: Value, axis: Any = None) -> Value:
    """Return the place of the first smallest element; the first NaN is the smallest."""
    return _place(value, axis, "ArgMin")


def cumsum(value: Value, axis: Any = None, dtype: Any = None) -> Value:
    """Return ``value.cumsum(axis)``, one element after the other."""
    place = _axis(value, axis, "adds up")
    static(value, place, "adds up")
    value = astype(value, np.dtype(dtype) if dtype is not None else _accumulator(value.dtype))
    if value.dtype == F16:
        untraceable("adds up half-precision numbers one by one", "cast them first: x.astype(np.float32)")
    tensor = value.work(modular=True)
    return value.same(value.graph.op("CumSum", tensor, np.array(place), dtype=tensor.dtype), value.shape)


def _accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype == TEXT:
        untraceable("adds up text", "encode it first")
    if dtype.kind in "bi":
        return I64
    return np.dtype(np.uint64) if dtype.kind == "u" else dtype


def _along(
    value: Value,
    axis: Any,
    verb: str,
    keepdims: bool,  # noqa: FBT001 (numpy's)
    compute: Callable[[Value, int, int], Value],
) -> Value:
    place = _axis(value, axis, verb)
    size = static(value, place, verb)
    if size == 0:
        untraceable(f"{verb} an axis without elements", "leave it out")
    part = compute(value, place, size)
    return part if keepdims else shaping.squeeze(part, place)


def _axis(value: Value, axis: Any, verb: str) -> int:
    """Return the one axis; all of them only where there is no other."""
    if axis is None and value.ndim != 1:
        untraceable(
            f"{verb} all elements of the batch together, so that a row's answer depends on the other rows of its call",
            "compute it in fit and keep it, or work along the columns: axis=1",
        )
    if isinstance(axis, tuple) and len(axis) != 1:
        untraceable(f"{verb} several axes at once", "work along one axis at a time")
    return axis_of(value, 0 if axis is None else axis[0] if isinstance(axis, tuple) else axis)


def _added(value: Value, axis: int, size: int) -> Value:
    graph, work = value.graph, value.work(modular=True)
    if size > _LONGEST and work.dtype.kind == "f":
        total = graph.reduce("ReduceSum", work, axis, keep=True)
    else:
        total = _pairwise(graph, work, axis, 0, size)
    return value.same(total, (*value.shape[:axis], 1, *value.shape[axis + 1 :]))


def _pairwise(graph: Graph, work: Tensor, axis: int, start: int, size: int) -> Tensor:
    def part(first: int, length: int = 1) -> Tensor:
        return graph.gather(work, np.arange(start + first, start + first + length), axis)

    def plus(left: Tensor, right: Tensor) -> Tensor:
        return graph.op("Add", left, right, dtype=work.dtype)

    if size < _LANES:
        return fold(plus, [part(index) for index in range(size)])
    if size > _BLOCK:
        left = size // 2 - size // 2 % _LANES
        first = _pairwise(graph, work, axis, start, left)
        return plus(first, _pairwise(graph, work, axis, start + left, size - left))
    whole = size - size % _LANES
    lanes = fold(plus, [part(index, _LANES) for index in range(0, whole, _LANES)])
    pairs = [graph.gather(lanes, np.arange(offset, _LANES, 2), axis) for offset in (0, 1)]
    fours = plus(*pairs)
    twos = plus(*(graph.gather(fours, np.arange(offset, 4, 2), axis) for offset in (0, 1)))
    total = plus(*(graph.gather(twos, np.array([offset]), axis) for offset in (0, 1)))
    return fold(plus, [part(index) for index in range(whole, size)], total)


def _piece(value: Value, axis: int, index: int) -> Value:
    shape = (*value.shape[:axis], 1, *value.shape[axis + 1 :])
    tensor = value.graph.gather(value.tensor, np.array([index]), axis)
    return Value(value.graph, tensor, value.dtype, shape)


def _extreme(value: Value, axis: Any, kind: str, keepdims: bool, lowest: float) -> Value:  # noqa: FBT001 (numpy's)
    place = _axis(value, axis, "compares")
    static(value, place, "compares")
    if value.dtype == BOOL:
        return _truths(value, axis, kind, keepdims)
    graph, work = value.graph, value.work()
    shape = (*value.shape[:place], 1, *value.shape[place + 1 :])
    if work.dtype.kind == "f":
        unknown = graph.op("IsNaN", work, dtype=BOOL)
        known = graph.where(unknown, np.array(lowest, work.dtype), work)
        some = any_(Value(graph, unknown, BOOL, value.shape), place, keepdims=True)
        found = graph.where(some.tensor, np.array(np.nan, work.dtype), graph.reduce(kind, known, place, keep=True))
    else:
        found = graph.reduce(kind, work, place, keep=True)
    answer = value.same(found, shape)
    return answer if keepdims else shaping.squeeze(answer, place)


def _truths(value: Value, axis: Any, kind: str, keepdims: bool) -> Value:  # noqa: FBT001 (numpy's)
    place = _axis(value, axis, "looks at")
    static(value, place, "looks at")
    graph = value.graph
    flags = graph.cast(truth(value), np.int32)
    found = graph.cast(graph.reduce(kind, flags, place, keep=True), BOOL)
    answer = Value(graph, found, BOOL, (*value.shape[:place], 1, *value.shape[place + 1 :]))
    return answer if keepdims else shaping.squeeze(answer, place)


def _place(value: Value, axis: Any, kind: str) -> Value:
    place = _axis(value, axis, "compares")
    static(value, place, "compares")
    graph = value.graph
    work = graph.cast(value.tensor, np.int32) if value.dtype == BOOL else value.work()
    shape = (*value.shape[:place], *value.shape[place + 1 :])

    def first(tensor: Tensor, operator: str) -> Value:
        return Value(graph, graph.op(operator, tensor, dtype=I64, axis=place, keepdims=0), I64, shape)

    if work.dtype.kind != "f":
        return first(work, kind)
    unknown = graph.op("IsNaN", work, dtype=BOOL)
    known = graph.where(unknown, np.zeros((), work.dtype), work)
    some = any_(Value(graph, unknown, BOOL, value.shape), place)
    return where(some, first(graph.cast(unknown, np.int32), "ArgMax"), first(known, kind))


def ptp(value: Value, axis: Any = None, *, keepdims: bool = False) -> Value:
    """Return the distance from the smallest to the largest element."""
    return apply(np.subtract, maximum(value, axis, keepdims=keepdims), minimum(value, axis, keepdims=keepdims))


def norm(value: Value, axis: Any = None, *, keepdims: bool = False) -> Value:
    """Return the Euclidean length of each row."""
    real = astype(value, F64) if value.dtype.kind in "iub" else value
    return apply(np.sqrt, sum_(apply(np.multiply, real, real), axis, keepdims=keepdims))
