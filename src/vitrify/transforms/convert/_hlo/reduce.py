"""StableHLO's products and sums over axes: dot products, convolutions, reductions, windows.

Source: https://openxla.org/stablehlo/spec
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from vitrify.transforms.convert._building.graph import BOOL, F32, F64, I64, Tensor
from vitrify.transforms.convert._building.steps import refuse
from vitrify.transforms.convert._hlo.walk import Op, Value, Walk, converts

_REDUCED = {
    "stablehlo.add": ("ReduceSum", 0),
    "stablehlo.multiply": ("ReduceProd", 1),
    "stablehlo.maximum": ("ReduceMax", None),
    "stablehlo.minimum": ("ReduceMin", None),
    "stablehlo.and": ("ReduceMin", 1),
    "stablehlo.or": ("ReduceMax", 0),
}
_COMBINED = {"ReduceSum": "Add", "ReduceProd": "Mul", "ReduceMax": "Max", "ReduceMin": "Min"}
_INT32 = np.dtype(np.int32)
_MOST_SPATIAL = 3


@converts("dot_general")
def dot_general(walk: Walk, op: Op) -> Value:
    """A matrix product where it is one as it stands, else by the names of its axes."""
    numbers = stablehlo.DotDimensionNumbers(op.attribute("dot_dimension_numbers"))
    left, right = op.operands
    batch = list(numbers.lhs_batching_dimensions), list(numbers.rhs_batching_dimensions)
    inner = list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)
    x, y = (walk.graph.cast(walk.full(one), op.dtype) for one in (left, right))
    ranks = len(left.sizes), len(right.sizes)
    front = list(range(len(batch[0])))
    straight = batch == (front, front) and inner == ([ranks[0] - 1], [len(front)])
    two = ranks[1] == len(front) + 2 and (ranks[0] == ranks[1] or not front)
    if straight and two:
        return Value(walk.graph.op("MatMul", x, y, dtype=op.dtype), op.sizes)
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    names = [[""] * ranks[0], [""] * ranks[1]]
    for places in (batch, inner):
        for one, other in zip(*places, strict=True):
            names[0][one] = names[1][other] = next(letters)
    for side in names:
        side[:] = [name or next(letters) for name in side]
    shared = [names[0][at] for at in batch[0]]
    free = [name for at, name in enumerate(names[0]) if at not in {*batch[0], *inner[0]}]
    free += [name for at, name in enumerate(names[1]) if at not in {*batch[1], *inner[1]}]
    equation = f"{''.join(names[0])},{''.join(names[1])}->{''.join([*shared, *free])}"
    return Value(walk.graph.op("Einsum", x, y, dtype=op.dtype, equation=equation), op.sizes)


@converts("convolution")
def convolution(walk: Walk, op: Op) -> Value:
    """Conv, with the axes in ONNX's order; with a dilated input, ConvTranspose."""
    numbers = stablehlo.ConvDimensionNumbers(op.attribute("dimension_numbers"))
    spatial = len(numbers.input_spatial_dimensions)
    ones = [1] * spatial
    reversal = op.attribute("window_reversal")
    if op.integer("batch_group_count", 1) != 1 or (reversal is not None and any(reversal)):
        refuse("with groups of batches or a reversed kernel", "write it as a plain convolution")
    if op.dtype != F32:
        refuse(f"in {op.dtype}, for which ONNX Runtime has no kernel", "compute it in float32")
    if not 1 <= spatial <= _MOST_SPATIAL:
        refuse(f"over {spatial} axes", "convolve over one to three axes")
    order = [numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions]
    kernel = [numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension]
    kernel += list(numbers.kernel_spatial_dimensions)
    x, w = _in_order(walk, op.operands[0], order), _in_order(walk, op.operands[1], kernel)
    pads = np.array(op.integers("padding", [0, 0] * spatial)).reshape(spatial, 2)
    groups, inner = op.integer("feature_group_count", 1), op.integers("lhs_dilation", ones)
    settings: dict[str, Any] = {"dilations": op.integers("rhs_dilation", ones), "group": groups}
    if inner != ones:
        data = _transposed(walk, x, w, op, pads, settings, inner)
    else:
        x, pads = _cropped(walk, x, pads)
        strides = op.integers("window_strides", ones)
        around = pads.T.ravel().tolist()
        data = walk.graph.op("Conv", x.data, w.data, dtype=F32, strides=strides, pads=around, **settings)
    back = [numbers.output_batch_dimension, numbers.output_feature_dimension, *numbers.output_spatial_dimensions]
    return Value(_moved(walk, data, np.argsort(back).tolist()), op.sizes)


def _transposed(  # noqa: PLR0917 (what a convolution is)
    walk: Walk, x: Value, w: Value, op: Op, pads: np.ndarray, settings: dict[str, Any], inner: list[int]
) -> Tensor:
    """Return the convolution of what is spread out: ConvTranspose, whose kernel is the other way round."""
    spatial = len(inner)
    if op.integers("window_strides", [1] * spatial) != [1] * spatial or settings["group"] != 1:
        refuse("of a dilated input with strides or groups", "write it as a transposed convolution")
    kernel = walk.known(w)
    if kernel is None:
        refuse("of a dilated input with a kernel that is computed", "keep the kernel constant")
    axes = tuple(range(2, 2 + spatial))
    turned = np.ascontiguousarray(np.flip(kernel, axes).swapaxes(0, 1))
    dilations = np.array(settings["dilations"])
    reach = (np.array(turned.shape[2:]) - 1) * dilations
    around = reach[:, None] - pads
    if (around < 0).any():
        refuse("of a dilated input that is padded by more than its kernel", "pad it before")
    more: dict[str, Any] = {"strides": inner, "pads": around.T.ravel().tolist(), **settings}
    return walk.graph.op("ConvTranspose", x.data, turned, dtype=F32, **more)


def _cropped(walk: Walk, x: Value, pads: np.ndarray) -> tuple[Value, np.ndarray]:
    """Return an input with what negative padding takes away taken away."""
    if (pads >= 0).all():
        return x, pads
    start = np.maximum(-pads[:, 0], 0)
    limit = np.where(pads[:, 1] < 0, pads[:, 1], np.iinfo(np.int64).max)
    axes = np.arange(2, 2 + len(pads))
    return Value(walk.graph.op("Slice", x.data, start, limit, axes, dtype=x.dtype), x.sizes), np.maximum(pads, 0)


def _in_order(walk: Walk, value: Value, order: list[int]) -> Value:
    sizes = tuple(value.sizes[axis] for axis in order)
    if (known := walk.known(value)) is not None:
        return Value(np.ascontiguousarray(known.transpose(order)), sizes)
    return Value(_moved(walk, walk.full(value), order), sizes)


def _moved(walk: Walk, data: Tensor, order: list[int]) -> Tensor:
    return data if order == sorted(order) else walk.graph.op("Transpose", data, dtype=data.dtype, perm=order)


@converts("reduce")
def reduce(walk: Walk, op: Op) -> Value | list[Value]:
    """By one operation, or the place of the largest or smallest."""
    body, axes = op.operation.regions[0].blocks[0], op.integers("dimensions")
    inner = [one.operation for one in body.operations]
    if len(inner) == 2 and inner[0].name in _REDUCED and _is_plain(body, inner):  # noqa: PLR2004 (and its return)
        value, start = op.operands
        kind, neutral = _REDUCED[inner[0].name]
        return _combined(walk, op, _reduced(walk, value, kind, axes), kind, neutral, start)
    found = _arg(inner)
    if found is None or len(axes) != 1:
        refuse("with a function that is no sum, product, minimum, maximum or place of one", "reduce by one of those")
    value = op.operands[0]
    place = _first_place(walk, value, found, axes[0], op.operation.results[1])
    most = _reduced(walk, value, found.replace("Arg", "Reduce"), axes)
    return [Value(most, op.sizes), Value(place, op.sizes)]


def _is_plain(body: ir.Block, inner: list[ir.Operation]) -> bool:
    """Say whether a body is one operation on its two arguments."""
    given = [list(body.arguments).index(operand) for operand in inner[0].operands if operand in list(body.arguments)]
    return sorted(given) == [0, 1] and inner[1].operands[0] == inner[0].results[0]


def _arg(inner: list[ir.Operation]) -> str | None:
    """Return ArgMax or ArgMin where a body keeps the first best of pairs, NaN above all, as JAX writes it."""
    names = [one.name.partition(".")[2] for one in inner]
    if names != ["compare", "compare", "or", "compare", "compare", "and", "or", "select", "select", "return"]:
        return None
    directions = [
        stablehlo.ComparisonDirectionAttr(one.attributes["comparison_direction"]).value
        for one in inner
        if one.name == "stablehlo.compare"
    ]
    return {"GT": "ArgMax", "LT": "ArgMin"}.get(directions[0]) if directions[1:] == ["NE", "EQ", "LT"] else None


def _first_place(walk: Walk, value: Value, kind: str, axis: int, result: ir.Value) -> Tensor:
    """Return the place of the first NaN, or else of the first best."""
    graph, data = walk.graph, walk.full(value)
    data = graph.cast(data, _INT32) if data.dtype == BOOL else data
    place = graph.op(kind, data, dtype=I64, axis=axis, keepdims=0)
    if data.dtype.kind == "f":
        missing = graph.cast(graph.op("IsNaN", data, dtype=BOOL), _INT32)
        first = graph.op("ArgMax", missing, dtype=I64, axis=axis, keepdims=0)
        some = graph.cast(graph.reduce("ReduceMax", missing, axis), BOOL)
        place = graph.where(some, first, place)
    wanted = np.int64 if str(ir.RankedTensorType(result.type).element_type) == "i64" else np.int32
    return graph.cast(place, wanted)


def _reduced(walk: Walk, value: Value, kind: str, axes: list[int]) -> Tensor:
    """Return the reduction; of floats NaN wins, as ONNX Runtime's own does not always let it."""
    graph, data = walk.graph, walk.full(value)
    places = np.array(axes)
    if not axes:
        return data
    if data.dtype == BOOL or (data.dtype.itemsize < 4 and data.dtype.kind in "iu"):  # noqa: PLR2004 (bytes)
        given = graph.op(kind, graph.cast(data, _INT32), places, dtype=_INT32, keepdims=0)
        return graph.cast(given, data.dtype)
    given = graph.op(kind, data, places, dtype=data.dtype, keepdims=0)
    if data.dtype.kind == "f" and kind in {"ReduceMax", "ReduceMin"}:
        missing = graph.cast(graph.op("IsNaN", data, dtype=BOOL), _INT32)
        some = graph.cast(graph.op("ReduceMax", missing, places, dtype=_INT32, keepdims=0), BOOL)
        return graph.where(some, np.array(np.nan, data.dtype), given)
    return given


def _combined(  # noqa: PLR0917 (what a reduction is)
    walk: Walk, op: Op, data: Tensor, kind: str, neutral: int | None, start: Value
) -> Value:
    """Combine with the value that a reduction starts from, unless it changes nothing."""
    known = start.constant
    if known is not None and known.size == 1:
        value = known.ravel()[0]
        if neutral is None:
            info = np.iinfo(known.dtype) if known.dtype.kind in "iu" else None
            least = bool(value == (info.min if info else -np.inf)) if known.dtype != BOOL else not value
            most = bool(value == (info.max if info else np.inf)) if known.dtype != BOOL else bool(value)
            changes = not (least if kind == "ReduceMax" else most)
        else:
            changes = bool(value != neutral)
        if not changes:
            return Value(data, op.sizes)
    if data.dtype == BOOL:
        refuse("of booleans that starts from an odd value", "start from what changes nothing")
    return Value(walk.graph.op(_COMBINED[kind], data, walk.tensor(start), dtype=data.dtype), op.sizes)


@converts("reduce_window")
def reduce_window(walk: Walk, op: Op) -> Value:
    """Pooling, or sums so far along an axis."""
    body = op.operation.regions[0].blocks[0]
    inner = [one.operation for one in body.operations]
    if len(op.operands) != 2 or len(inner) != 2 or not _is_plain(body, inner):  # noqa: PLR2004 (a value, a start)
        refuse("with a function that is no sum or maximum", "pool by sums or maxima")
    rank = len(op.sizes)
    ones = [1] * rank
    window, strides = op.integers("window_dimensions"), op.integers("window_strides", ones)
    pads = np.array(op.integers("padding", [0, 0] * rank)).reshape(rank, 2)
    dilations = op.integers("window_dilations", ones)
    axes = [axis for axis in range(rank) if window[axis] != 1 or strides[axis] != 1 or pads[axis].any()]
    if op.integers("base_dilations", ones) != ones:
        refuse("of a dilated input", "pool without dilation")
    value = op.operands[0]
    if (
        inner[0].name == "stablehlo.add"
        and len(axes) == 1
        and (sums := _sums(walk, value, axes[0], window, strides, pads))
    ):
        return Value(sums, op.sizes)
    if inner[0].name not in {"stablehlo.add", "stablehlo.maximum"} or not 1 <= len(axes) <= _MOST_SPATIAL:
        refuse(f"by {inner[0].name} over {len(axes)} axes", "pool by sums or maxima over one to three axes")
    if op.dtype != F32 and not (op.dtype == F64 and inner[0].name == "stablehlo.maximum"):
        refuse(f"in {op.dtype}, for which ONNX Runtime has no kernel", "compute it in float32")
    start = op.operands[1].constant
    if start is None or start.ravel()[0] != (0 if inner[0].name == "stablehlo.add" else -np.inf):
        refuse("that starts from an odd value", "start from what changes nothing")
    return _pooled(walk, op, axes, window, strides, pads, dilations, largest=inner[0].name == "stablehlo.maximum")


def _sums(  # noqa: PLR0917 (what a window is)
    walk: Walk, value: Value, axis: int, window: list[int], strides: list[int], pads: np.ndarray
) -> Tensor | None:
    """Return sums so far, where a window reaches from one end to here."""
    size = value.sizes[axis]
    if size is None or window[axis] != size or strides[axis] != 1 or size == 1:
        return None
    ends = pads[axis].tolist()
    if ends not in ([size - 1, 0], [0, size - 1]) or value.dtype.itemsize < 4:  # noqa: PLR2004 (bytes)
        return None
    return walk.graph.op("CumSum", walk.full(value), np.array(axis), dtype=value.dtype, reverse=int(ends[0] == 0))


def _pooled(  # noqa: PLR0917 (what a window is)
    walk: Walk,
    op: Op,
    axes: list[int],
    window: list[int],
    strides: list[int],
    pads: np.ndarray,
    dilations: list[int],
    *,
    largest: bool,
) -> Value:
    graph, rank = walk.graph, len(op.sizes)
    others = [axis for axis in range(rank) if axis not in axes]
    if len(others) != 2:  # noqa: PLR2004 (batch and channels)
        refuse(f"of {rank} axes over {len(axes)}", "pool images with a batch and a channel axis")
    order = [*others, *axes]
    data = _moved(walk, walk.full(op.operands[0]), order)
    shape = [window[axis] for axis in axes]
    more: dict[str, Any] = {
        "kernel_shape": shape,
        "strides": [strides[axis] for axis in axes],
        "pads": pads[axes].T.ravel().tolist(),
        "dilations": [dilations[axis] for axis in axes],
    }
    if largest:
        pooled = graph.op("MaxPool", data, dtype=data.dtype, **more)
        missing = graph.cast(graph.op("IsNaN", data, dtype=BOOL), F32)
        some = graph.compare("Greater", graph.op("MaxPool", missing, dtype=F32, **more), np.zeros((), F32))
        pooled = graph.where(some, np.array(np.nan, data.dtype), pooled)
    else:
        mean = graph.op("AveragePool", data, dtype=data.dtype, count_include_pad=1, **more)
        pooled = graph.binary("Mul", mean, np.array(np.prod(shape), data.dtype))
    return Value(_moved(walk, pooled, np.argsort(order).tolist()), op.sizes)
