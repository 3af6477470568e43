"""The document that a converter writes: statements in the order in which they are computed, cells for constants.

A row of a tensor is a number where nothing is left of it but the row, else a *flat* array whose shape is known while
it is written: reshaping costs nothing, and transposing, slicing or broadcasting is a selection by constant places.

Source: https://dmg.org/pfa/docs/document_structure/, https://dmg.org/pfa/docs/expressions/
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Iterable

Array = np.ndarray[Any, Any]
Expression = Any
"""A PFA expression, as JSON."""

TEXT = np.dtype(object)
_TYPES = {
    "float32": "float",
    "float64": "double",
    "int64": "long",
    "uint32": "long",
    **dict.fromkeys(("int32", "int16", "int8", "uint16", "uint8"), "int"),
    "bool": "boolean",
    "object": "string",
}
_REMEDY = "keep the ONNX form, or replace that part of the model"


def refuse(message: str, remedy: str = _REMEDY) -> UnsupportedModelError:
    """Return the error of what PFA, or a row alone, cannot do."""
    return UnsupportedModelError(message, remedy=remedy)


def pfa_type(dtype: Any) -> str:
    """Return PFA's name of an element type.

    Raises:
        UnsupportedModelError: It has none.
    """
    kind = np.dtype(dtype)
    if kind.kind in "US":
        return "string"
    if (name := _TYPES.get(kind.name)) is None:
        message = f"PFA has no {kind.name}"
        raise refuse(message, "cast it to float, double, int or long in the model")
    return name


def array_of(dtype: Any) -> dict[str, str]:
    """Return the type of arrays of an element type."""
    return {"type": "array", "items": pfa_type(dtype)}


@dataclass(frozen=True)
class Row:
    """What one row has of a tensor.

    Attributes:
        document: Where it is computed.
        name: The symbol that holds it.
        dtype: Its element type.
        shape: Its sizes without the rows.
        summed: Of running sums the groups that they are made of.
    """

    document: Document
    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    summed: Row | None = None

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    def reshaped(self, shape: tuple[int, ...]) -> Row:
        """Return the same elements in another shape."""
        return self.document.take(self, np.arange(self.size).reshape(shape))


class Document:
    """Statements, cells and functions."""

    def __init__(self) -> None:
        """Start empty."""
        self.cells: dict[str, dict[str, Any]] = {}
        self.functions: dict[str, dict[str, Any]] = {}
        self._known: dict[str, str] = {}
        self._type_names: dict[str, str] = {}
        self._steps: list[tuple[str, Expression]] = []

    def let(self, value: Expression, dtype: Any, shape: tuple[int, ...]) -> Row:
        """Compute an expression, and return it by a new name."""
        name = f"v{len(self._steps)}"
        self._steps.append((name, value))
        return Row(self, name, np.dtype(dtype), shape)

    def cell(self, type_: Any, value: Any, hint: str = "constants") -> Expression:
        """Return what reads a constant; equal ones are shared."""
        key = json.dumps([type_, value])
        if key not in self._known:
            self._known[key] = name = f"{hint}{len(self.cells)}"
            self.cells[name] = {"type": type_, "init": value}
        return {"cell": self._known[key]}

    def function(self, name: str, definition: dict[str, Any]) -> str:
        """Keep a function, and return its name for calls."""
        self.functions[name] = definition
        return f"u.{name}"

    def type_name(self, base: str, facts: Any) -> str:
        """Return a name for a type that some facts decide; the same facts, the same name."""
        key = json.dumps(facts)
        if key not in self._type_names:
            self._type_names[key] = f"{base}{len(self._type_names)}"
        return self._type_names[key]

    def constant(self, array: Array) -> Expression:
        """Return an array's elements, flat. What is not finite has no place in a cell, and is computed."""
        flat = np.ravel(array)
        if flat.dtype.kind == "f" and not np.isfinite(flat).all():
            return {"new": [literal(one, array.dtype) for one in flat], "type": array_of(array.dtype)}
        return self.cell(array_of(array.dtype), [plain(one) for one in flat])

    def places(self, index: Array) -> Expression:
        """Return places in an array, flat."""
        return self.cell({"type": "array", "items": "int"}, np.ravel(index).tolist(), "places")

    def row(self, array: Array) -> Row:
        """Return what is the same in every row."""
        array = np.asarray(array)
        value = literal(array[()], array.dtype) if array.ndim == 0 else self.constant(array)
        return self.let(value, array.dtype, array.shape)

    def take(self, row: Row, index: Array) -> Row:
        """Return chosen elements, by their places in the flat row, in the shape of the index."""
        shape = index.shape
        if row.shape == shape and np.array_equal(index.ravel(), np.arange(row.size)):
            return row
        if row.summed is not None and (found := self._last_sums(row, index)) is not None:
            return found
        flat = index.ravel()
        if shape and row.shape and np.array_equal(flat, np.arange(row.size)):
            return Row(self, row.name, row.dtype, shape)
        return self.let(self._chosen(row, flat, shape), row.dtype, shape)

    def _chosen(self, row: Row, flat: Array, shape: tuple[int, ...]) -> Expression:
        if not row.shape:
            return row.name if not shape else {"new": [row.name] * flat.size, "type": array_of(row.dtype)}
        if not shape:
            return {"attr": row.name, "path": [int(flat[0])]}
        first = int(flat[0]) if flat.size else 0
        if np.array_equal(flat, np.arange(first, first + flat.size)):
            return {"a.subseq": [row.name, first, first + flat.size]}
        if flat.size <= _FEW:
            return {"new": [{"attr": row.name, "path": [int(one)]} for one in flat], "type": array_of(row.dtype)}
        body = {"attr": row.name, "path": ["i"]}
        return {"a.map": [self.places(flat), inline({"i": "int"}, pfa_type(row.dtype), body)]}

    def _last_sums(self, row: Row, index: Array) -> Row | None:
        """Return the last of each running sum, where no other is wanted: nobody needs the others then."""
        groups = row.summed
        assert groups is not None
        count, size = groups.shape
        if not np.array_equal(np.sort(index.ravel()), np.arange(count) * size + size - 1):
            return None
        kind = pfa_type(row.dtype)
        total = inline({"t": kind, "x": kind}, kind, {"+": ["t", "x"]})
        if count == 1:
            return self.let(self._shaped({"a.reduce": [groups.name, total]}, row, index.shape), row.dtype, index.shape)
        windows = {"a.slidingWindow": [groups.name, size, size]}
        body = inline({"g": array_of(row.dtype)}, kind, {"a.reduce": ["g", total]})
        sums = self.let({"a.map": [windows, body]}, row.dtype, (count,))
        return self.take(sums, (index - size + 1) // size)

    def _shaped(self, value: Expression, row: Row, shape: tuple[int, ...]) -> Expression:
        return {"new": [value], "type": array_of(row.dtype)} if shape else value

    def joined(self, rows: Iterable[Row]) -> Row:
        """Return the elements of several rows, one after the other."""
        whole: Expression = None
        listed = list(rows)
        for one in listed:
            part = one.name if one.shape else {"new": [one.name], "type": array_of(one.dtype)}
            whole = part if whole is None else {"a.concat": [whole, part]}
        return self.let(whole, listed[0].dtype, (sum(one.size for one in listed),))

    def content(self, name: str, inputs: dict[str, Any], outputs: dict[str, Row]) -> dict[str, Any]:
        """Return the document as JSON, with only what its answers need.

        Args:
            name: The document's.
            inputs: Types by field.
            outputs: Values by field.
        """
        answers = {field: nested(row) for field, row in outputs.items()}
        steps = self._needed(answers)
        used = set(_texts([[one for _, one in steps], list(self.functions.values())]))
        answer = {"new": answers, "type": _record("Answer", {key: _nested_type(row) for key, row in outputs.items()})}
        found = {
            "name": name,
            "method": "map",
            "input": _record("Features", inputs),
            "output": answer["type"],
            "cells": {key: one for key, one in self.cells.items() if key in used},
            "fcns": {key: one for key, one in self.functions.items() if f"u.{key}" in used},
            "action": [*({"let": {key: one}} for key, one in steps), {**answer, "type": "Answer"}],
        }
        declared: set[str] = set()
        return {key: _declared_once(one, declared) for key, one in found.items() if one != {}}

    def _needed(self, answers: dict[str, Expression]) -> list[tuple[str, Expression]]:
        needed, kept = set(_texts(answers)), []
        for name, one in reversed(self._steps):
            if name in needed:
                needed |= set(_texts(one))
                kept.append((name, one))
        return kept[::-1]


_NAMED = ("record", "enum")
_FEW = 8
"""Elements that are chosen one by one."""


def plain(value: Any) -> Any:
    """Return a NumPy scalar as JSON has it."""
    return value.item() if isinstance(value, np.generic) else value


def literal(value: Any, dtype: Any) -> Expression:
    """Return a constant of a type."""
    kind, number = pfa_type(dtype), plain(value)
    if kind in {"float", "double"} and not math.isfinite(number):
        above = 0 if math.isnan(number) else 1 if number > 0 else -1
        quotient = {"/": [above, 0]}
        return {"cast.float": quotient} if kind == "float" else quotient
    return bool(number) if kind == "boolean" else {kind: number}


def inline(params: dict[str, Any], result: Any, body: Expression) -> dict[str, Any]:
    """Return a function that is written where it is used."""
    return {"params": [{name: type_} for name, type_ in params.items()], "ret": result, "do": [body]}


def nested(row: Row) -> Expression:
    """Return a row's elements as arrays in arrays."""
    value: Expression = row.name
    for size in reversed(row.shape[1:]):
        if size == 0:
            message = "an output without any elements"
            raise refuse(message)
        value = {"a.slidingWindow": [value, size, size]}
    return value


def _nested_type(row: Row) -> Any:
    type_: Any = pfa_type(row.dtype)
    for _ in row.shape:
        type_ = {"type": "array", "items": type_}
    return type_


def field_names(names: Iterable[str]) -> dict[str, str]:
    """Return a name that Avro allows for each name."""
    found: dict[str, str] = {}
    for name in names:
        base = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
        base = f"_{base}" if base[0].isdigit() else base
        free, count = base, 1
        while free in found.values():
            count += 1
            free = f"{base}_{count}"
        found[name] = free
    return found


def _record(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": one} for key, one in fields.items()]}


def _declared_once(value: Any, declared: set[str]) -> Any:
    """Return an expression in which a type that was declared before is only named."""
    if isinstance(value, list):
        return [_declared_once(one, declared) for one in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") in _NAMED and isinstance(name := value.get("name"), str):
        if name in declared:
            return name
        declared.add(name)
    return {key: one if key == "init" else _declared_once(one, declared) for key, one in value.items()}


def _texts(value: Any) -> Iterable[str]:
    """Yield every text in an expression: all names are among them."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            yield from one
            left += one.values()
        elif isinstance(one, (list, tuple)):
            left += one
