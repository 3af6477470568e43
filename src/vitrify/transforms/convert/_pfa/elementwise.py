"""Operators on each element, in the element type that ONNX computes in: float is rounded after every operation.

Source: https://onnx.ai/onnx/operators/, https://dmg.org/pfa/docs/library/
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper

from vitrify.transforms.convert._pfa.document import (
    TEXT,
    Document,
    Expression,
    Row,
    array_of,
    inline,
    literal,
    pfa_type,
)
from vitrify.transforms.convert._pfa.rows import RowError, document_of, op

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vitrify.transforms.replay.walk import Node

    Body = Callable[..., Expression]

_BOOL = np.dtype(bool)
_NAMES = ("x", "y", "z", "w")
_LARGEST = 9223372036854774784.0
"""The largest double below 2**63."""
_INTEGERS = {"int": -(1 << 31), "long": -(1 << 63)}
_LIMITS = {"int": 2147483647.0, "long": _LARGEST}


def each(document: Document, operands: Sequence[Any], dtype: Any, body: Body) -> Row:
    """Return a function of each element of some operands, broadcast as ONNX does.

    Args:
        document: Where it is computed.
        operands: Rows, and constants whose first axis, if they have one as long as rows have, is the rows and has one.
        dtype: The result's element type.
        body: From an expression for each operand to the result's.
    """
    rank = max(len(one.shape) + 1 for one in operands if isinstance(one, Row))
    shapes = [_row_shape(one, rank) for one in operands]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError as error:
        message = f"shapes {shapes} that do not fit"
        raise RowError(message) from error
    params: dict[str, Any] = {}
    arrays: list[Expression] = []
    given = []
    for one, own in zip(operands, shapes, strict=True):
        value, is_array = _operand(document, one, own, shape)
        if is_array:
            name = _NAMES[len(arrays)]
            params[name] = pfa_type(one.dtype)
            arrays.append(value)
            value = name
        given.append(value)
    return document.let(_mapped(arrays, params, dtype, body(*given), shape), dtype, shape)


def _mapped(
    arrays: list[Expression], params: dict[str, Any], dtype: Any, value: Expression, shape: tuple[int, ...]
) -> Expression:
    if not arrays:
        return {"new": [value], "type": array_of(dtype)} if shape else value
    function = inline(params, pfa_type(dtype), value)
    return {"a.map" if len(arrays) == 1 else "a.zipmap": [*arrays, function]}


def _row_shape(operand: Any, rank: int) -> tuple[int, ...]:
    """Return the sizes of an operand without the rows."""
    if isinstance(operand, Row):
        if len(operand.shape) + 1 != rank:
            message = f"an axis of rows beside one of other values ({len(operand.shape) + 1} axes and {rank})"
            raise RowError(message)
        return operand.shape
    shape: tuple[int, ...] = np.shape(operand)
    if len(shape) < rank:
        return shape
    if len(shape) > rank or shape[0] != 1:
        message = f"a constant of shape {list(shape)} beside rows of {rank - 1} axes"
        raise RowError(message)
    return shape[1:]


def _operand(document: Document, one: Any, own: tuple[int, ...], shape: tuple[int, ...]) -> tuple[Expression, bool]:
    """Return what stands for an operand, and whether that is an array with an element for each of the result's."""
    size = int(np.prod(own, dtype=int))
    if size == 1 and (int(np.prod(shape, dtype=int)) != 1 or not isinstance(one, Row)):
        if not isinstance(one, Row):
            array = np.asarray(one)
            return literal(array.reshape(-1)[0], array.dtype), False
        return ({"attr": one.name, "path": [0]} if one.shape else one.name), False
    if not isinstance(one, Row):
        return document.constant(np.broadcast_to(np.asarray(one).reshape(own), shape)), True
    if not shape:
        return one.name, False
    index = np.broadcast_to(np.arange(size).reshape(own), shape)
    return document.take(one, index).name, True


def rounded(dtype: Any, value: Expression) -> Expression:
    """Return what is computed in double in the result's own precision."""
    return {"cast.float": value} if np.dtype(dtype) == np.float32 else value


def _dtype(*given: Any) -> np.dtype[Any]:
    dtype = next(one.dtype for one in given if isinstance(one, Row))
    return TEXT if dtype.kind in "US" else dtype


# Two operands


def _real(name: str) -> Callable[[Any, Any, Any], Expression]:
    return lambda _, x, y: {name: [x, y]}


def _divided(dtype: Any, x: Any, y: Any) -> Expression:
    if dtype.kind == "f":
        return rounded(dtype, {"/": [x, y]})
    return {"//": [{"-": [x, {"%%": [x, y]}]}, y]}  # towards zero


def _chosen(comparison: str) -> Callable[[Any, Any, Any], Expression]:
    """Return the larger or smaller; NaN if one is."""

    def body(dtype: Any, x: Any, y: Any) -> Expression:
        test = {comparison: [x, y]}
        if dtype.kind == "f":
            test = {"||": [test, {"impute.isnan": [x]}]}
        return {"if": test, "then": x, "else": y}

    return body


_TWO: dict[str, Callable[[Any, Any, Any], Expression]] = {
    "Add": _real("+"),
    "Sub": _real("-"),
    "Mul": _real("*"),
    "Div": _divided,
    "Max": _chosen(">="),
    "Min": _chosen("<="),
    "Sum": _real("+"),
}
_COMPARED = {"Equal": "==", "Less": "<", "LessOrEqual": "<=", "Greater": ">", "GreaterOrEqual": ">="}
_LOGIC = {"And": "&&", "Or": "||", "Xor": "^^"}


@op(*_TWO)
def _binary(node: Node, *given: Any) -> Row:
    document, dtype, body = document_of(given), _dtype(*given), _TWO[node.kind]
    # Rows come first: what is constant can then be joined to one of them.
    total, *rest = (
        sorted(given, key=lambda one: not isinstance(one, Row)) if node.kind in {"Max", "Min", "Sum"} else given
    )
    for one in rest:
        total = each(document, [total, one], dtype, lambda x, y: body(dtype, x, y))
    assert isinstance(total, Row)
    return total


@op(*_COMPARED)
def _compared(node: Node, x: Any, y: Any) -> Row:
    name = _COMPARED[node.kind]
    return each(document_of((x, y)), [x, y], _BOOL, lambda x, y: {name: [x, y]})


@op(*_LOGIC)
def _logic(node: Node, x: Any, y: Any) -> Row:
    name = _LOGIC[node.kind]
    return each(document_of((x, y)), [x, y], _BOOL, lambda x, y: {name: [x, y]})


@op("Not")
def _not(_: Node, x: Row) -> Row:
    return each(x.document, [x], _BOOL, lambda x: {"!": [x]})


@op("Mod")
def _modulo(node: Node, x: Any, y: Any) -> Row:
    name = "%%" if node.get("fmod", 0) else "%"
    return each(document_of((x, y)), [x, y], _dtype(x, y), lambda x, y: {name: [x, y]})


@op("Pow")
def _power(_: Node, x: Any, y: Any) -> Row:
    dtype = np.dtype(x.dtype)
    if dtype.kind != "f":
        message = "a power of whole numbers"
        raise RowError(message)

    def body(base: Any, exponent: Any) -> Expression:
        wide = {"cast.double": exponent} if y.dtype.kind in "iu" else exponent
        return rounded(dtype, {"**": [{"cast.double": base}, wide]})

    constant = None if isinstance(y, Row) or np.size(y) != 1 else float(np.ravel(y)[0])
    if constant == 2:  # noqa: PLR2004 (the square, which everyone multiplies)
        return each(x.document, [x], dtype, lambda one: {"*": [one, one]})
    return each(document_of((x, y)), [x, y], dtype, body)


@op("PRelu")
def _prelu(_: Node, x: Row, slope: Any) -> Row:
    zero = literal(0, x.dtype)
    return each(
        x.document, [x, slope], x.dtype, lambda x, s: {"if": {"<": [x, zero]}, "then": {"*": [x, s]}, "else": x}
    )


@op("Where")
def _where(_: Node, condition: Any, yes: Any, no: Any) -> Row:
    document = document_of((condition, yes, no))
    dtype = TEXT if yes.dtype.kind in "USO" else yes.dtype
    return each(document, [condition, yes, no], dtype, lambda c, y, n: {"if": c, "then": y, "else": n})


@op("Clip")
def _clip(_: Node, x: Row, least: Any = None, most: Any = None) -> Row:
    for limit, name in ((least, "<"), (most, ">")):
        if limit is not None:
            bound = limit if isinstance(limit, Row) else np.asarray(limit).reshape(())
            x = each(
                x.document, [x, bound], x.dtype, lambda x, y, name=name: {"if": {name: [x, y]}, "then": y, "else": x}
            )
    return x


# One operand

_FUNCTIONS = {
    **{
        name: f"m.{name.lower()}"
        for name in ("Exp", "Sqrt", "Floor", "Ceil", "Sin", "Cos", "Tan", "Tanh", "Sinh", "Cosh")
    },
    **{name: f"m.{name.lower()}" for name in ("Asin", "Acos", "Atan")},
    "Log": "m.ln",
    "Round": "m.rint",
    "Erf": "m.special.erf",
}


@op(*_FUNCTIONS)
def _function(node: Node, x: Row) -> Row:
    name = _FUNCTIONS[node.kind]
    return each(x.document, [x], x.dtype, lambda x_: rounded(x.dtype, {name: x_}))


@op("Abs", "Neg")
def _sign_changed(node: Node, x: Row) -> Row:
    name = {"Abs": "m.abs", "Neg": "u-"}[node.kind]
    return each(x.document, [x], x.dtype, lambda one: {name: one})


@op("Sigmoid", "Reciprocal", "Sign", "Relu")
def _simple(node: Node, x: Row) -> Row:
    zero, one, minus = (literal(number, x.dtype) for number in (0, 1, -1))

    def body(value: Any) -> Expression:
        match node.kind:
            case "Sigmoid":
                return rounded(x.dtype, {"/": [1, {"+": [1, {"m.exp": {"u-": value}}]}]})
            case "Reciprocal":
                return rounded(x.dtype, {"/": [1, value]})
            case "Relu":
                return {"if": {"<": [value, zero]}, "then": zero, "else": value}
        negative = {"if": {"<": [value, zero]}, "then": minus, "else": value}
        return {"if": {">": [value, zero]}, "then": one, "else": negative}

    return each(x.document, [x], x.dtype, body)


@op("IsNaN")
def _is_nan(_: Node, x: Row) -> Row:
    return each(x.document, [x], _BOOL, lambda one: {"impute.isnan": one})


@op("IsInf")
def _is_inf(node: Node, x: Row) -> Row:
    above, below = node.get("detect_positive", 1), node.get("detect_negative", 1)
    zero = literal(0, x.dtype)

    def body(one: Any) -> Expression:
        infinite: Expression = {"impute.isinf": one}
        if above and below:
            return infinite
        return {"&&": [infinite, {">" if above else "<": [one, zero]}]}

    return each(x.document, [x], _BOOL, body)


@op("Softplus")
def _softplus(_: Node, x: Row) -> Row:
    def body(v: Any) -> Expression:
        """Write it for large numbers too; both sides are small, so that nothing cancels."""
        grown = {"+": [v, {"m.ln1p": {"m.exp": {"u-": v}}}]}
        return rounded(x.dtype, {"if": {">": [v, 0]}, "then": grown, "else": {"m.ln1p": {"m.exp": v}}})

    return each(x.document, [x], x.dtype, body)


@op("Gelu")
def _gelu(node: Node, x: Row) -> Row:
    def body(v: Any) -> Expression:
        if node.get("approximate", "none") == "tanh":
            cube = {"*": [0.044715, {"**": [{"cast.double": v}, 3.0]}]}
            share: Expression = {"m.tanh": {"*": [math.sqrt(2 / math.pi), {"+": [v, cube]}]}}
        else:
            share = {"m.special.erf": {"*": [v, math.sqrt(0.5)]}}
        return rounded(x.dtype, {"*": [{"*": [0.5, v]}, {"+": [1, share]}]})

    return each(x.document, [x], x.dtype, body)


@op("LeakyRelu")
def _leaky(node: Node, x: Row) -> Row:
    zero, slope = literal(0, x.dtype), literal(np.float32(node.get("alpha", 0.01)), x.dtype)
    return each(x.document, [x], x.dtype, lambda v: {"if": {"<": [v, zero]}, "then": {"*": [v, slope]}, "else": v})


# Types


@op("Cast")
def _cast(node: Node, x: Row) -> Row:
    dtype = helper.tensor_dtype_to_np_dtype(node.get("to")) if node.get("to") != _STRING else TEXT
    return cast(x, dtype)


@op("CastLike")
def _cast_like(_: Node, x: Row, like: Any) -> Row:
    return cast(x, np.dtype(like.dtype))


_STRING = 8
_NARROW = frozenset({"int8", "int16", "uint8", "uint16", "uint32"})


def cast(x: Row, dtype: Any) -> Row:
    """Return a row in another element type, as ONNX casts."""
    target = np.dtype(dtype)
    source, wanted = pfa_type(x.dtype), pfa_type(target)
    if x.dtype == target:
        return x
    if target.name in _NARROW and x.dtype != _BOOL:
        message = f"a cast to {target.name}, which PFA has no type for"
        raise RowError(message)
    if source == wanted:
        return Row(x.document, x.name, target, x.shape)
    return each(x.document, [x], target, _caster(source, wanted, x.dtype, target))


def _caster(source: str, wanted: str, dtype: Any, target: Any) -> Body:
    if source == "boolean":
        if wanted == "string":
            return lambda v: {"if": v, "then": {"string": "1"}, "else": {"string": "0"}}
        return lambda v: {"if": v, "then": literal(1, target), "else": literal(0, target)}
    if wanted == "boolean":
        if source == "string":
            message = "a cast from text"
            raise RowError(message)
        return lambda v: {"!=": [v, literal(0, dtype)]}
    if wanted == "string" and source in {"int", "long"}:
        return lambda v: {"s.int": v}
    if "string" in {source, wanted}:
        message = f"a cast from {source} to {wanted}"
        raise RowError(message)
    if wanted in {"int", "long"} and source in {"float", "double"}:
        return lambda v: _truncated(v, wanted)
    return lambda v: {f"cast.{wanted}": v}


def _truncated(value: Any, kind: str) -> Expression:
    """Return a number without its fraction; what is none, or too large, becomes the least, as on common processors."""
    least, most = {kind: _INTEGERS[kind]}, _LIMITS[kind]
    fits = {"&&": [{">=": [value, {"double": float(_INTEGERS[kind])}]}, {"<": [value, {"double": most + 1}]}]}
    towards = {"if": {"<": [value, 0]}, "then": {"m.ceil": value}, "else": {"m.floor": value}}
    return {"if": fits, "then": {f"cast.{kind}": towards}, "else": least}


# Text


@op("StringConcat")
def _string_concat(_: Node, x: Any, y: Any) -> Row:
    return each(document_of((x, y)), [x, y], TEXT, lambda x, y: {"s.concat": [x, y]})


@op("StringNormalizer")
def _normalised(node: Node, x: Row) -> Row:
    change = {"LOWER": "s.lower", "UPPER": "s.upper"}.get(node.get("case_change_action", "NONE"))
    if node.get("stopwords") or change is None:
        message = "stop words, or no change of case"
        raise RowError(message)
    return each(x.document, [x], TEXT, lambda one: {change: one})
