"""Casting: one array to one field's element type, and only where no value changes.

Everything is vectorised; only arrays of objects are looked at value by value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.containers._values import dtype_of, kinds_of, missing, put, settle, storage
from vitrify.core.signature import BATCH

if TYPE_CHECKING:
    from vitrify.core.signature import Field

    Array = np.ndarray[Any, Any]

_PLAIN = {"string": {"text"}, "bytes": {"bytes"}, "object": {"text", "bytes", "bool", "int", "float"}}


class CastError(Exception):
    """Some value would change: what was found, and what to do about it."""

    def __init__(self, found: str, remedy: str) -> None:
        super().__init__(found)
        self.found = found
        self.remedy = remedy


def cast(array: Array, field: Field) -> Array:
    """Return an array as the field holds it; where nothing has to be done, the same array.

    Raises:
        CastError: Some value would change.
    """
    target = storage(field.dtype)
    if array.dtype == target and not _needs_work(array, field):
        return array
    if target.kind == "O":
        return _objects(array, field.dtype)
    if array.dtype.kind == "O":
        array = settle(array)
    gaps = missing(array)
    if gaps.all():
        return _with_gaps(np.zeros(array.shape, target), gaps, field)
    data = np.ma.getdata(array)
    if gaps.any():
        data = np.where(gaps, np.zeros((), data.dtype), data)
    return _with_gaps(_exact(data, target, field.dtype), gaps, field)


def _needs_work(array: Array, field: Field) -> bool:
    kind = array.dtype.kind
    return kind == "O" or _is_masked(array) or field.dtype == "bfloat16" or (field.nullable and kind in "biu")


def found(array: Array) -> str:
    """Return what an array holds, in words."""
    if (dtype := dtype_of(array)) and dtype != "object":
        return dtype
    kinds = sorted(kinds_of(array)) if array.dtype.kind == "O" else [str(array.dtype)]
    return f"a mixture of {', '.join(kinds)}" if len(kinds) > 1 else ", ".join(kinds)


def _with_gaps(data: Array, gaps: Array, field: Field) -> Array:
    """Mark the missing values in the way of this type."""
    kind = data.dtype.kind
    if kind in "fcmM":
        return np.where(gaps, data.dtype.type("NaT" if kind in "mM" else "nan"), data) if gaps.any() else data
    if gaps.any() and not field.nullable and field.shape != (BATCH,):
        count = f"{int(gaps.sum())} missing values"
        raise CastError(count, f"fill them; {field.dtype} has none")
    return np.ma.MaskedArray(data, mask=gaps) if field.nullable or gaps.any() else data


def _exact(data: Array, target: np.dtype[Any], name: str) -> Array:
    source = data.dtype
    if target.kind == "c" and source.kind in "biuf":
        return _exact(data, target.type().real.dtype, name).astype(target)
    if not (source.kind in "biuf" and target.kind in "biuf") and source.kind != target.kind:
        remedy = "convert it yourself; nothing is guessed from text" if source.kind == "O" else f"convert it to {name}"
        raise CastError(found(data), remedy)
    with np.errstate(over="ignore", invalid="ignore"):
        result = data.astype(target, copy=False)
        kept = result.astype(source, copy=False) == data
    if source.kind in "iu" and target.kind in "iu":
        limits = np.iinfo(target)
        kept = (data >= limits.min) & (data <= limits.max)
    elif source.kind in "iu" and target.kind == "f":
        kept &= _holds(source, result)
    elif source.kind == "f" and target.kind in "iu":
        kept &= _holds(target, data)
    if name == "bfloat16":
        kept &= np.ascontiguousarray(result).view(np.uint32) & 0xFFFF == 0
    if not kept.all():
        bad = np.argwhere(~kept)
        first = f"{data[tuple(bad[0])]!s} in row {bad[0][0]}" if data.ndim else str(data)
        what = f"{found(data)}, {len(bad)} of {data.size} values not exact in {name} ({first})"
        raise CastError(what, f"round or convert it to {name} yourself")
    return result


def _holds(integers: np.dtype[Any], floats: Array) -> Array:
    """Return which floats lie within the range of an integer type, where casting is defined."""
    limits = np.iinfo(integers)
    floats = floats.astype(np.float64, copy=False)  # float16 has no room for the limits
    return np.asarray((floats >= float(limits.min)) & (floats < float(limits.max // 2 + 1) * 2))


def _objects(array: Array, dtype: str) -> Array:
    plain = array if array.dtype.kind == "O" else np.ma.getdata(array).astype(object)
    if _is_masked(array):
        plain = put(np.ma.getdata(plain), np.ma.getmaskarray(array), None)
    kinds = kinds_of(plain)
    if dtype != "object" and "float" in kinds:  # NaN is missing text, other floats are not
        kinds = kinds_of(plain[~missing(plain)])
    if unexpected := kinds - {"none"} - _PLAIN[dtype]:
        wanted = {"string": "text", "bytes": "bytes"}.get(dtype, "text and numbers")
        raise CastError(", ".join(sorted(unexpected)), f"give {wanted}")
    return plain


def _is_masked(array: Array) -> bool:
    return isinstance(array, np.ma.MaskedArray)
