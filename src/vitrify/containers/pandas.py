"""pandas: a data frame with one field a column, or a series as a table of one column.

* labels that are no text (2, True, None, ("a", 1)) are kept in the field's ``key``;
* ``container_dtype`` is pandas' own name of the type (``str``, ``object``, ``Int64``, ``category``,
  ``datetime64[ns, UTC]``); ``category[object]`` is a category whose labels are text in an object index, and
  ``series:`` stands before it where the example is a series;
* None, NaN and text in object columns stay what they are; pandas.NA there becomes None;
* times with a zone are kept as UTC and get their zone back;
* where a column of ``int64`` has missing values, the model gets what pandas makes of it: float64 with NaN; a column of
  ``bool`` becomes objects with NaN;
* a value outside the recorded categories is added behind them: what it means is the model's to say.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from vitrify.containers._labels import encodable, label, named, names
from vitrify.containers._match import gather
from vitrify.containers._values import all_fields, as_array, describe, missing, put
from vitrify.containers.numpy import with_nan
from vitrify.core.errors import SignatureError

if TYPE_CHECKING:
    from vitrify.containers._labels import Key
    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Field, Scalar

    Array = np.ndarray[Any, Any]

NAME = "X"
_SERIES = "series:"
_TEXT = {"str": np.nan, "string": pd.NA}
"""Types of text, and what is missing there."""

_EXTENSION = {"Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64", "boolean"}


class PandasContainer:
    """A data frame or a series."""

    def fields(self, example: Any) -> tuple[Field, ...]:
        """See :class:`vitrify.core.protocols.Container`."""
        if isinstance(example, pd.Series):
            [(name, key)] = [(NAME, None)] if example.name is None else named([example.name])
            field = _field(name, (None,) if example.name is None else key, example)
            return (field.replace(container_dtype=f"{_SERIES}{field.container_dtype}"),)
        columns = (example.iloc[:, position] for position in range(example.shape[1]))
        pairs = zip(named(example.columns), columns, strict=True)
        return all_fields(partial(_field, name, key, column) for (name, key), column in pairs)

    def to_arrays(self, data: Any, fields: tuple[Field, ...]) -> Arrays:
        """See :class:`vitrify.core.protocols.Container`."""
        if isinstance(data, pd.Series):
            name = fields[0].name if len(fields) == 1 else names([data.name], fields)[data.name]
            return {name: _array(data)}
        by_label = names(data.columns, fields)
        columns = (data.iloc[:, position] for position in range(data.shape[1]))
        pairs = zip(data.columns, columns, strict=True)
        return gather(((by_label[value], column) for value, column in pairs), fields, _read)

    def from_arrays(self, arrays: Arrays, fields: tuple[Field, ...]) -> Any:
        """Return the frame or the series."""
        columns = [_column(arrays[field.name], field) for field in fields]
        if (fields[0].container_dtype or "").startswith(_SERIES):
            return columns[0].rename(label(fields[0]))
        frame = pd.DataFrame(dict(enumerate(columns)))
        frame.columns = _index([label(field) for field in fields])
        return frame


def _index(labels: list[Any]) -> Any:
    """Return the columns' index; tuples of one length make a MultiIndex, as pandas itself does."""
    kinds = {len(value) if isinstance(value, tuple) else type(value) for value in labels}
    if len(kinds) == 1:
        return pd.Index(labels)
    return pd.Index(labels, dtype=object, tupleize_cols=False)  # else pandas makes None NaN, and 1 and 0.5 floats


def _read(_name: str, column: Any, _field: Field | None) -> Array:
    return _array(column)


def _field(name: str, key: Key, column: Any) -> Field:
    """Describe one column."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        labels = as_array(dtype.categories.to_numpy())
        field = describe(name, labels)
        values = list(labels) if labels.dtype.kind in "mM" else labels.tolist()
        categories = tuple(_category(name, value) for value in values)
        native = "category[object]" if field.dtype == "string" and dtype.categories.dtype == object else "category"
        return field.replace(
            key=key,
            categories=categories,
            ordered=bool(dtype.ordered),
            nullable=bool(column.isna().any()),
            container_dtype=native,
        )
    if isinstance(dtype, pd.DatetimeTZDtype):
        _require_name(name, dtype)
    field = describe(name, _array(column))
    nullable = field.nullable or str(dtype) in _EXTENSION
    return field.replace(key=key, container_dtype=str(dtype), nullable=nullable)


def _require_name(name: str, dtype: Any) -> None:
    """Refuse a time zone that is no more than a file or a setting of this machine."""
    try:
        known = pd.api.types.pandas_dtype(str(dtype)) == dtype
    except TypeError:
        known = False
    if not known:
        msg = f"{name}: the time zone {dtype.tz} has no name that another machine knows"
        raise SignatureError(msg, remedy="convert it: frame[column].dt.tz_convert('UTC')")


def _category(name: str, value: Any) -> Scalar:
    if isinstance(value, bool | int) or (isinstance(value, str) and encodable(value)):
        return value
    if isinstance(value, float) and np.isfinite(value):
        return value
    msg = f"{name}: a category called {value!r}, a {type(value).__name__}; categories are text, numbers or booleans"
    raise SignatureError(msg, remedy="rename them: frame[column].cat.rename_categories(str)")


def _array(column: Any) -> Array:
    """Return one column's values, with missing ones in our way."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _labels(column)
    if isinstance(dtype, pd.DatetimeTZDtype):
        return np.asarray(column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    if str(dtype) in _EXTENSION:
        return _masked(column)
    if isinstance(dtype, pd.StringDtype | np.dtype):
        return as_array(column.to_numpy(dtype=object if isinstance(dtype, pd.StringDtype) else None))
    msg = f"column {column.name!r}: pandas type {dtype} cannot be kept"
    raise SignatureError(msg, remedy="convert it first, for example with .astype(str) or .sparse.to_dense()")


def _labels(column: Any) -> Array:
    """Return the labels of a categorical column."""
    codes = column.cat.codes.to_numpy()
    labels = as_array(column.cat.categories.to_numpy())
    gaps = codes < 0
    if not len(labels):
        return np.full(len(codes), None, object)
    values = np.asarray(labels[np.where(gaps, 0, codes)])
    if not gaps.any():
        return values
    return np.where(gaps, np.nan, values) if values.dtype.kind in "Of" else np.ma.MaskedArray(values, mask=gaps)


def _masked(column: Any) -> Array:
    values = column.array
    gaps = np.asarray(values.isna())
    dtype = values.dtype.numpy_dtype
    data = np.asarray(values.to_numpy(dtype=dtype, na_value=dtype.type(0)))
    return np.where(gaps, dtype.type(np.nan), data) if dtype.kind == "f" else np.ma.MaskedArray(data, mask=gaps)


def _column(array: Array, field: Field) -> Any:
    """Return one column as pandas has it."""
    native = (field.container_dtype or field.dtype).removeprefix(_SERIES)
    if field.categories is not None:
        return pd.Series(_categorical(array, field, native))
    if native in _EXTENSION:
        return pd.Series(_extension(array))
    if native == "object":
        return pd.Series(array.copy() if array.dtype.kind == "O" else put(array, missing(array), np.nan), dtype=object)
    if isinstance(array, np.ma.MaskedArray):
        return pd.Series(with_nan(array) if array.mask.any() else array.data.copy())
    if native in _TEXT:
        return pd.Series(_text(array.copy(), native))
    column = pd.Series(array.copy())
    return column.dt.tz_localize("UTC").astype(native) if "," in native else column


def _text(values: Array, native: str) -> Any:
    """Return text as pandas keeps it by itself, but half a character as Python does: Arrow has whole ones only."""
    try:
        return pd.array(values, dtype=native)
    except UnicodeEncodeError:
        return pd.array(values, dtype=pd.StringDtype("python", na_value=_TEXT[native]))


def _extension(array: Array) -> Any:
    """Return one of pandas' arrays that have a mask; a constructor of theirs takes our mask as it is."""
    kinds = {"b": pd.arrays.BooleanArray, "f": pd.arrays.FloatingArray}
    return kinds.get(array.dtype.kind, pd.arrays.IntegerArray)(np.ma.getdata(array).copy(), missing(array).copy())


def _categorical(array: Array, field: Field, native: str) -> Any:
    assert field.categories is not None
    index = pd.Index(list(field.categories), dtype=object if native == "category[object]" else None)
    if field.dtype not in {"string", "object"}:
        index = index.astype(field.dtype)
    gaps = missing(array)
    present = np.ma.getdata(array)[~gaps]
    values = pd.Index(_text(present, "str")) if index.dtype == "str" else pd.Index(present, dtype=index.dtype)
    index = index.astype(values.dtype)
    found = index.get_indexer(values)
    if (unseen := found < 0).any():
        index = pd.Index([*index, *values[unseen].unique()], dtype=index.dtype)
        found = index.get_indexer(values)
    codes = np.full(array.shape, -1, np.int64)
    codes[~gaps] = found
    return pd.Categorical.from_codes(codes, categories=index, ordered=field.ordered)
