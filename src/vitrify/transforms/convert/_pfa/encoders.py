"""Operators of ``ai.onnx.ml`` that look values up or scale them.

Source: https://onnx.ai/onnx/operators/onnx_aionnxml_LabelEncoder.html and its neighbours
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._pfa.document import TEXT, Array, Expression, Row, literal, pfa_type, plain
from vitrify.transforms.convert._pfa.elementwise import cast, each
from vitrify.transforms.convert._pfa.rows import RowError, op

if TYPE_CHECKING:
    from vitrify.transforms.replay.walk import Node

_ML = "ai.onnx.ml"
_LISTS = (("strings", TEXT), ("int64s", np.dtype(np.int64)), ("floats", np.dtype(np.float32)))
_DEFAULTS = (("string", "_Unused"), ("int64", -1), ("float", -0.0))


@op("LabelEncoder", domain=_ML)
def _label_encoder(node: Node, x: Row) -> Row:
    keys, values = _column(node, "keys"), _column(node, "values")
    default = literal(_default(node, values.dtype), values.dtype)
    if keys.dtype.kind in "OUS":
        return _by_text(x, keys, values, default)
    return _by_number(x, keys.astype(x.dtype), values, default)


def _by_text(x: Row, keys: Array, values: Array, default: Expression) -> Row:
    content = dict(zip(map(str, keys.tolist()[::-1]), map(plain, values.tolist()[::-1]), strict=True))
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return _by_number(x, keys, values, default)
    table = x.document.cell({"type": "map", "values": pfa_type(values.dtype)}, content, "labels")

    def body(one: Any) -> Expression:
        found = {"attr": table, "path": [one]}
        return {"if": {"map.containsKey": [table, one]}, "then": found, "else": default}

    return each(x.document, [x], values.dtype, body)


def _by_number(x: Row, keys: Array, values: Array, default: Expression) -> Row:
    document = x.document
    known = keys if keys.dtype.kind != "f" else np.where(np.isfinite(keys), keys, 0)
    table, places = document.constant(values), document.constant(known)
    special = [at for at in range(len(keys)) if keys.dtype.kind == "f" and not np.isfinite(keys[at])]

    def body(one: Any) -> Expression:
        at = {"a.index": [places, one]}
        found: Expression = {"if": {"<": [at, 0]}, "then": default, "else": {"attr": table, "path": [at]}}
        for place in special:
            test = {"impute.isnan": one} if np.isnan(keys[place]) else {"==": [one, literal(keys[place], x.dtype)]}
            found = {"if": test, "then": literal(values[place], values.dtype), "else": found}
        return found

    if special and not (keys[np.isfinite(keys)] == 0).any():
        inner = body

        def body(one: Any) -> Expression:  # a zero stands in the places of what is not finite
            return {"if": {"==": [one, literal(0, x.dtype)]}, "then": default, "else": inner(one)}

    return each(document, [x], values.dtype, body)


def _column(node: Node, side: str) -> Array:
    if (tensor := node.get(f"{side}_tensor")) is not None:
        return np.asarray(tensor).reshape(-1)
    for kind, dtype in _LISTS:
        if (values := node.get(f"{side}_{kind}")) is not None:
            return np.array(values, dtype)
    message = f"no {side}"
    raise RowError(message)


def _default(node: Node, dtype: Any) -> Any:
    if (tensor := node.get("default_tensor")) is not None:
        return np.asarray(tensor).reshape(-1)[0]
    kind = "string" if dtype.kind in "OUS" else "int64" if dtype.kind in "iu" else "float"
    return node.get(f"default_{kind}", dict(_DEFAULTS)[kind])


@op("Scaler", domain=_ML)
def _scaler(node: Node, x: Row) -> Row:
    offset, scale = (np.array(node.get(name), np.float32)[np.newaxis] for name in ("offset", "scale"))
    single = cast(x, np.float32)
    return each(x.document, [single, offset, scale], np.float32, lambda v, o, s: {"*": [{"-": [v, o]}, s]})


@op("Imputer", domain=_ML)
def _imputer(node: Node, x: Row) -> Row:
    kind = "float" if x.dtype.kind == "f" else "int64"
    values = np.array(node.get(f"imputed_value_{kind}s"), x.dtype)[np.newaxis]
    old = node.get(f"replaced_value_{kind}", 0)
    missing = kind == "float" and np.isnan(old)

    def body(one: Any, new: Any) -> Expression:
        test = {"impute.isnan": one} if missing else {"==": [one, literal(old, x.dtype)]}
        return {"if": test, "then": new, "else": one}

    return each(x.document, [x, values], x.dtype, body)


@op("Binarizer", domain=_ML)
def _binarizer(node: Node, x: Row) -> Row:
    limit, one, none = literal(node.get("threshold", 0.0), x.dtype), literal(1, x.dtype), literal(0, x.dtype)
    return each(x.document, [x], x.dtype, lambda v: {"if": {">": [v, limit]}, "then": one, "else": none})


@op("FeatureVectorizer", domain=_ML)
def _vectors(_: Node, *parts: Any) -> Row:
    if not all(isinstance(one, Row) for one in parts):
        message = "a constant beside rows"
        raise RowError(message)
    rows = [cast(one, np.float32) for one in parts]
    return rows[0].document.joined(rows)


@op("ZipMap", domain=_ML)
def _zip_map(*_: Any) -> Row:
    message = "a list of maps, where PFA and arrays have a column a class"
    raise RowError(message)
