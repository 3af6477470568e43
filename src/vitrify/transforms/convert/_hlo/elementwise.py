"""StableHLO's elementwise operations, as ONNX and XLA both have them: NaN, infinities and zeros are the same.

Source: https://openxla.org/stablehlo/spec
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo

from vitrify.transforms.convert._building.graph import BOOL, F32, F64, I64, Array, DType, Tensor
from vitrify.transforms.convert._building.steps import refuse
from vitrify.transforms.convert._hlo.walk import Op, Value, Walk, converts
from vitrify.transforms.convert._numerics.elementary import cbrt, expm1, log1p, tan
from vitrify.transforms.convert._trace.kernels import arctan2

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = Callable[..., Tensor]

_INT32 = np.dtype(np.int32)
_DIRECT = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "power": "Pow",
    "maximum": "Max",
    "minimum": "Min",
    "abs": "Abs",
    "negate": "Neg",
    "exponential": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "floor": "Floor",
    "ceil": "Ceil",
    "sine": "Sin",
    "cosine": "Cos",
    "tanh": "Tanh",
    "round_nearest_even": "Round",
}
_LOGIC = {"and": ("And", "BitwiseAnd"), "or": ("Or", "BitwiseOr"), "xor": ("Xor", "BitwiseXor")}
_COMPARE = {"EQ": "Equal", "LT": "Less", "LE": "LessOrEqual", "GT": "Greater", "GE": "GreaterOrEqual"}
_FOLDED: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "negate": np.negative,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "abs": np.abs,
    "not": np.invert,
    "select": np.where,
}
_COMPARED = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def elementwise(walk: Walk, op: Op, function: Function, dtype: DType | None = None) -> Value:
    """Return a function of each element; what is not broadcast yet is so afterwards, where nothing else is."""
    whole = next((one.whole for one in op.operands if one.whole is not None), None)
    if any(one.whole is None and one.sizes == op.sizes for one in op.operands):
        whole = None
    given = function(*(walk.tensor(one) for one in op.operands))
    return Value(given if dtype is None else walk.graph.cast(given, dtype), op.sizes, whole)


def folded(op: Op, function: Callable[..., Any]) -> Value | None:
    """Return a function of constants of integers and booleans, as sizes are; None where they are not."""
    known = [one.constant for one in op.operands]
    arrays = [array for array in known if array is not None and array.dtype.kind in "biu"]
    if len(arrays) < len(known):
        return None
    whole = next((one.whole for one in op.operands if one.whole is not None), None)
    if any(one.whole is None for one in op.operands):
        whole = None
    return Value(np.asarray(function(*arrays)).astype(op.dtype), op.sizes, whole)


def _in(walk: Walk, wide: DType, function: Function) -> Function:
    """Compute in another type, and give the operands' own back: of integers the lowest bits stay right."""

    def run(*tensors: Tensor) -> Tensor:
        given = function(*(walk.graph.cast(tensor, wide) for tensor in tensors))
        return walk.graph.cast(given, tensors[0].dtype)

    return run


def _arithmetic(walk: Walk, kind: str, dtype: DType) -> Function:
    def run(*tensors: Tensor) -> Tensor:
        return walk.graph.op(kind, *tensors, dtype=tensors[0].dtype)

    if dtype.kind in "iu" and dtype not in {_INT32, I64}:
        return _in(walk, _INT32 if dtype.itemsize < 4 else I64, run)  # noqa: PLR2004 (bytes)
    if dtype == np.float16 and kind in {"Sin", "Cos", "Tan"}:
        return _in(walk, F32, run)
    return run


@converts(*_DIRECT)
def direct(walk: Walk, op: Op) -> Value:
    """What ONNX has by another name."""
    name = op.name.partition(".")[2]
    if op.dtype == BOOL:  # addition and multiplication of booleans are or and and
        kind = {"add": "Or", "maximum": "Or", "multiply": "And", "minimum": "And"}.get(name)
        if kind is None:
            refuse("of booleans", "compute with integers")
        return elementwise(walk, op, lambda *two: walk.graph.op(kind, *two, dtype=BOOL))
    if name in _FOLDED and (known := folded(op, _FOLDED[name])) is not None:
        return known
    return elementwise(walk, op, _arithmetic(walk, _DIRECT[name], op.dtype))


@converts("divide", "remainder")
def divide(walk: Walk, op: Op) -> Value:
    """Of floats as ONNX has it; of integers towards zero, and by zero -1, or all that is left."""
    graph, rest = walk.graph, op.name.endswith("remainder")
    kind = "Mod" if rest else "Div"

    def run(x: Tensor, y: Tensor) -> Tensor:
        return graph.op(kind, x, y, dtype=x.dtype, fmod=1 if rest else None)

    def whole(x: Tensor, y: Tensor) -> Tensor:
        one = np.ones((), x.dtype)
        by_zero, by_minus = (graph.compare("Equal", y, np.array(value, y.dtype)) for value in (0, -1))
        unusual = graph.op("Or", by_zero, by_minus, dtype=BOOL)
        usual = run(x, graph.where(unusual, one, y))
        if rest:
            return graph.where(by_zero, x, graph.where(by_minus, np.zeros((), x.dtype), usual))
        return graph.where(by_zero, -one, graph.where(by_minus, graph.unary("Neg", x), usual))

    if op.dtype.kind == "f":
        return elementwise(walk, op, run)
    if op.dtype.kind == "u" or op.dtype.itemsize < 4:  # noqa: PLR2004 (bytes)
        refuse(f"of {op.dtype}", "compute with int32 or int64")
    divisor = op.operands[1].constant
    return elementwise(walk, op, run if divisor is not None and not np.isin(divisor, [0, -1]).any() else whole)


@converts(*_LOGIC)
def logic(walk: Walk, op: Op) -> Value:
    """Of booleans, or bit by bit."""
    name = op.name.partition(".")[2]
    if name in _FOLDED and (known := folded(op, _FOLDED[name])) is not None:
        return known
    kind = _LOGIC[name][op.dtype != BOOL]
    return elementwise(walk, op, lambda *two: walk.graph.op(kind, *two, dtype=op.dtype))


@converts("not")
def invert(walk: Walk, op: Op) -> Value:
    """Of booleans, or bit by bit."""
    kind = "Not" if op.dtype == BOOL else "BitwiseNot"
    return elementwise(walk, op, lambda x: walk.graph.op(kind, x, dtype=op.dtype))


@converts("compare")
def compare(walk: Walk, op: Op) -> Value:
    """NaN is equal to nothing."""
    direction = stablehlo.ComparisonDirectionAttr(op.attribute("comparison_direction")).value
    if (known := folded(op, _COMPARED[direction])) is not None:
        return known
    kind = op.operands[0].dtype
    graph = walk.graph

    def run(x: Tensor, y: Tensor) -> Tensor:
        if kind == BOOL and direction not in {"EQ", "NE"}:
            x, y = graph.cast(x, _INT32), graph.cast(y, _INT32)
        elif kind.kind in "iu" and kind not in {_INT32, I64}:
            x, y = graph.cast(x, I64), graph.cast(y, I64)
        if direction == "NE":
            return graph.op("Not", graph.compare("Equal", x, y), dtype=BOOL)
        return graph.compare(_COMPARE[direction], x, y)

    return elementwise(walk, op, run)


@converts("select")
def select(walk: Walk, op: Op) -> Value:
    """Of each element one or the other."""
    if (known := folded(op, np.where)) is not None:
        return known
    return elementwise(walk, op, walk.select)


@converts("clamp")
def clamp(walk: Walk, op: Op) -> Value:
    """Between bounds; NaN stays NaN."""
    known = folded(op, lambda low, x, high: np.minimum(np.maximum(x, low), high))
    if known is not None:
        return known
    low, high = (_arithmetic(walk, kind, op.dtype) for kind in ("Max", "Min"))
    return elementwise(walk, op, lambda least, x, most: high(low(x, least), most))


@converts("convert")
def convert(walk: Walk, op: Op) -> Value:
    """Of floats to integers: towards zero, what is too large to the largest, NaN to zero."""
    [value] = op.operands
    if value.constant is not None and not (value.dtype.kind == "f" and op.dtype.kind in "iu"):
        return Value(value.constant.astype(op.dtype), op.sizes, value.whole)
    graph = walk.graph

    def run(x: Tensor) -> Tensor:
        if op.dtype == BOOL:
            return graph.op("Not", graph.compare("Equal", x, np.zeros((), x.dtype)), dtype=BOOL)
        if x.dtype.kind != "f" or op.dtype.kind not in "iu":
            return graph.cast(x, op.dtype)
        return _saturated(walk, x, op.dtype)

    return elementwise(walk, op, run)


def _saturated(walk: Walk, x: Tensor, dtype: DType) -> Tensor:
    graph = walk.graph
    x = graph.cast(x, F32) if x.dtype == np.float16 else x
    bounds = np.iinfo(dtype)
    above = graph.compare("GreaterOrEqual", x, np.array(float(bounds.max) + 1, x.dtype))
    below = graph.compare("Less", x, np.array(float(bounds.min), x.dtype))
    unusual = graph.op("Or", graph.op("IsNaN", x, dtype=BOOL), graph.op("Or", above, below, dtype=BOOL), dtype=BOOL)
    usual = graph.cast(graph.where(unusual, np.zeros((), x.dtype), x), dtype)
    most, least = (graph.constant(np.array(value, dtype)) for value in (bounds.max, bounds.min))
    return walk.select(above, most, walk.select(below, least, usual))


@converts("sign")
def sign(walk: Walk, op: Op) -> Value:
    """NaN stays NaN, and zero keeps its sign."""
    graph = walk.graph

    def run(x: Tensor) -> Tensor:
        zero = np.zeros((), x.dtype)
        moves = graph.op("Or", graph.compare("Less", x, zero), graph.compare("Greater", x, zero), dtype=BOOL)
        return graph.where(moves, graph.unary("Sign", x), x)

    return elementwise(walk, op, run)


@converts("round_nearest_afz")
def round_away(walk: Walk, op: Op) -> Value:
    """Halves away from zero."""
    graph = walk.graph

    def run(x: Tensor) -> Tensor:
        size = graph.unary("Abs", x)
        down = graph.unary("Floor", size)
        up = graph.compare("GreaterOrEqual", graph.binary("Sub", size, down), np.array(0.5, x.dtype))
        near = graph.binary("Add", down, graph.cast(up, x.dtype))
        return graph.where(graph.compare("Less", x, np.zeros((), x.dtype)), graph.unary("Neg", near), near)

    return elementwise(walk, op, run)


@converts("is_finite")
def is_finite(walk: Walk, op: Op) -> Value:
    """A number less itself is zero, but for infinities and NaN."""
    graph = walk.graph
    return elementwise(walk, op, lambda x: graph.compare("Equal", graph.binary("Sub", x, x), np.zeros((), x.dtype)))


@converts("logistic")
def logistic(walk: Walk, op: Op) -> Value:
    """``1 / (1 + exp(-x))``."""
    return elementwise(walk, op, walk.graph.sigmoid)


@converts("rsqrt")
def rsqrt(walk: Walk, op: Op) -> Value:
    """``1 / sqrt(x)``."""
    graph = walk.graph
    return elementwise(walk, op, lambda x: graph.binary("Div", np.ones((), x.dtype), graph.unary("Sqrt", x)))


@converts("cbrt")
def cube_root(walk: Walk, op: Op) -> Value:
    """Of a negative number too."""
    return elementwise(walk, op, lambda x: cbrt(walk.graph, x))


@converts("tan")
def tangent(walk: Walk, op: Op) -> Value:
    """In double, which ONNX Runtime lacks, by its parts."""
    if op.dtype == F64:
        return elementwise(walk, op, lambda x: tan(walk.graph, x))
    return elementwise(walk, op, _arithmetic(walk, "Tan", op.dtype))


@converts("atan2")
def angle(walk: Walk, op: Op) -> Value:
    """Of a point, from -pi to pi."""
    return elementwise(walk, op, lambda y, x: arctan2(walk.graph, y, x))


@converts("log_plus_one")
def log_plus_one(walk: Walk, op: Op) -> Value:
    """``log(1 + x)``, right for a small x."""
    return elementwise(walk, op, lambda x: log1p(walk.graph, x))


@converts("exponential_minus_one")
def exponential_minus_one(walk: Walk, op: Op) -> Value:
    """``exp(x) - 1``, right for a small x."""
    return elementwise(walk, op, lambda x: expm1(walk.graph, x))


@converts("optimization_barrier")
def barrier(walk: Walk, op: Op) -> list[Value]:
    """Nothing is computed."""
    del walk
    return list(op.operands)


def constant_of(attribute: Any, op: Op) -> Array:
    """Return the elements of a constant."""
    array = np.asarray(attribute)
    return np.ascontiguousarray(array.astype(op.dtype, copy=False)).reshape(array.shape)


@converts("constant")
def constant(walk: Walk, op: Op) -> Value:
    """As it is; one value a whole array is broadcast when it has to be."""
    del walk
    attribute = op.attribute("value")
    sizes = op.sizes
    assert all(size is not None for size in sizes)
    if attribute.is_splat and len(sizes):
        element = np.asarray(attribute.get_splat_value().value, op.dtype)
        return Value(element.reshape([1] * len(sizes)), sizes, np.array(sizes, I64))
    return Value(constant_of(attribute, op), sizes)


@converts("custom_call")
def custom_call(walk: Walk, op: Op) -> list[Value]:
    """Marks of where a value lies, and assertions of sizes, compute nothing; every other call is unknown."""
    del walk
    target = op.text("call_target_name")
    if target in {"Sharding", "annotate_device_placement"}:
        return list(op.operands)
    if target != "shape_assertion":
        refuse("calls what is not in the module", "compute it from operations of jax.numpy that StableHLO has")
    return []
