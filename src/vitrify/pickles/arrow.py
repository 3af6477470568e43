"""Arrow arrays, as pandas pickles columns of text where PyArrow is installed: put together by checked functions.

PyArrow's own function takes a type, a length and buffers on trust, and what computes on the array follows its offsets
in C++. The functions here stand in for those that a pickle names (:mod:`vitrify.pickles.building`). They make arrays
of a closed list of types, none of which holds another array, and only after the length and every offset were compared
with the buffers. PyArrow is imported when such a pickle is loaded; auditing one needs no PyArrow.

Source: ``pyarrow/array.pxi`` (``_reduce_array_data``), https://arrow.apache.org/docs/format/Columnar.html
(``Validity bitmaps``, ``Variable-size Binary Layout``).
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MissingDependencyError
from vitrify.pickles.inert import shown
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_HOSTILE = "do not use this file: no pickler writes such an array"
_PLAINER = "before saving, convert the column to text, bytes, booleans, numbers, dates or times"

_FIXED = frozenset(
    {
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("halffloat", "float", "double", "date32[day]", "date64[ms]"),
        *("time32[s]", "time32[ms]", "time64[us]", "time64[ns]"),
        *(f"duration[{unit}]" for unit in ("s", "ms", "us", "ns")),
    }
)
"""Types whose elements have one size, as PyArrow calls them in a pickle; timestamps have a function of their own."""

_OFFSETS: Mapping[str, str] = MappingProxyType(
    {"string": "<i4", "binary": "<i4", "large_string": "<i8", "large_binary": "<i8"}
)
"""Types whose elements lie between two offsets, and the NumPy type of these."""

UNITS = frozenset({"s", "ms", "us", "ns"})
UNKNOWN = -1
"""The number of missing values where nobody has counted them."""


def library() -> Any:
    """Return PyArrow.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
    except ImportError as error:
        msg = "the pickle holds a column of pandas that Arrow keeps, and PyArrow is not installed"
        raise MissingDependencyError(msg, remedy="pip install 'vitrify[parquet]'") from error
    return pa


def _type(alias: Any, *, where: str) -> Any:
    """Stand in for ``pyarrow.lib.type_for_alias``."""
    if type(alias) is not str or not (alias in _FIXED or alias in _OFFSETS):
        refuse(where, f"a column of the type {shown(alias)}, which is not read from pickles", remedy=_PLAINER)
    return library().type_for_alias(alias)


def _timestamp(unit: Any, zone: Any = None, *, where: str) -> Any:
    """Stand in for ``pyarrow.lib.timestamp``."""
    if type(unit) is not str or unit not in UNITS or not (zone is None or type(zone) is str):
        refuse(where, f"Arrow times in {shown(unit)} (expected s, ms, us or ns)", remedy=_HOSTILE)
    return library().timestamp(unit, zone)


def _buffer(content: Any, *, where: str) -> Any:
    """Stand in for ``pyarrow.lib.py_buffer``: a view, of bytes only."""
    if type(content) not in {bytes, bytearray}:
        refuse(where, f"an Arrow buffer of a {type(content).__name__} (expected bytes)", remedy=_HOSTILE)
    return library().py_buffer(content)


def _array(data: Any, *, where: str) -> Any:
    """Stand in for ``pyarrow.lib._restore_array``.

    Raises:
        MalformedError: It is of a type that is not read, or its parts do not fit each other.
    """
    pa = library()
    kind, length, missing, offset, buffers = _parts(data, pa, where)
    if length == 0:  # its buffers are never looked at, and may be missing
        return pa.array([], kind)
    layout = str(kind)
    held = [_unchanging(buffer, pa) for buffer in buffers]
    if not all(_fit(kind, length, offset, held, _OFFSETS.get(layout))):
        what = f"an Arrow array of {shown(length)} {layout} from {shown(offset)} on, outside of its buffers"
        refuse(where, what, remedy=_HOSTILE)
    if layout in _OFFSETS and held[2] is None:
        held[2] = pa.py_buffer(b"")
    try:
        array = pa.Array.from_buffers(kind, length, held, UNKNOWN, offset)
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        refuse(where, f"an Arrow array of {layout} that holds something else: {str(error)[:200]}", remedy=_HOSTILE)
    if missing not in {UNKNOWN, array.null_count}:
        what = f"an Arrow array in which {array.null_count} of {length} are missing (expected {missing}, as it says)"
        refuse(where, what, remedy=_HOSTILE)
    return array


def _parts(data: Any, pa: Any, where: str) -> tuple[Any, int, int, int, list[Any]]:
    """Take a pickled array apart: type, length, missing values, offset, buffers; and neither children nor labels."""
    if type(data) is not tuple or len(data) != 7 or not isinstance(data[0], pa.DataType):  # noqa: PLR2004 (what PyArrow writes)
        refuse(where, "an Arrow array made of other parts than a type, numbers and buffers", remedy=_HOSTILE)
    kind, length, missing, offset, buffers, children, labels = data
    if not _is_read(kind, pa):
        refuse(where, f"a column of the type {str(kind)[:60]}, which is not read from pickles", remedy=_PLAINER)
    if not all(type(number) is int for number in (length, missing, offset)):
        refuse(where, "an Arrow array whose length, offset or missing values are no integers", remedy=_HOSTILE)
    if length < 0 or offset < 0 or not UNKNOWN <= missing <= length:
        what = f"an Arrow array of {shown(length)} elements from {shown(offset)} on, {shown(missing)} missing"
        refuse(where, what, remedy=_HOSTILE)
    if type(buffers) is not list or type(children) is not list or children or labels is not None:
        refuse(where, f"an Arrow array of {kind} with arrays inside of it", remedy=_HOSTILE)
    expected = 3 if str(kind) in _OFFSETS else 2
    if len(buffers) != expected or not all(buffer is None or type(buffer) is pa.Buffer for buffer in buffers):
        what = f"an Arrow array of {kind} with {len(buffers)} buffers (expected {expected} of bytes)"
        refuse(where, what, remedy=_HOSTILE)
    return kind, length, missing, offset, buffers


def _is_read(kind: Any, pa: Any) -> bool:
    """Say whether a type is of the closed list, and of PyArrow's own class: another could call itself the same."""
    if type(kind) is pa.TimestampType:
        return True
    own = type(kind) in {pa.DataType, pa.Time32Type, pa.Time64Type, pa.DurationType}
    return own and (str(kind) in _FIXED or str(kind) in _OFFSETS)


def _fit(kind: Any, length: int, offset: int, buffers: list[Any], offsets: str | None) -> Iterator[bool]:
    """Yield whether each buffer has what the length and the offset reach; Python's integers do not wrap."""
    end = offset + length
    yield buffers[0] is None or end <= 8 * buffers[0].size
    yield buffers[1] is not None
    if offsets is None:
        yield end * kind.bit_width <= 8 * buffers[1].size
        return
    import numpy as np  # here, for a scan needs none

    width = np.dtype(offsets).itemsize
    yield (end + 1) * width <= buffers[1].size
    places = np.frombuffer(buffers[1], offsets, length + 1, offset * width)
    yield bool(places[0] >= 0 and (places[1:] >= places[:-1]).all())
    yield bool(places[-1] <= (0 if buffers[2] is None else buffers[2].size))


def _unchanging(buffer: Any, pa: Any) -> Any:
    """Return a buffer that nobody else may write to: what was checked stays so."""
    return pa.py_buffer(buffer.to_pybytes()) if buffer is not None and buffer.is_mutable else buffer


CONSTRUCTORS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "pyarrow.lib._restore_array": _array,
        "pyarrow.lib.py_buffer": _buffer,
        "pyarrow.lib.timestamp": _timestamp,
        "pyarrow.lib.type_for_alias": _type,
    }
)
"""By dotted name: what stands in for a function of PyArrow."""


def stand_in(dotted: str, *, where: str) -> Callable[..., Any] | None:
    """Return what stands in for a function of PyArrow, also where the user allows that; None for all other names."""
    found = CONSTRUCTORS.get(dotted)
    return None if found is None else partial(found, where=where)


_COLUMNS = frozenset(
    {
        *("pandas.arrays.ArrowExtensionArray", "pandas.core.arrays.arrow.array.ArrowExtensionArray"),
        *("pandas.arrays.ArrowStringArray", "pandas.core.arrays.string_arrow.ArrowStringArray"),
    }
)
_TYPES = frozenset({"pandas.ArrowDtype", "pandas.core.dtypes.dtypes.ArrowDtype"})
CLASSES = _COLUMNS | _TYPES
"""Columns and types of pandas that Arrow keeps, where they are and where they were."""

_STATE = frozenset({"_cache", "_data", "_dtype", "_pa_array", "_readonly"})


def checked(dotted: str, state: Any, *, where: str) -> Any:
    """Return the state of a column or type of Arrow's as pandas takes it today; any other as it is.

    Raises:
        MalformedError: It is of something else than what was made here.
    """
    if dotted not in CLASSES:
        return state
    pa = library()
    if type(state) is not dict:
        refuse(where, f"a {dotted} whose state is no dictionary", remedy=_HOSTILE)
    if dotted in _TYPES:
        if not _is_read(state.get("pyarrow_dtype"), pa):
            refuse(where, f"a {dotted} of no type that is read from pickles", remedy=_PLAINER)
        return state
    held = [state[name] for name in ("_data", "_pa_array") if name in state]
    if not state.keys() <= _STATE or state.get("_cache") or len(held) != 1 or not isinstance(held[0], pa.Array):
        refuse(where, f"a {dotted} with other parts than an array of Arrow's and its type", remedy=_HOSTILE)
    (array,) = held
    if dotted.endswith("ArrowStringArray") and pa.types.is_string(array.type):
        array = array.cast(pa.large_string())  # pandas 2.0 had shorter offsets
    return {"_pa_array": array, "_dtype": state.get("_dtype"), "_cache": {}}


def check_class(cls: Any, *, where: str) -> None:
    """Check a class that is made past its constructor, whoever allows it: PyArrow's would follow what is not there.

    Raises:
        MalformedError: It is one of PyArrow's.
    """
    if any(base.__module__.partition(".")[0] == "pyarrow" for base in getattr(cls, "__mro__", ())):
        refuse(where, f"a {cls.__module__}.{cls.__qualname__} without its content", remedy=_HOSTILE)


def fits(column: Any) -> Iterator[bool]:
    """Yield whether a column of pandas has an Arrow array, and whether that is of the type which it says it has."""
    pa = library()
    held, dtype = vars(column).get("_pa_array"), vars(column).get("_dtype")
    yield isinstance(held, pa.ChunkedArray)
    if type(column).__name__ == "ArrowStringArray":
        yield type(dtype).__name__ == "StringDtype" and dtype.storage == "pyarrow"
        yield pa.types.is_large_string(held.type)
    else:
        yield type(dtype).__name__ == "ArrowDtype" and dtype.pyarrow_dtype == held.type


COLUMNS: Mapping[str, Callable[[Any], Iterator[bool]]] = MappingProxyType(dict.fromkeys(sorted(_COLUMNS), fits))
"""What is checked of live columns, by dotted name: for :mod:`vitrify.pickles.bounds`."""
