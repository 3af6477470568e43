"""NumPy: one array, called ``X``.

* a matrix stays one field; its columns have no names;
* text is kept as objects; an array of fixed-width text (``<U3``) becomes one again when the model is called;
* an array of objects that are all numbers is kept as numbers and becomes objects again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.containers._match import spread
from vitrify.containers._values import as_array, describe, missing, put, settle

if TYPE_CHECKING:
    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Field

    Array = np.ndarray[Any, Any]

NAME = "X"


class NumpyContainer:
    """One array."""

    def fields(self, example: Any) -> tuple[Field, ...]:
        """See :class:`vitrify.core.protocols.Container`."""
        array = as_array(example)
        return (describe(NAME, array).replace(container_dtype=native_dtype(array)),)

    def to_arrays(self, data: Any, fields: tuple[Field, ...]) -> Arrays:
        """See :class:`vitrify.core.protocols.Container`."""
        return spread(plain(as_array(data)), fields, name=NAME)

    def from_arrays(self, arrays: Arrays, fields: tuple[Field, ...]) -> Any:
        """Return a copy: the model may change it."""
        [field] = fields
        return native(arrays[field.name], field)


def with_nan(array: Array) -> Array:
    """Return masked integers as float64 and masked booleans as objects, with NaN: what pandas makes of them."""
    if array.dtype.kind == "b":
        return put(np.ma.getdata(array), missing(array), np.nan)
    return np.where(missing(array), np.nan, np.ma.getdata(array).astype(np.float64))


def native_dtype(array: Array) -> str | None:
    """Return what the field's type does not say about an array: fixed-width text, or numbers as objects."""
    if array.dtype.kind in {"U", "S"}:
        return str(array.dtype.kind)
    return "object" if array.dtype.kind == "O" and settle(array).dtype.kind != "O" else None


def plain(array: Array) -> Array:
    """Return an array whose text is objects and whose numbers are numbers."""
    if array.dtype.kind in "UST":
        return array.astype(object)
    return settle(array) if array.dtype.kind == "O" else array


def native(array: Array, field: Field) -> Array:
    """Return the array as the example had it; missing integers are NaN, as NumPy has no other."""
    if field.container_dtype == "object":
        return put(np.ma.getdata(array), missing(array), np.nan)
    if isinstance(array, np.ma.MaskedArray):
        return array.copy() if field.nullable else with_nan(array)
    if field.container_dtype in {"U", "S"} and not missing(array).any():
        return array.astype(field.container_dtype)
    return np.array(array)
