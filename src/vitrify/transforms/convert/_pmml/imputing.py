"""What is missing, and what takes its place.

Source: ``sklearn/impute/_base.py``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._pmml.elements import apply, constant, element, reference
from vitrify.transforms.convert._pmml.encoding import knows_one
from vitrify.transforms.convert._pmml.fields import NONE, TEXT
from vitrify.transforms.convert._pmml.matrices import FLOATS, made, matrix, when
from vitrify.transforms.convert._pmml.walk import Answer, Walk, refuse, writes

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from vitrify.transforms.convert._pmml.fields import Column, Fields, Table


@writes("sklearn.SimpleImputer")
def simple_imputer(walk: Walk, step: Any, table: Table) -> Answer:
    """Put the statistic where a value is missing; a column that had none at all is dropped."""
    objects = step._fit_dtype.kind == "O"  # noqa: SLF001 (the type that it reads everything as from then on)
    wanted: Any = None if objects or step.strategy in {"most_frequent", "constant"} else FLOATS
    columns = list(table.columns) if objects else matrix(walk.fields, table, wanted)
    filled = [
        _filled(walk.fields, column, step.missing_values, value)
        for column, value in zip(columns, step.statistics_, strict=True)
        if step.keep_empty_features or not _is_nan(value)
    ]
    if step.add_indicator:
        filled += [_flag(walk.fields, columns[place], step.missing_values) for place in step.indicator_.features_]
    return Answer(table=made(filled))


def _is_nan(value: Any) -> bool:
    return value is not None and not isinstance(value, str) and bool(value != value)  # noqa: PLR0124 (NaN)


def _missing(fields: Fields, column: Column, marker: Any) -> Element | None:
    """Return whether a value is what the imputer calls missing; None where no value can be."""
    value = reference(column.name)
    anything = type(marker).__name__ == "NAType"  # pandas' own mark: NaN and None alike
    gone = apply("isMissing", value) if anything or _is_nan(marker) else None
    if gone is None and marker is not None:
        fits = isinstance(marker, str) == (column.dtype == TEXT)
        equal = apply("equal", value, constant(marker if isinstance(marker, str) else float(marker)))
        return apply("if", apply("isNotMissing", value), equal, constant_false()) if fits else None
    if column.dtype != TEXT or knows_one(column):
        return gone
    fields.none_apart = True
    if not (anything or marker is None):
        return gone
    none = apply("if", apply("isNotMissing", value), apply("equal", value, constant(NONE)), constant_false())
    return none if gone is None else apply("or", gone, none)


def constant_false() -> Element:
    """Return what is never so."""
    return element("Constant", {"dataType": "boolean"}, text="false")


def _filled(fields: Fields, column: Column, marker: Any, statistic: Any) -> Column:
    test = _missing(fields, column, marker)
    if test is None:
        return column
    if isinstance(statistic, str) != (column.dtype == TEXT):
        kinds = "text" if column.dtype == TEXT else "numbers"
        refuse(f"puts {statistic!r} into a column of {kinds}", "use a fill_value of the column's own kind")
    value = statistic if column.dtype == TEXT else column.dtype.type(statistic)
    return fields.derive(f"filled({column.name})", column.dtype, when(test, constant(value), reference(column.name)))


def _flag(fields: Fields, column: Column, marker: Any) -> Column:
    test = _missing(fields, column, marker)
    if test is None:
        refuse("flags what no value of the column can be", "leave add_indicator at its default")
    number = np.float32 if column.dtype == np.float32 else float
    dtype = column.dtype if column.dtype != TEXT else np.dtype(np.float64)
    return fields.derive(f"missing({column.name})", dtype, when(test, constant(number(1)), constant(number(0))))
