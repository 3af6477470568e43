"""Polars: a data frame with one field a column.

* a column with nulls gives masked integers and booleans, NaN, NaT, or None in text; nulls come back, except that
  NaN stays NaN;
* ``container_dtype`` is Polars' name of the type where the field's does not say it: ``Categorical``, ``Enum``, or a
  time's zone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from vitrify.containers._labels import label, named, names
from vitrify.containers._match import gather
from vitrify.containers._values import all_fields, describe, missing, put
from vitrify.core.errors import SignatureError

if TYPE_CHECKING:
    from vitrify.containers._labels import Key
    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Field

    Array = np.ndarray[Any, Any]

_ZONE = "zone:"
_TIMES = (pl.Datetime, pl.Date, pl.Duration)
_TEXT = (pl.String, pl.Categorical, pl.Enum, pl.Binary, pl.Null)


class PolarsContainer:
    """A data frame."""

    def fields(self, example: Any) -> tuple[Field, ...]:
        """See :class:`vitrify.core.protocols.Container`."""
        pairs = zip(named(example.columns), example, strict=True)
        return all_fields(partial(_field, name, key, column) for (name, key), column in pairs)

    def to_arrays(self, data: Any, fields: tuple[Field, ...]) -> Arrays:
        """See :class:`vitrify.core.protocols.Container`."""
        by_label = names(data.columns, fields)
        return gather(((by_label[column.name], column) for column in data), fields, _read)

    def from_arrays(self, arrays: Arrays, fields: tuple[Field, ...]) -> Any:
        """Return the frame."""
        return pl.DataFrame([_series(arrays[field.name], field) for field in fields])


def _read(_name: str, column: pl.Series, _field: Field | None) -> Array:
    return _array(column)


def _field(name: str, key: Key, column: pl.Series) -> Field:
    field = describe(name, _array(column)).replace(key=key)
    dtype = column.dtype
    if isinstance(dtype, pl.Enum):
        return field.replace(dtype="string", container_dtype="Enum", categories=tuple(dtype.categories.to_list()))
    if isinstance(dtype, pl.Categorical):
        return field.replace(dtype="string", container_dtype="Categorical")
    if isinstance(dtype, pl.String | pl.Binary):
        return field.replace(dtype="string" if isinstance(dtype, pl.String) else "bytes")
    if isinstance(dtype, pl.Datetime) and dtype.time_zone:
        return field.replace(container_dtype=f"{_ZONE}{dtype.time_zone}")
    return field


def _array(column: pl.Series) -> Array:
    dtype = column.dtype
    if isinstance(dtype, _TEXT):
        values = column.cast(pl.String) if isinstance(dtype, pl.Categorical | pl.Enum) else column
        array = np.empty(len(values), object)
        array[:] = values.to_list()
        return array
    if isinstance(dtype, _TIMES) or dtype.is_float():
        return np.asarray(column.to_numpy())
    if not (dtype.is_integer() or isinstance(dtype, pl.Boolean)) or dtype in {pl.Int128, pl.UInt128}:
        msg = f"column {column.name!r}: Polars type {dtype} cannot be kept"
        raise SignatureError(msg, remedy="cast it first: frame.with_columns(pl.col(name).cast(pl.Float64))")
    if not column.null_count():
        return np.asarray(column.to_numpy())
    filled = column.fill_null(value=False if isinstance(dtype, pl.Boolean) else 0)
    return np.ma.MaskedArray(filled.to_numpy(), mask=column.is_null().to_numpy())


def _series(array: Array, field: Field) -> pl.Series:
    if field.dtype == "string":
        values = put(array, missing(array), None).tolist()
        return pl.Series(label(field), values, pl.String).cast(_text_type(field, values))
    if field.dtype in {"object", "bytes"}:
        return pl.Series(label(field), array.tolist(), pl.Binary if field.dtype == "bytes" else None)
    if isinstance(array, np.ma.MaskedArray):
        whole = pl.Series(label(field), np.ascontiguousarray(array.data))
        return whole.set(pl.Series(np.ma.getmaskarray(array)), None)
    series = pl.Series(label(field), np.ascontiguousarray(array))
    if (native := field.container_dtype or "").startswith(_ZONE):
        return series.dt.replace_time_zone("UTC").dt.convert_time_zone(native.removeprefix(_ZONE))
    return series


def _text_type(field: Field, values: list[str | None]) -> Any:
    if field.container_dtype != "Enum":
        return pl.Categorical if field.container_dtype == "Categorical" else pl.String
    known = [str(category) for category in field.categories or ()]
    unseen = dict.fromkeys(value for value in values if value is not None and value not in set(known))
    return pl.Enum([*known, *unseen])
