"""A table's columns of categories as a booster numbers them: by their place among those of its training data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._pmml.elements import apply, constant, reference
from vitrify.transforms.convert._pmml.encoding import looked_up
from vitrify.transforms.convert._pmml.fields import F32, TEXT
from vitrify.transforms.convert._pmml.functions import known, rounded_down, truncated
from vitrify.transforms.convert._pmml.walk import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from xml.etree.ElementTree import Element

    from vitrify.transforms.convert._pmml.fields import Column, Fields, Table

_BEYOND_ASCII = "[^\\x00-\\x7F]"


def numbered(fields: Fields, table: Table, trained: Mapping[int, list[Any]], *, next_larger: bool = False) -> Table:
    """Return a table with numbers for categories; an unseen one is missing.

    Args:
        fields: Of the document.
        table: What the model is called with.
        trained: Column to its categories in training; of another column, those that the signature names.
        next_larger: Whether an unseen one of these is taken for the next larger one, as XGBoost takes it.
    """
    columns = []
    for place, column in enumerate(table.columns):
        if column.field is None or column.field.categories is None:
            columns.append(column)
            continue
        values = list(trained.get(place, column.field.categories))
        if next_larger and place in trained:
            number = _next_larger(fields, column, values)
        else:
            number = looked_up(fields, column, values, np.arange(float(len(values))))
        columns.append(replace(number, key=column.key))
    return replace(table, columns=tuple(columns))


def _next_larger(fields: Fields, column: Column, values: list[Any]) -> Column:
    """Return the place of the first category, in their order, that is not smaller; what is larger than all has none.

    XGBoost orders text by signed bytes: what is beyond ASCII comes before it, and a tab stands for that here.
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    if column.dtype == TEXT:
        if not all(value.isascii() and value.isprintable() for value in values):
            refuse(f"orders categories of {column.key!r} that are not plain ASCII", "rename these categories")
        text = reference(column.name)
        plain = known(text, apply("replace", text, constant(_BEYOND_ASCII), constant("\t")))
        column = fields.derive(f"order({column.name})", TEXT, plain, ordered=True)
    value = reference(column.name)

    def search(low: int, high: int) -> Element:
        if low == high:
            return constant(float(order[low]))
        middle = (low + high) // 2
        return apply("if", not_above(middle), search(low, middle), search(middle + 1, high))

    def not_above(rank: int) -> Element:
        bound = values[order[rank]]
        return apply("lessOrEqual", value, constant(bound if isinstance(bound, str) else float(bound)))

    last = len(order) - 1
    place = known(value, apply("if", not_above(last), search(0, last)))
    return fields.derive(f"code({column.name})", F32, place)


def whole(fields: Fields, column: Column, *, towards_zero: bool = False) -> Column:
    """Return the numbers of categories cut to whole ones."""
    value = reference(column.name)
    cut = truncated(value) if towards_zero else rounded_down(value)
    return fields.derive(f"whole({column.name})", column.dtype, known(value, cut))
