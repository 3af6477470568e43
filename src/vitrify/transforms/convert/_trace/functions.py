"""NumPy's functions beyond the ufuncs, on traced values: what NEP 18 hands over.

Each takes NumPy's own arguments; an argument that changes the answer in a way that is not done here is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.graph import BOOL, F64, I64
from vitrify.transforms.convert._trace import index as indexing
from vitrify.transforms.convert._trace import reduce as reducing
from vitrify.transforms.convert._trace import shape as shaping
from vitrify.transforms.convert._trace.choose import select, where
from vitrify.transforms.convert._trace.errors import untraceable
from vitrify.transforms.convert._trace.matmul import einsum, matmul
from vitrify.transforms.convert._trace.ufuncs import apply
from vitrify.transforms.convert._trace.value import (
    Rows,
    Value,
    astype,
    axis_of,
    constant,
    count,
    finish,
    graph_of,
    lift,
    moved,
    static,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def clip(x: Any, low: Any = None, high: Any = None) -> Value:
    """Return the values within two bounds."""
    raised = x if low is None else apply(np.maximum, x, low)
    return raised if high is None else apply(np.minimum, raised, high)


def round_(x: Value, decimals: int = 0) -> Value:
    """Return the values rounded half to even, by way of a power of ten."""
    if x.dtype.kind in "iub" and decimals >= 0:
        return x
    if decimals == 0:
        return apply(np.rint, x)
    scale = np.asarray(10.0 ** abs(decimals), np.result_type(x.dtype, 1.0))
    there, back = (np.multiply, np.divide) if decimals > 0 else (np.divide, np.multiply)
    return apply(back, apply(np.rint, apply(there, x, scale)), scale)


def searchsorted(table: Any, x: Value, side: str = "left") -> Value:
    """Return where each value would be put into a sorted constant."""
    bins = np.asarray(table)
    if bins.ndim != 1 or (bins.dtype.kind == "f" and np.isnan(bins).any()):
        untraceable("searches in a table of several dimensions or with NaN", "search in a sorted vector")
    if not len(bins):
        return astype(apply(np.multiply, astype(x, I64), 0), I64)
    compare = np.greater if side == "left" else np.greater_equal
    beyond = apply(compare, shaping.expand(x, x.ndim), bins)
    found = reducing.sum_(beyond, -1)
    return where(apply(np.isnan, x), np.asarray(len(bins)), found) if x.dtype.kind == "f" else found


def digitize(x: Value, bins: Any, right: bool = False) -> Value:  # noqa: FBT001, FBT002 (numpy's)
    """Return the bin of each value; the edges rise or fall."""
    edges = np.asarray(bins)
    if len(edges) > 1 and np.all(np.diff(edges) <= 0) and edges[0] > edges[-1]:
        return apply(np.subtract, len(edges), searchsorted(edges[::-1], x, "left" if right else "right"))
    if np.any(np.diff(edges) < 0):
        msg = "bins must be monotonically increasing or decreasing"
        raise ValueError(msg)
    return searchsorted(edges, x, "left" if right else "right")


def interp(x: Value, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Value:
    """Return the linear interpolation between constant knots, by NumPy's own expression."""
    knots, heights = np.asarray(xp, np.float64), np.asarray(fp, np.float64)
    x = astype(x, F64)
    graph = x.graph
    place = apply(np.subtract, searchsorted(knots, x, "right"), 1)
    inside = clip(place, 0, max(len(knots) - 2, 0))
    with np.errstate(all="ignore"):
        slopes = np.diff(heights) / np.diff(knots) if len(knots) > 1 else np.zeros(1)

    def at(table: np.ndarray[Any, Any]) -> Value:
        return take(constant(graph, table), inside)

    value = apply(np.add, apply(np.multiply, at(slopes), apply(np.subtract, x, at(knots))), at(heights))
    value = where(apply(np.equal, at(knots), x), at(heights), value)
    value = where(apply(np.greater_equal, x, knots[-1]), heights[-1], value)
    value = where(apply(np.greater, x, knots[-1]), heights[-1] if right is None else right, value)
    value = where(apply(np.less, x, knots[0]), heights[0] if left is None else left, value)
    return where(apply(np.isnan, x), x, value)


def take(table: Any, indices: Any, axis: Any = None, mode: str = "raise") -> Value:
    """Return elements by their place; a place that does not exist is an error in the graph as well."""
    graph = graph_of([table, indices])
    source = lift(graph, table)
    if not isinstance(indices, Value):
        if axis is None:
            untraceable("takes elements of the batch without an axis", "give the axis: np.take(x, places, axis=1)")
        key = (slice(None),) * axis_of(source, axis) + (indices if np.ndim(indices) == 0 else np.asarray(indices),)
        return indexing.get(source, key)
    if mode == "clip":
        indices = clip(indices, 0, static(source, 0 if axis is None else axis_of(source, axis), "takes from") - 1)
    elif mode != "raise":
        untraceable(f"takes elements with mode={mode!r}", "use mode='clip'")
    place = 0 if axis is None else axis_of(source, axis)
    if axis is None and source.ndim != 1:
        source = shaping.reshape(source, -1)
    static(source, place, "picks by a computed place from")
    if indices.dtype.kind not in "iu":
        msg = f"Cannot cast array data from {indices.dtype} to int64 according to the rule 'safe'"
        raise TypeError(msg)
    shape = (*source.shape[:place], *indices.shape, *source.shape[place + 1 :])
    return moved(source, lambda tensor: graph.gather(tensor, indices.work(), place), shape)


def take_along_axis(x: Any, indices: Any, axis: Any = -1) -> Value:
    """Return one element a place, along an axis that is not the batch's."""
    graph = graph_of([x, indices])
    source, places = lift(graph, x), lift(graph, indices)
    at = axis_of(source, axis)
    static(source, at, "picks from")
    tensor = graph.op("GatherElements", source.tensor, places.work(), dtype=source.tensor.dtype, axis=at)
    return Value(graph, tensor, source.dtype, places.shape)


def isin(x: Value, values: Any, *, invert: bool = False, assume_unique: bool = False, kind: Any = None) -> Value:
    """Return where a value is one of some constants."""
    del assume_unique, kind
    known = sorted(values) if isinstance(values, set | frozenset) else np.asarray(values).ravel().tolist()
    flags = [apply(np.equal, x, np.asarray(value, object) if isinstance(value, str) else value) for value in known]
    if not flags:
        untraceable("looks for values in an empty list", "leave it out")
    found = flags[0]
    for flag in flags[1:]:
        found = apply(np.logical_or, found, flag)
    return apply(np.logical_not, found) if invert else found


def sort(x: Value, axis: int = -1) -> Value:
    """Return the elements of each row in order; NaN comes last."""
    at = axis_of(x, axis)
    size = static(x, at, "sorts")
    graph, work = x.graph, x.work()
    if work.dtype.kind != "f":
        ordered, _ = graph.ops("TopK", work, np.array([size]), dtypes=(work.dtype, I64), axis=at, largest=0, sorted=1)
        return x.same(ordered, x.shape)
    unknown = graph.op("IsNaN", work, dtype=BOOL)
    filled = graph.where(unknown, np.array(np.inf, work.dtype), work)
    ordered, _ = graph.ops("TopK", filled, np.array([size]), dtypes=(work.dtype, I64), axis=at, largest=0, sorted=1)
    missing = reducing.sum_(Value(graph, unknown, BOOL, x.shape), at, keepdims=True)
    places = np.arange(size).reshape([-1 if axis == at else 1 for axis in range(x.ndim)])
    beyond = apply(np.greater_equal, places, apply(np.subtract, size, missing))
    return where(beyond, np.asarray(np.nan, x.dtype), x.same(ordered, x.shape))


def median(x: Value, axis: Any = None, *, keepdims: bool = False) -> Value:
    """Return the middle element of each row, or the mean of the two; NaN where one is NaN."""
    if axis is None:
        return reducing.mean(x, axis)  # which says why all rows at once cannot be
    at = axis_of(x, axis)
    size = static(x, at, "takes the median of")
    middle = slice((size - 1) // 2, size // 2 + 1)
    answer = reducing.mean(indexing.get(sort(x, at), (*(slice(None),) * at, middle)), at, keepdims=keepdims)
    if x.dtype.kind != "f":
        return answer
    unknown = reducing.any_(apply(np.isnan, x), at, keepdims=keepdims)
    return where(unknown, np.asarray(np.nan, x.dtype), answer)


def nan_to_num(x: Value, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Value:  # noqa: FBT001, FBT002 (numpy's)
    """Return the values with numbers for NaN and the infinities."""
    del copy
    if x.dtype.kind != "f":
        return x
    most = np.finfo(x.dtype)
    filled = where(apply(np.isnan, x), np.asarray(nan, x.dtype), x)
    high, low = (most.max if posinf is None else posinf), (most.min if neginf is None else neginf)
    filled = where(apply(np.equal, filled, np.inf), np.asarray(high, x.dtype), filled)
    return where(apply(np.equal, filled, -np.inf), np.asarray(low, x.dtype), filled)


def full_like(x: Value, fill_value: Any, dtype: Any = None) -> Value:
    """Return an array of one value, as many rows as ``x`` has."""
    kind = np.dtype(dtype) if dtype is not None else x.dtype
    return shaping.broadcast_to(constant(x.graph, fill_value, kind), x.shape) if x.shape else lift(x.graph, fill_value)


def diff(x: Value, n: int = 1, axis: int = -1) -> Value:
    """Return the differences between neighbours."""
    at = axis_of(x, axis)
    for _ in range(n):
        size = static(x, at, "takes the differences of")
        lead = (slice(None),) * at
        after, before = (indexing.get(x, (*lead, part)) for part in (slice(1, size), slice(0, size - 1)))
        x = apply(np.not_equal if x.dtype == BOOL else np.subtract, after, before)
    return x


def dot(left: Any, right: Any) -> Value:
    """Return the product of vectors, matrices or numbers."""
    graph = graph_of([left, right])
    a, b = lift(graph, left), lift(graph, right)
    return apply(np.multiply, a, b) if not a.ndim or not b.ndim else matmul(a, b)


def average(x: Value, axis: Any = None, weights: Any = None) -> Value:
    """Return the weighted mean."""
    if weights is None:
        return reducing.mean(x, axis)
    given = np.asarray(weights)
    kind = np.result_type(x.dtype, given.dtype, *([F64] if x.dtype.kind in "iub" else []))
    total = reducing.sum_(apply(np.multiply, x, given.astype(kind)), axis, dtype=kind)
    return apply(np.divide, total, given.sum(dtype=kind))


def column_stack(values: Any) -> Value:
    """Return vectors and matrices side by side."""
    graph = graph_of(values)
    parts = [lift(graph, value) for value in values]
    return shaping.concatenate([part if part.ndim > 1 else shaping.expand(part, 1) for part in parts], 1)


def hstack(values: Any) -> Value:
    """Return matrices side by side."""
    first = next(value for value in values if isinstance(value, Value))
    return shaping.concatenate(values, 0 if first.ndim == 1 else 1)


def atleast_2d(x: Value) -> Value:
    """Return a vector as one row."""
    return shaping.expand(x, 0) if x.ndim == 1 else x


def flip(x: Value, axis: Any = None) -> Value:
    """Return the elements of an axis in reverse."""
    at = axis_of(x, axis) if axis is not None else next(iter(range(x.ndim)))
    return indexing.get(x, (*(slice(None),) * at, slice(None, None, -1)))


def repeat(x: Value, repeats: Any, axis: Any = None) -> Value:
    """Return each element of an axis several times."""
    if axis is None:
        untraceable("repeats elements without an axis", "give the axis: np.repeat(x, n, axis=1)")
    at = axis_of(x, axis)
    size = static(x, at, "repeats")
    return indexing.get(x, (*(slice(None),) * at, np.repeat(np.arange(size), repeats)))


def tile(x: Value, reps: Any) -> Value:
    """Return the array several times along its axes."""
    times = reps if isinstance(reps, tuple) else (reps,)
    times = (*(1,) * (x.ndim - len(times)), *times)
    for axis, number in enumerate(times):
        if number != 1:
            static(x, axis, "repeats")
            x = shaping.tile(x, number, axis)
    return x


def split(x: Value, sections: Any, axis: int = 0) -> list[Value]:
    """Return parts of an axis."""
    at = axis_of(x, axis)
    pieces = np.array_split(np.arange(static(x, at, "splits")), sections)
    return [indexing.get(x, (*(slice(None),) * at, piece)) for piece in pieces]


def norm(x: Value, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Value:  # noqa: A002, FBT001, FBT002 (numpy's)
    """Return the length of each row: Euclidean, the sum or the largest of the magnitudes."""
    if ord in {None, 2}:
        return reducing.norm(x, axis, keepdims=keepdims)
    size = apply(np.absolute, x)
    if ord == 1:
        return reducing.sum_(size, axis, keepdims=keepdims)
    if ord == np.inf:
        return reducing.maximum(size, axis, keepdims=keepdims)
    return untraceable(f"takes the norm of order {ord}", "use 1, 2 or infinity")


def outer(left: Any, right: Any) -> Value:
    """Return all products of two vectors."""
    graph = graph_of([left, right])
    return apply(np.multiply, shaping.expand(lift(graph, left), 1), lift(graph, right))


def count_nonzero(x: Value, axis: Any = None, *, keepdims: bool = False) -> Value:
    """Return how many elements are not zero."""
    return reducing.sum_(apply(np.not_equal, x, 0), axis, keepdims=keepdims)


def _ignoring_nan(function: Callable[..., Value], filler: float) -> Callable[..., Value]:
    def call(x: Value, axis: Any = None, *, keepdims: bool = False) -> Value:
        if x.dtype.kind != "f":
            return function(x, axis, keepdims=keepdims)
        filled = where(apply(np.isnan, x), np.asarray(filler, x.dtype), x)
        answer = function(filled, axis, keepdims=keepdims)
        if filler == 0:
            return answer
        nothing = reducing.all_(apply(np.isnan, x), axis, keepdims=keepdims)
        return where(nothing, np.asarray(np.nan, x.dtype), answer)

    return call


def nanmean(x: Value, axis: Any = None, *, keepdims: bool = False) -> Value:
    """Return the mean of what is there."""
    if x.dtype.kind != "f":
        return reducing.mean(x, axis, keepdims=keepdims)
    there = apply(np.logical_not, apply(np.isnan, x))
    number = reducing.sum_(there, axis, keepdims=keepdims)
    return apply(np.divide, _ignoring_nan(reducing.sum_, 0)(x, axis, keepdims=keepdims), astype(number, x.dtype))


def _as_is(x: Value, *_: Any, **__: Any) -> Value:
    return finish(x.graph, x.tensor, x.dtype, x.shape)


def _shape_like(fill: Any) -> Callable[..., Value]:
    def call(x: Value, dtype: Any = None, **_: Any) -> Value:
        return full_like(x, fill, dtype)

    return call


def vstack(values: Any) -> Value:
    """Return rows below one another; of vectors over the batch, a matrix whose second axis is the batch."""
    return (
        shaping.stack(values, 0)
        if all(getattr(value, "ndim", 1) == 1 for value in values)
        else shaping.concatenate(values, 0)
    )


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.clip: lambda x, a_min=None, a_max=None, **more: clip(x, more.get("min", a_min), more.get("max", a_max)),
    np.round: round_, np.around: round_, np.searchsorted: lambda a, v, side="left": searchsorted(a, v, side),
    np.digitize: digitize, np.interp: interp, np.take: take, np.take_along_axis: take_along_axis,
    np.sort: sort, np.median: median, np.isin: isin,
    np.nan_to_num: nan_to_num, np.full_like: full_like, np.zeros_like: _shape_like(0), np.ones_like: _shape_like(1),
    np.empty_like: _shape_like(0), np.diff: diff, np.dot: dot, np.average: average, np.column_stack: column_stack,
    np.hstack: hstack, np.vstack: vstack, np.atleast_2d: atleast_2d, np.flip: flip,
    np.fliplr: lambda x: flip(x, 1), np.repeat: repeat, np.tile: tile, np.split: split, np.array_split: split,
    np.linalg.norm: norm, np.outer: outer, np.count_nonzero: count_nonzero, np.where: where, np.select: select,
    np.concatenate: shaping.concatenate, np.stack: shaping.stack, np.einsum: einsum, np.copy: _as_is,
    np.reshape: shaping.reshape, np.ravel: lambda x: shaping.reshape(x, -1),
    np.transpose: shaping.transpose, np.squeeze: shaping.squeeze, np.sum: reducing.sum_, np.prod: reducing.prod,
    np.expand_dims: lambda x, axis: shaping.expand(x, axis % (x.ndim + 1)), np.mean: reducing.mean,
    np.std: reducing.std, np.var: reducing.var, np.max: reducing.maximum, np.min: reducing.minimum,
    np.amax: reducing.maximum, np.amin: reducing.minimum, np.any: reducing.any_, np.all: reducing.all_,
    np.argmax: reducing.argmax, np.argmin: reducing.argmin, np.cumsum: reducing.cumsum, np.ptp: reducing.ptp,
    np.nansum: _ignoring_nan(reducing.sum_, 0), np.nanmax: _ignoring_nan(reducing.maximum, -np.inf),
    np.nanmin: _ignoring_nan(reducing.minimum, np.inf), np.nanmean: nanmean,
    np.broadcast_to: lambda x, shape: shaping.broadcast_to(x, tuple(shape)), np.shape: lambda x: x.shape,
    np.ndim: lambda x: x.ndim, np.size: lambda x, axis=None: x.shape[axis] if axis is not None else _size(x),
}  # fmt: skip


def _size(x: Value) -> Any:
    if any(isinstance(size, Rows) for size in x.shape):
        untraceable("asks for the number of elements of the batch", "use x.shape[1]")
    return count(x.shape)[0]
