"""Records: a list of dicts, one a row; or a list of values, which is one field called ``X``.

* a key that some record does not have is missing there, and left out again when the model is called;
* a list of text or numbers is one field; a list of lists of one length is a matrix.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.containers._labels import label, named, names
from vitrify.containers._match import gather, spread
from vitrify.containers._parts import part_array
from vitrify.containers._values import all_fields, describe, from_list, missing, no_rows
from vitrify.containers.positional import positions
from vitrify.core.errors import SignatureError

if TYPE_CHECKING:
    from vitrify.containers._labels import Key
    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Field

    Array = np.ndarray[Any, Any]

NAME = "X"
_LIST = "list"
_OPTIONAL = "optional"


class RecordsContainer:
    """A list of dicts, or of values."""

    def fields(self, example: Any) -> tuple[Field, ...]:
        """See :class:`vitrify.core.protocols.Container`."""
        if not _are_records(example):
            _refuse_arrays(example)
            return (describe(NAME, part_array(NAME, example, None)).replace(container_dtype=_LIST),)
        keys = _keys(example)
        pairs = zip(keys, named(keys), strict=True)
        return all_fields(partial(_field, example, key, name, kept) for key, (name, kept) in pairs)

    def to_arrays(self, data: Any, fields: tuple[Field, ...]) -> Arrays:
        """See :class:`vitrify.core.protocols.Container`."""
        if not data:
            return {field.name: no_rows(field) for field in fields}
        if _are_records(data):
            columns = ((name, [record.get(key) for record in data]) for key, name in names(_keys(data), fields).items())
            return gather(columns, fields, part_array)
        if len(fields) > 1 and any(len(field.shape) != 1 for field in fields):
            return positions(data, fields)
        dtype = fields[0].dtype if len(fields) == 1 else None
        return spread(from_list(data, name=NAME, dtype=dtype), fields, name=NAME)

    def from_arrays(self, arrays: Arrays, fields: tuple[Field, ...]) -> Any:
        """Return a list of dicts, or of values."""
        if fields[0].container_dtype == _LIST:
            return _values(arrays[fields[0].name])
        columns = [(label(field), _values(arrays[field.name]), _left_out(arrays, field)) for field in fields]
        count = len(columns[0][1])
        return [{key: values[row] for key, values, out in columns if not out[row]} for row in range(count)]


def _are_records(data: list[Any]) -> bool:
    kinds = {isinstance(row, dict) for row in data}
    if len(kinds) > 1:
        msg = "a list of dicts and other values"
        raise SignatureError(msg, remedy="give a list of dicts, one a row")
    return kinds == {True}


def _keys(records: list[dict[Any, Any]]) -> list[Any]:
    return list(dict.fromkeys(key for record in records for key in record))


def _field(records: list[dict[Any, Any]], key: Any, name: str, kept: Key) -> Field:
    field = describe(name, part_array(name, [record.get(key) for record in records], None))
    optional = any(key not in record for record in records)
    return field.replace(key=kept, container_dtype=_OPTIONAL if optional else None)


def _refuse_arrays(values: list[Any]) -> None:
    if any(hasattr(value, "__array__") and getattr(value, "shape", ()) for value in values):
        msg = "a list of arrays: it may be the rows of one input or several inputs"
        raise SignatureError(msg, remedy="stack the rows of one input, or give several inputs as a tuple or a dict")


def _values(array: Array) -> list[Any]:
    values: list[Any] = array.tolist()
    return values


def _left_out(arrays: Arrays, field: Field) -> list[bool]:
    array = arrays[field.name]
    gaps = missing(array) if field.container_dtype == _OPTIONAL else np.zeros(len(array), np.bool_)
    flags: list[bool] = gaps.tolist()
    return flags
