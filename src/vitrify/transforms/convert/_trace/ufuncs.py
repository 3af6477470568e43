"""NumPy's and SciPy's universal functions as ONNX operators, each in the loop type that NumPy itself would choose.

A kernel is given tensors of one working type (:mod:`._trace.value`) and returns one. Arithmetic, comparisons and
rounding are equal to the bit; transcendental functions to a few ulps, as between any two mathematical libraries.

Source: https://numpy.org/doc/stable/reference/ufuncs.html, ``numpy/_core/src/npymath/npy_math_internal.h.src``
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.graph import BOOL, F32, TEXT, Graph, Tensor
from vitrify.transforms.convert._numerics import elementary
from vitrify.transforms.convert._numerics.erf import erf
from vitrify.transforms.convert._trace import kernels
from vitrify.transforms.convert._trace.errors import untraceable
from vitrify.transforms.convert._trace.matmul import matmul
from vitrify.transforms.convert._trace.value import (
    Operand,
    Value,
    astype,
    broadcast,
    constant,
    finish,
    graph_of,
    lift,
    truth,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.transforms.convert._building.graph import DType

    Kernel = Callable[..., Tensor]


@dataclass(frozen=True)
class Rule:
    """How one function is computed.

    Attributes:
        kernel: From the graph and one tensor an operand to the result.
        bools: The same for booleans; None where they are refused or NumPy takes them for numbers.
        modular: Whether unsigned 64-bit integers may be computed as signed ones.
    """

    kernel: Kernel
    bools: Kernel | None = None
    modular: bool = False


def _op(kind: str, **attributes: Any) -> Kernel:
    def kernel(graph: Graph, *operands: Tensor) -> Tensor:
        return graph.op(kind, *operands, dtype=operands[0].dtype, **attributes)

    return kernel


def _compare(kind: str, *, negated: bool = False) -> Kernel:
    def kernel(graph: Graph, left: Tensor, right: Tensor) -> Tensor:
        found = graph.compare(kind, left, right)
        return graph.op("Not", found, dtype=BOOL) if negated else found

    return kernel


def _on_reals(kind: str, integers: bool) -> Kernel:  # noqa: FBT001 (what every integer answers)
    """Return a test of floats, which every integer answers alike."""

    def kernel(graph: Graph, x: Tensor) -> Tensor:
        if x.dtype.kind == "f":
            return graph.op(kind, x, dtype=BOOL)
        same = graph.compare("Equal", x, x) if x.dtype != BOOL else graph.op("Equal", x, x, dtype=BOOL)
        return same if integers else graph.op("Not", same, dtype=BOOL)

    return kernel


_and, _or, _xor = _op("And"), _op("Or"), _op("Xor")
_same = _op("Equal")

RULES: dict[np.ufunc, Rule] = {
    np.add: Rule(_op("Add"), _or, modular=True),
    np.subtract: Rule(_op("Sub"), modular=True),
    np.multiply: Rule(_op("Mul"), _and, modular=True),
    np.divide: Rule(_op("Div")),
    np.floor_divide: Rule(kernels.floor_divide),
    np.remainder: Rule(kernels.remainder),
    np.fmod: Rule(kernels.fmod),
    np.negative: Rule(_op("Neg"), modular=True),
    np.positive: Rule(lambda _, x: x, modular=True),
    np.absolute: Rule(_op("Abs"), lambda _, x: x),
    np.fabs: Rule(_op("Abs")),
    np.sign: Rule(_op("Sign")),
    np.sqrt: Rule(_op("Sqrt")),
    np.square: Rule(lambda graph, x: graph.binary("Mul", x, x), modular=True),
    np.reciprocal: Rule(kernels.reciprocal),
    np.floor: Rule(kernels.on_floats("Floor"), lambda _, x: x),
    np.ceil: Rule(kernels.on_floats("Ceil"), lambda _, x: x),
    np.trunc: Rule(kernels.trunc, lambda _, x: x),
    np.rint: Rule(_op("Round")),
    np.isnan: Rule(_on_reals("IsNaN", integers=False), _on_reals("IsNaN", integers=False)),
    np.isinf: Rule(_on_reals("IsInf", integers=False), _on_reals("IsInf", integers=False)),
    np.isfinite: Rule(kernels.isfinite, _on_reals("IsNaN", integers=True)),
    np.maximum: Rule(kernels.maximum, _or),
    np.minimum: Rule(kernels.minimum, _and),
    np.fmax: Rule(partial(kernels.ignoring_nan, kernels.maximum), _or),
    np.fmin: Rule(partial(kernels.ignoring_nan, kernels.minimum), _and),
    np.equal: Rule(_compare("Equal"), _same, modular=True),
    np.not_equal: Rule(_compare("Equal", negated=True), _xor, modular=True),
    np.less: Rule(_compare("Less"), lambda g, a, b: _and(g, g.op("Not", a, dtype=BOOL), b)),
    np.less_equal: Rule(_compare("LessOrEqual"), lambda g, a, b: _or(g, g.op("Not", a, dtype=BOOL), b)),
    np.greater: Rule(_compare("Greater"), lambda g, a, b: _and(g, a, g.op("Not", b, dtype=BOOL))),
    np.greater_equal: Rule(_compare("GreaterOrEqual"), lambda g, a, b: _or(g, a, g.op("Not", b, dtype=BOOL))),
    np.bitwise_and: Rule(_op("BitwiseAnd"), _and, modular=True),
    np.bitwise_or: Rule(_op("BitwiseOr"), _or, modular=True),
    np.bitwise_xor: Rule(_op("BitwiseXor"), _xor, modular=True),
    np.invert: Rule(_op("BitwiseNot"), _op("Not"), modular=True),
    np.exp: Rule(_op("Exp")),
    np.exp2: Rule(lambda graph, x: graph.binary("Pow", np.array(2, x.dtype), x)),
    np.log: Rule(_op("Log")),
    np.log2: Rule(partial(kernels.logarithm, math.log(2))),
    np.log10: Rule(partial(kernels.logarithm, math.log(10))),
    np.log1p: Rule(elementary.log1p),
    np.expm1: Rule(elementary.expm1),
    np.sin: Rule(_op("Sin")),
    np.cos: Rule(_op("Cos")),
    np.tan: Rule(elementary.tan),
    np.cbrt: Rule(elementary.cbrt),
    np.arcsin: Rule(elementary.arcsin),
    np.arccos: Rule(elementary.arccos),
    np.arctan: Rule(elementary.arctan),
    np.arctan2: Rule(kernels.arctan2),
    np.sinh: Rule(elementary.sinh),
    np.cosh: Rule(elementary.cosh),
    np.tanh: Rule(_op("Tanh")),
    np.arcsinh: Rule(elementary.arcsinh),
    np.arccosh: Rule(elementary.arccosh),
    np.arctanh: Rule(elementary.arctanh),
    np.hypot: Rule(kernels.hypot),
    np.logaddexp: Rule(kernels.logaddexp),
    np.heaviside: Rule(kernels.heaviside),
    np.deg2rad: Rule(lambda graph, x: graph.binary("Mul", x, math.pi / 180)),
    np.rad2deg: Rule(lambda graph, x: graph.binary("Mul", x, 180 / math.pi)),
    np.radians: Rule(lambda graph, x: graph.binary("Mul", x, math.pi / 180)),
    np.degrees: Rule(lambda graph, x: graph.binary("Mul", x, 180 / math.pi)),
}

_SPECIAL: dict[str, Rule] = {
    "expit": Rule(elementary.expit),
    "log_expit": Rule(elementary.log_expit),
    "erf": Rule(lambda graph, x: graph.unary("Erf", x) if x.dtype == F32 else erf(graph, x)),
    "logit": Rule(elementary.logit),
    "log1p": Rule(elementary.log1p),
    "expm1": Rule(elementary.expm1),
    "exp2": Rule(lambda graph, x: graph.binary("Pow", np.array(2, x.dtype), x)),
    "xlogy": Rule(kernels.xlogy),
    "xlog1py": Rule(kernels.xlog1py),
    "entr": Rule(kernels.entr),
    "boxcox": Rule(kernels.boxcox),
    "inv_boxcox": Rule(kernels.inv_boxcox),
    "huber": Rule(kernels.huber),
}
"""SciPy's, by name: it is not imported for their sake."""


def apply(ufunc: np.ufunc, *operands: Operand, dtype: Any = None) -> Value:
    """Return a universal function of its operands.

    Raises:
        UnsupportedModelError: It has no ONNX operators.
        TypeError: NumPy itself has no loop for these types.
    """
    graph = graph_of(operands)
    if ufunc is np.matmul:
        return matmul(lift(graph, operands[0]), lift(graph, operands[1]))
    if ufunc in {np.logical_and, np.logical_or, np.logical_xor, np.logical_not}:
        return _logical(graph, ufunc, operands)
    if ufunc in {np.power, np.float_power}:
        return _power(graph, ufunc, operands)
    rule = RULES.get(ufunc) or (_SPECIAL.get(ufunc.__name__) if _is_scipy(ufunc) else None)
    if rule is None:
        untraceable(f"calls {ufunc.__name__}, which no ONNX operator computes", "replace it, or do it before the model")
    arrays = [_arrayed(operand) for operand in operands]
    if any(getattr(array, "dtype", None) == TEXT for array in arrays):
        return _text(graph, ufunc, arrays)
    loop = loop_types(ufunc, arrays, dtype)
    return _run(graph, rule, arrays, loop)


def loop_types(ufunc: np.ufunc, operands: list[Operand], dtype: Any = None) -> tuple[DType, ...]:
    """Return the types that NumPy computes in; Python's own numbers adapt to the others (NEP 50).

    Raises:
        TypeError: It has no loop for them.
    """
    kinds = [getattr(operand, "dtype", None) or type(operand) for operand in operands]
    kinds = [np.dtype(bool) if kind is bool else kind for kind in kinds]
    resolve: Any = ufunc.resolve_dtypes  # its stub knows no signature
    signature = {} if dtype is None else {"signature": (*[None] * len(kinds), np.dtype(dtype))}
    loop: tuple[DType, ...] = resolve((*kinds, *[None] * ufunc.nout), **signature)
    return loop


def _run(graph: Graph, rule: Rule, operands: list[Operand], loop: tuple[DType, ...]) -> Value:
    values = [
        astype(operand, kind) if isinstance(operand, Value) else constant(graph, _fitting(operand, kind), kind)
        for operand, kind in zip(operands, loop, strict=False)
    ]
    shape = broadcast(*(value.shape for value in values))
    on_bools = rule.bools is not None and all(value.dtype == BOOL for value in values)
    kernel = rule.bools if on_bools and rule.bools is not None else rule.kernel
    if not on_bools and any(value.dtype == BOOL for value in values):
        untraceable("computes with booleans as if they were numbers", "cast them first: x.astype(int)")
    tensor = kernel(graph, *(value.work(modular=rule.modular) for value in values))
    return finish(graph, tensor, loop[-1], shape)


def _fitting(operand: Operand, kind: DType) -> Operand:
    """Return a constant that its type holds; a Python integer beyond it raises here what NumPy raises."""
    if isinstance(operand, int) and kind.kind in "iu" and not np.iinfo(kind).min <= operand <= np.iinfo(kind).max:
        untraceable(f"computes with {operand}, which {kind} does not hold", "cast the column to int64 or float64 first")
    return operand


def _arrayed(operand: Operand) -> Operand:
    """Return a list as an array and text as the array that it is; Python's numbers stay what they are."""
    plain = isinstance(operand, Value | np.ndarray | np.generic | bool | int | float)
    array: Any = operand if plain else np.asarray(operand)
    return array.astype(TEXT) if getattr(getattr(array, "dtype", None), "kind", "") in {"U", "S"} else array


def _is_scipy(ufunc: np.ufunc) -> bool:
    return getattr(np, ufunc.__name__, None) is not ufunc


def _text(graph: Graph, ufunc: np.ufunc, operands: list[Operand]) -> Value:
    if ufunc not in {np.equal, np.not_equal} or any(getattr(one, "dtype", None) != TEXT for one in operands):
        untraceable(f"calls {ufunc.__name__} on text", "compare text with == and != only, or encode it first")
    left, right = (lift(graph, operand) for operand in operands)
    found = graph.op("Equal", left.tensor, right.tensor, dtype=BOOL)
    tensor = found if ufunc is np.equal else graph.op("Not", found, dtype=BOOL)
    return Value(graph, tensor, BOOL, broadcast(left.shape, right.shape))


def _logical(graph: Graph, ufunc: np.ufunc, operands: tuple[Operand, ...]) -> Value:
    values = [lift(graph, operand) for operand in operands]
    parts = [truth(value) for value in values]
    kind = {np.logical_and: "And", np.logical_or: "Or", np.logical_xor: "Xor", np.logical_not: "Not"}[ufunc]
    return Value(graph, graph.op(kind, *parts, dtype=BOOL), BOOL, broadcast(*(value.shape for value in values)))


def _power(graph: Graph, ufunc: np.ufunc, operands: tuple[Operand, ...]) -> Value:
    """Return a power: NumPy multiplies, divides or takes the root for these exponents, and else calls ``pow``."""
    base, exponent = (_arrayed(operand) for operand in operands)
    loop = loop_types(ufunc, [base, exponent])
    number = None if isinstance(exponent, Value) or np.ndim(exponent) else exponent
    if loop[-1].kind in "iu":
        if number is None or number < 0:
            untraceable("raises integers to a power that is no constant from 0", "cast to float first: x.astype(float)")
        return _integer_power(astype(lift(graph, base), loop[-1]), int(number))
    value = lift(graph, base) if isinstance(base, Value) else constant(graph, base, loop[0])
    value = astype(value, loop[0])
    short = {2.0: np.square, 0.5: np.sqrt, -1.0: np.reciprocal, 1.0: np.positive}
    if number is not None and float(number) in short:
        return apply(short[float(number)], value)
    return _run(graph, Rule(kernels.power), [value, exponent], loop)


def _integer_power(value: Value, exponent: int) -> Value:
    """Return repeated products, by squaring; they wrap around as NumPy's do."""
    if exponent == 0:
        return astype(apply(np.not_equal, value, apply(np.add, value, 1)), value.dtype)
    factors, square = [], value
    while exponent:
        if exponent & 1:
            factors.append(square)
        exponent >>= 1
        square = apply(np.multiply, square, square) if exponent else square
    return reduce(partial(apply, np.multiply), factors)
