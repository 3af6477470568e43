"""Values: what an array holds, and which element type that is.

Arrays of objects come from everywhere (frames, records, lists). :func:`settle` finds the narrowest type that keeps
every value; :func:`describe` says what a field of these values looks like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import SignatureError
from vitrify.core.signature import BATCH, DTYPES, Field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Array = np.ndarray[Any, Any]

_KINDS: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("text", (str,)),
    ("bytes", (bytes,)),
    ("bool", (bool, np.bool_)),
    ("int", (int, np.integer)),
    ("float", (float, np.floating)),
    ("none", (type(None),)),
)
_NA = "NAType"  # pandas.NA, which answers every comparison with itself
_REMEDY = "turn it into numbers or text first"


def as_array(data: Any) -> Array:
    """Return a plain or a masked array, in which pandas.NA is None.

    Other subclasses, such as the matrix, behave in their own way and become plain.
    """
    array = data if isinstance(data, np.ma.MaskedArray) else np.asarray(data)
    if array.dtype.kind != "O" or _NA not in kinds_of(array):
        return array
    return put(array, np.reshape([type(value).__name__ == _NA for value in array.flat], array.shape), None)


def storage(dtype: str) -> np.dtype[Any]:
    """Return the NumPy type that holds a field's values: bfloat16 is kept as float32, text as objects."""
    if dtype in {"string", "object", "bytes"}:
        return np.dtype(object)
    return np.dtype("float32" if dtype == "bfloat16" else dtype)


def no_rows(field: Field) -> Array:
    """Return what a field holds when there is no data: every size that may change is 0."""
    return np.empty([size if isinstance(size, int) else 0 for size in field.shape], storage(field.dtype))


def from_list(values: Sequence[Any], *, name: str, dtype: str | None = None) -> Array:
    """Return Python values as an array of the narrowest type that keeps them.

    Python numbers have no precision of their own: floats take that of the field (``dtype``) where it is known, as
    they do beside a NumPy array.

    Raises:
        SignatureError: The nested lists are ragged.
    """
    try:
        array = as_array(np.array(values, dtype=object))
        ragged = bool(kinds_of(array) & {"list", "tuple"})
    except ValueError:  # so NumPy says it of arrays
        ragged = True
    if ragged:
        msg = f"{name}: nested lists of different lengths make no array"
        raise SignatureError(msg, remedy="pad them to one length")
    settled = settle(array)
    if settled.dtype == np.float64 and dtype in {"float16", "bfloat16", "float32"}:
        with np.errstate(over="ignore"):
            settled = settled.astype(storage(dtype))
        return _round_bfloat16(settled) if dtype == "bfloat16" else settled
    return settled


def settle(array: Array) -> Array:
    """Return an array of objects in the narrowest type that keeps every value.

    Integers and booleans are masked where some are missing, floats are NaN there; text and everything mixed stay
    objects.
    """
    if array.size == 0 or not kinds_of(array) <= {"bool", "int", "float", "none"}:
        return array
    gaps = missing(array)
    values = [None if gap else value for value, gap in zip(array.ravel().tolist(), gaps.ravel().tolist(), strict=True)]
    kinds = {_kind(cls) for cls in set(map(type, values))} - {"none"}
    if kinds == {"bool"}:
        return _masked([bool(value) for value in values], np.dtype(np.bool_), gaps)
    if kinds == {"int"}:
        return next((_masked([value or 0 for value in values], dtype, gaps) for dtype in _fitting(values)), array)
    if kinds in ({"float"}, {"int", "float"}):
        return _as_floats(array, values)
    return array


def _fitting(values: list[Any]) -> list[np.dtype[Any]]:
    """Return int64, or uint64, if it holds all these integers."""
    numbers = [value for value in values if value is not None]
    low, high = int(min(numbers)), int(max(numbers))
    dtypes = (np.dtype(np.int64), np.dtype(np.uint64))
    return [dtype for dtype in dtypes if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max]


def _as_floats(array: Array, values: list[Any]) -> Array:
    try:
        floats = [np.nan if value is None else float(value) for value in values]
    except OverflowError:
        return array
    if any(isinstance(v, int | np.integer) and int(f) != v for v, f in zip(values, floats, strict=True)):
        return array
    return np.array(floats, np.float64).reshape(array.shape)


def _masked(values: list[Any], dtype: np.dtype[Any], gaps: Array) -> Array:
    data = np.array(values, dtype).reshape(gaps.shape)
    return np.ma.MaskedArray(data, mask=gaps) if gaps.any() else data


def _round_bfloat16(array: Array) -> Array:
    """Round float32 to the nearest bfloat16, ties to even; the result is float32."""
    bits = np.ascontiguousarray(array).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
    return np.where(np.isnan(array), array, rounded.astype(np.uint32).view(np.float32))


def kinds_of(array: Array) -> set[str]:
    """Return the kinds of value in an array of objects: text, bytes, bool, int, float, none, or a type's own name."""
    return {_kind(cls) for cls in set(map(type, array.ravel().tolist()))}


def _kind(cls: type) -> str:
    return next((kind for kind, bases in _KINDS if issubclass(cls, bases)), cls.__name__)


def missing(array: Array) -> Array:
    """Return where values are missing: masked, NaN, NaT or None. Objects are numbers, text, bytes or None."""
    if isinstance(array, np.ma.MaskedArray):
        return np.asarray(np.ma.getmaskarray(array))
    if array.dtype.kind in "fc":
        return np.asarray(np.isnan(array))
    if array.dtype.kind in "mM":
        return np.asarray(np.isnat(array))
    if array.dtype.kind != "O":
        return np.zeros(array.shape, np.bool_)
    # Compared in C: of all that an array of objects may hold, NaN alone is unequal to itself.
    return np.asarray((array != array) | (array == None), np.bool_)  # noqa: E711, PLR0124 (for each value)


def put(array: Array, where: Array, value: object) -> Array:
    """Return the values as objects, with another one at some places."""
    result = np.asarray(array).astype(object)
    result[where] = value
    return result


def dtype_of(array: Array) -> str | None:
    """Return the field type of an array, or None where no field can hold it."""
    match array.dtype.kind:
        case "O":
            settled = settle(array)
            return _object_dtype(array) if settled.dtype.kind == "O" else dtype_of(settled)
        case "U" | "T":
            return "string"
        case "S":
            return "bytes"
        case _:
            name = array.dtype.newbyteorder("=").name
            return name if name in DTYPES else None


def _object_dtype(array: Array) -> str | None:
    kinds = kinds_of(array)
    if not kinds <= {"text", "bytes", "bool", "int", "float", "none"}:
        return None
    if kinds & {"text", "bytes"} and "float" in kinds:
        kinds = kinds_of(array[~missing(array)])
    dtypes = {frozenset({"text"}): "string", frozenset({"bytes"}): "bytes"}
    return dtypes.get(frozenset(kinds - {"none"}), "object")


def all_fields(described: Iterable[Callable[[], Field]]) -> tuple[Field, ...]:
    """Return every field, or raise one error with everything that cannot be one."""
    fields, problems = [], []
    for make in described:
        try:
            fields.append(make())
        except SignatureError as error:
            problems.append(error)
    if problems:
        remedies = dict.fromkeys(problem.remedy for problem in problems)
        raise SignatureError("\n".join(problem.message for problem in problems), remedy="; ".join(remedies))
    return tuple(fields)


def describe(name: str, array: Array) -> Field:
    """Return the field that an array shows; its first axis is the batch.

    Raises:
        SignatureError: It holds something that no field can.
    """
    dtype = dtype_of(array)
    if dtype is None:
        what = ", ".join(sorted(kinds_of(array))) if array.dtype.kind == "O" else f"dtype {array.dtype}"
        msg = f"{name}: values of {what} cannot be kept (expected numbers, booleans, text, bytes or times)"
        raise SignatureError(msg, remedy=_REMEDY)
    settled = settle(array) if array.dtype.kind == "O" else array
    nullable = isinstance(settled, np.ma.MaskedArray) or bool(missing(settled).any())
    shape = (BATCH, *array.shape[1:]) if array.ndim else ()
    return Field(name=name, dtype=dtype, shape=shape, nullable=nullable)
