"""What an array is to scikit-learn: columns of one type, and the element-wise steps over them.

Source: ``sklearn.utils.validation.check_array``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from vitrify.transforms.convert._pmml.elements import apply, constant, element, reference
from vitrify.transforms.convert._pmml.fields import F32, F64, TEXT, Column, DType, Table, kind
from vitrify.transforms.convert._pmml.walk import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from xml.etree.ElementTree import Element

    from vitrify.transforms.convert._pmml.fields import Fields

FLOATS: Literal["floats"] = "floats"
"""Wanted type: single and double precision as they are, all else as double (``FLOAT_DTYPES``)."""
Wanted = DType | Literal["floats"] | None


def matrix(fields: Fields, table: Table, wanted: Wanted = None) -> list[Column]:
    """Return the columns in the one type that an array of them has."""
    kinds = [column.dtype for column in table.columns]
    if TEXT in kinds and (wanted is not None or any(one != TEXT for one in kinds)):
        names = ", ".join(repr(column.name) for column in table.columns if column.dtype == TEXT)
        refuse(f"computes with text ({names})", "encode the text first (OneHotEncoder, OrdinalEncoder)")
    target = np.result_type(*kinds) if kinds and TEXT not in kinds else F64 if not kinds else TEXT
    if isinstance(wanted, str):
        target = target if target in {F32, F64} else F64
    elif wanted is not None:
        target = wanted
    return [fields.cast(column, target) for column in table.columns]


def names(columns: Iterable[Column]) -> list[str]:
    """Return the columns' fields."""
    return [column.name for column in columns]


def made(columns: Iterable[Column], *, frame: bool = False) -> Table:
    """Return what a step gives."""
    return Table(tuple(columns), made=True, frame=frame)


def operation(
    fields: Fields, function: str, column: Column, value: Any, name: str, *, dtype: DType | None = None
) -> Column:
    """Return ``column function value``, kept in the column's type; the value is rounded to it where it is narrower."""
    target = dtype or column.dtype
    number = np.float32(value) if isinstance(value, np.float32) else float(value)
    return fields.derive(f"{name}({column.name})", target, apply(function, reference(column.name), constant(number)))


def when(condition: Element, then: Element, otherwise: Element) -> Element:
    """Return one of two values."""
    return apply("if", condition, then, otherwise)


def above(fields: Fields, column: Column, limit: float, dtype: DType) -> Column:
    """Return 1 where a value is above a limit, else 0."""
    test = apply("greaterThan", reference(column.name), constant(limit))
    return fields.derive(f"above {limit!r}({column.name})", dtype, when(test, _one(dtype, 1), _one(dtype, 0)))


def _one(dtype: DType, value: float) -> Element:
    return element("Constant", {"dataType": kind(dtype)}, text=str(float(value)))


def each(columns: Iterable[Column], step: Callable[[int, Column], Column]) -> Table:
    """Return a table of what a step makes of each column, which it is given with its place."""
    return made(step(place, column) for place, column in enumerate(columns))
