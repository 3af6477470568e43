"""Matching: given arrays against the fields of a signature, and every mismatch in one table."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.containers._cast import CastError, cast, found
from vitrify.containers._values import as_array
from vitrify.core.errors import SignatureError
from vitrify.core.signature import Field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vitrify.core.protocols import Arrays

    Array = np.ndarray[Any, Any]
    Line = tuple[str, str, str, str]
    Reader = Callable[[str, Any, Field | None], Array]

_MATRIX = 2
_HEADER = ("name", "expected", "given", "what to do")


def conform(arrays: Arrays, fields: tuple[Field, ...]) -> Arrays:
    """See :func:`vitrify.containers.conform`."""
    sizes: dict[str, tuple[int, str]] = {}
    result: Arrays = {}
    lines: list[Line] = []
    extra = [name for name in arrays if name not in {field.name for field in fields}]
    for field in fields:
        if field.name not in arrays:
            lines.append((field.name, _expected(field), "nothing", _missing(field.name, extra)))
            continue
        array = as_array(arrays[field.name])
        if problem := _shape_problem(array, field, sizes):
            lines.append((field.name, _expected(field), _given(array), problem))
            continue
        try:
            result[field.name] = cast(array, field)
        except CastError as error:
            shape = ", ".join(map(str, array.shape))
            lines.append((field.name, _expected(field), f"{error.found} [{shape}]", error.remedy))
    if lines:
        hint = f"; given besides: {', '.join(map(repr, extra))}" if extra else ""
        msg = f"the data does not fit the signature ({len(lines)} of {len(fields)} inputs{hint})\n{_table(lines)}"
        raise SignatureError(msg)
    return result


def spread(array: Array, fields: tuple[Field, ...], *, name: str) -> Arrays:
    """Give one array the names of the fields: to one field, or a matrix's columns to those of a table, in order.

    Raises:
        SignatureError: One array cannot be that many inputs.
    """
    if len(fields) <= 1:
        single = fields[0] if fields else None
        if single and len(single.shape) == 1 and array.ndim == _MATRIX and array.shape[1] == 1:
            array = array[:, 0]
        return {single.name if single else name: array}
    shape = ", ".join(map(str, array.shape))
    if any(len(field.shape) != 1 for field in fields):
        msg = f"one array [{shape}] where {len(fields)} inputs are expected: {', '.join(map(str, fields))}"
        raise SignatureError(msg, remedy="give a dict of arrays, one an input")
    if array.ndim != _MATRIX or array.shape[1] != len(fields):
        msg = f"an array [{shape}] where a table of {len(fields)} columns is expected: {', '.join(map(str, fields))}"
        raise SignatureError(msg, remedy="give a data frame or a dict, which is matched by name")
    return {field.name: array[:, index] for index, field in enumerate(fields)}


def gather(parts: Iterable[tuple[str, Any]], fields: tuple[Field, ...], read: Reader) -> Arrays:
    """Return named parts as arrays: columns as they are, or as one matrix where that is the only field.

    What no field is called and no array can hold is left out.

    Args:
        parts: A name and what the container has there.
        fields: What is expected; empty where everything is.
        read: From a name, a part and the field that it is for, to its array.

    Raises:
        SignatureError: A part that is needed cannot be an array, or does not fit the matrix.
    """
    parts = list(parts)
    by_name = {field.name: field for field in fields}
    matrix = fields[0] if len(fields) == 1 and len(fields[0].shape) == _MATRIX else None
    if matrix and any(name == matrix.name for name, _ in parts):
        matrix = None
    columns: Arrays = {}
    for name, part in parts:
        field = matrix or by_name.get(name)
        try:
            columns[name] = read(name, part, field)
        except SignatureError:
            if field or not fields:
                raise
    return _as_matrix(columns, matrix) if matrix and columns else columns


def _as_matrix(columns: Arrays, field: Field) -> Arrays:
    alike = tuple(Field(name=name, dtype=field.dtype, nullable=field.nullable) for name in columns)
    parts = list(conform(columns, alike).values())
    masked = any(isinstance(part, np.ma.MaskedArray) for part in parts)
    return {field.name: np.ma.stack(parts, 1) if masked else np.stack(parts, 1)}


def _shape_problem(array: Array, field: Field, sizes: dict[str, tuple[int, str]]) -> str:
    if array.ndim != len(field.shape):
        return f"give {len(field.shape)} dimensions, not {array.ndim}"
    problems = []
    for axis, (size, given) in enumerate(zip(field.shape, array.shape, strict=True)):
        if isinstance(size, str):
            first, owner = sizes.setdefault(size, (given, field.name))
            if first != given:
                problems.append(f"axis {axis} ({size}) is {given} here and {first} in {owner!r}: make them equal")
        elif size != given:
            problems.append(f"axis {axis} must be {size}, not {given}")
    return "; ".join(problems)


def _missing(name: str, extra: list[str]) -> str:
    close = difflib.get_close_matches(name, extra[:100], n=1)
    return f"add it, or rename {close[0]!r}" if close else "add it"


def _expected(field: Field) -> str:
    return str(field).removeprefix(f"{field.name}: ")


def _given(array: Array) -> str:
    return f"{found(array)}[{', '.join(map(str, array.shape))}]"


def _table(lines: Iterable[Line]) -> str:
    rows = [_HEADER, *lines]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  " + " | ".join([*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row[3]])
        for row in rows
    )
