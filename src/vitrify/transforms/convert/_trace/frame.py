"""The data frame that a user's function is called with while it is traced: columns by name, as pandas has them.

Only what pandas and NumPy compute alike is handed over; where pandas has rules of its own (missing integers, division
of integers by zero, sums that leave NaN out) it is refused, with the way through ``to_numpy()``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.graph import BOOL, TEXT
from vitrify.transforms.convert._trace import shape as shaping
from vitrify.transforms.convert._trace.array import Traced, is_traced, unwrap, wrap
from vitrify.transforms.convert._trace.choose import where
from vitrify.transforms.convert._trace.errors import no_attribute, untraceable
from vitrify.transforms.convert._trace.functions import clip, isin, round_
from vitrify.transforms.convert._trace.ufuncs import apply
from vitrify.transforms.convert._trace.value import ROWS, Rows, Value, astype

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_THROUGH_NUMPY = "compute with arrays: frame.to_numpy(), or column.to_numpy()"
_OPERATORS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "pow": np.power, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "floordiv": np.floor_divide,
    "mod": np.remainder,
}  # fmt: skip
_COMPARING = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
_ON_ARRAYS = frozenset(
    {
        *(np.where, np.select, np.concatenate, np.hstack, np.column_stack, np.stack, np.digitize, np.searchsorted),
        *(np.interp, np.isin, np.take, np.nan_to_num),
    }
)
"""What NumPy computes of a frame's matrix; other functions of it are methods of pandas."""


def _pandas(name: str, otherwise: type) -> Any:
    return getattr(sys.modules.get("pandas"), name, otherwise)


class _Table:
    """What a column and a frame share."""

    is_traced_table = True
    __hash__ = None  # type: ignore[assignment]

    def map_columns(self, function: Callable[[Value], Value]) -> Any:
        """Return the same with each column changed."""
        raise NotImplementedError

    def _refuse(self, *_: Any, **__: Any) -> Any:
        untraceable("takes the data itself for a truth value, a number or a list", "use np.where, and whole columns")

    __bool__ = __len__ = __float__ = __int__ = __index__ = _refuse
    __array__ = _refuse

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Compute a ufunc column by column."""
        if method != "__call__" or kwargs:
            untraceable(f"calls numpy.{ufunc.__name__} {method} on a data frame", _THROUGH_NUMPY)
        tables = [one for one in inputs if isinstance(one, Frame)]
        lead = tables[0] if tables else next(one for one in inputs if getattr(one, "is_traced_table", False))
        if len(inputs) == 1:
            return lead.map_columns(lambda value: apply(ufunc, value))
        return lead.combine(inputs, lambda *values: apply(ufunc, *values))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Compute a function on the frame's matrix, as NumPy does."""
        del types
        if func not in _ON_ARRAYS:
            untraceable(f"calls numpy.{func.__name__} on a data frame, which pandas answers", _THROUGH_NUMPY)
        lowered = [_lowered(one) for one in args]
        return func(*lowered, **{key: _lowered(one) for key, one in kwargs.items()})

    def combine(self, operands: Any, function: Callable[..., Value]) -> Any:
        """Return the same with each column combined with the other operands."""
        raise NotImplementedError

    def astype(self, dtype: Any, **_: Any) -> Any:
        """Return other element types."""
        return self.map_columns(lambda value: _cast(value, dtype))

    def __neg__(self) -> Any:
        """Return the negative."""
        return self.map_columns(lambda value: apply(np.negative, value))

    def __invert__(self) -> Any:
        """Return the opposite of booleans."""
        return self.map_columns(lambda value: apply(np.invert, value))

    def copy(self, deep: bool = True) -> Any:  # noqa: FBT001, FBT002 (pandas')
        """Return a table of its own."""
        del deep
        return self.map_columns(lambda value: value)

    def abs(self) -> Any:
        """Return the magnitudes."""
        return self.map_columns(lambda value: apply(np.absolute, value))

    def round(self, decimals: int = 0) -> Any:
        """Return rounded values."""
        return self.map_columns(lambda value: round_(value, decimals))

    def isna(self) -> Any:
        """Return where a number is missing."""
        return self.map_columns(_isna)

    isnull = isna

    def notna(self) -> Any:
        """Return where a number is there."""
        return self.map_columns(lambda value: apply(np.logical_not, _isna(value)))

    notnull = notna

    def fillna(self, value: Any) -> Any:
        """Return the columns with a constant for what is missing."""
        if isinstance(value, dict) or getattr(value, "is_traced_table", False):
            untraceable("fills missing values by column", "fill one column at a time: frame['a'].fillna(0)")
        return self.map_columns(lambda column: where(_isna(column), np.asarray(value, column.dtype), column))

    def clip(self, lower: Any = None, upper: Any = None) -> Any:
        """Return the values within constant bounds; NaN stays."""
        return self.map_columns(lambda value: clip(value, lower, upper))

    def isin(self, values: Any) -> Any:
        """Return where a value is one of some constants."""
        return self.map_columns(lambda value: isin(value, list(values)))

    def __getattr__(self, name: str) -> Any:
        """Refuse what pandas has and this has not."""
        if name.startswith("_"):
            raise AttributeError(name)
        no_attribute(f"uses .{name} of a data frame or of its column", _THROUGH_NUMPY)


class Series(_Table):
    """A stand-in for one column."""

    def __init__(self, array: Traced, name: Any) -> None:
        """Stand for an array under a name."""
        self._array = array
        self.name = name

    @property  # type: ignore[misc]  # a property where others have an attribute: that is the disguise
    def __class__(self) -> Any:
        """Pass for a column where the user's code asks."""
        return _pandas("Series", Series)

    @property
    def values(self) -> Traced:
        """The array."""
        return self._array

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""
        return self._array.dtype

    @property
    def shape(self) -> tuple[Rows]:
        """The number of rows, which is not known while tracing."""
        return (ROWS,)

    def to_numpy(self, dtype: Any = None, **_: Any) -> Traced:
        """Return the array."""
        return self._array if dtype is None else self._array.astype(dtype)

    def to_frame(self, name: Any = None) -> Frame:
        """Return a frame of this one column."""
        return Frame({self.name if name is None else name: self._array})

    def map_columns(self, function: Callable[[Value], Value]) -> Series:
        """Return the column changed."""
        return Series(wrap(function(self._array.value)), self.name)

    def combine(self, operands: Any, function: Callable[..., Value]) -> Series:
        """Return the column combined."""
        names = {one.name for one in operands if _is(one, Series)}
        answer = function(*(unwrap(_lowered(one)) for one in operands))
        return Series(wrap(answer), self.name if len(names) == 1 else None)

    def map(self, arg: Mapping[Any, Any]) -> Series:
        """Return what a dict has for each value, and NaN for what it has not."""
        if not isinstance(arg, dict) or not all(type(value) in {int, float} for value in arg.values()):
            untraceable("maps a column by a function, or to something else than numbers", "map by a dict of numbers")
        answer: Any = np.float64(np.nan)
        value = self._array.value
        for key, number in arg.items():
            answer = where(isin(value, [key]), np.float64(number), answer)
        if any(type(number) is int for number in arg.values()):
            untraceable("maps a column to integers, which pandas makes float where one is unknown", "map to floats")
        return Series(wrap(answer), self.name)


class Frame(_Table):
    """A stand-in for a data frame."""

    def __init__(self, arrays: dict[Any, Traced]) -> None:
        """Stand for columns by name, in order."""
        object.__setattr__(self, "arrays", dict(arrays))

    @property  # type: ignore[misc]  # a property where others have an attribute: that is the disguise
    def __class__(self) -> Any:
        """Pass for a data frame where the user's code asks."""
        return _pandas("DataFrame", Frame)

    @property
    def columns(self) -> Any:
        """The names, as pandas' index where pandas is imported."""
        return _pandas("Index", list)(list(self.arrays))

    @property
    def shape(self) -> tuple[Rows, int]:
        """The number of rows, which is not known while tracing, and of columns."""
        return (ROWS, len(self.arrays))

    @property
    def values(self) -> Traced:
        """The matrix."""
        return self.to_numpy()

    def to_numpy(self, dtype: Any = None, **_: Any) -> Traced:
        """Return the matrix, in the type that all columns have in common."""
        values = [array.value for array in self.arrays.values()]
        kinds = {value.dtype for value in values}
        if len(kinds) > 1 and (BOOL in kinds or TEXT in kinds) and dtype is None:
            untraceable("makes one array of objects of columns of several kinds", "cast them first: .astype(float)")
        columns = [shaping.expand(value if dtype is None else astype(value, dtype), 1) for value in values]
        return Traced(shaping.concatenate(columns, 1))

    def map_columns(self, function: Callable[[Value], Value]) -> Frame:
        """Return the frame with each column changed."""
        return Frame({name: wrap(function(array.value)) for name, array in self.arrays.items()})

    def combine(self, operands: Any, function: Callable[..., Value]) -> Frame:
        """Return the frame combined column by column, with constants or frames of the same columns."""
        for one in operands:
            if _is(one, Frame) and list(one.arrays) != list(self.arrays):
                untraceable("combines frames of different columns", _THROUGH_NUMPY)
            if _is(one, Series) or is_traced(one) or np.ndim(one if not _is(one, Frame) else 0):
                untraceable("combines a frame with a column or an array", _THROUGH_NUMPY)
        return Frame(
            {
                name: wrap(function(*(one.arrays[name].value if _is(one, Frame) else one for one in operands)))
                for name in self.arrays
            }
        )

    def __getitem__(self, key: Any) -> Any:
        """Return one column, or a frame of some."""
        if isinstance(key, list | tuple) or (hasattr(key, "tolist") and not is_traced(key)):
            return Frame({name: self._column(name).copy() for name in (key if isinstance(key, list) else list(key))})
        if is_traced(key) or getattr(key, "is_traced_table", False) or isinstance(key, slice):
            untraceable("picks rows of a data frame", "keep all rows: np.where(mask, a, b)")
        return Series(self._column(key), key)

    def _column(self, name: Any) -> Traced:
        arrays: dict[Any, Traced] = self.arrays
        return arrays[name]

    def __setitem__(self, key: Any, new: Any) -> None:
        """Put a column in, or another in its place."""
        if isinstance(key, list):
            untraceable("assigns several columns at once", "assign one after the other: frame['a'] = ...")
        array = _lowered(new)
        if not is_traced(array):
            first = next(iter(self.arrays.values())).value
            untraceable("assigns a constant array as a column", "assign a number") if np.ndim(array) else None
            array = wrap(where(apply(np.equal, first, first), array, array))
        self.arrays[key] = array

    def __getattr__(self, name: str) -> Any:
        """Return a column by its name as an attribute."""
        arrays = self.__dict__.get("arrays", {})
        return Series(arrays[name], name) if name in arrays else super().__getattr__(name)

    def __contains__(self, name: Any) -> bool:
        """Say whether there is such a column."""
        return name in self.arrays

    def __iter__(self) -> Iterator[Any]:
        """Walk through the names."""
        return iter(self.arrays)

    def items(self) -> Iterator[tuple[Any, Series]]:
        """Walk through the columns."""
        return iter([(name, Series(array, name)) for name, array in self.arrays.items()])

    def assign(self, **columns: Any) -> Frame:
        """Return a frame with more columns; a function is called with the frame so far."""
        result = self.copy()
        for name, new in columns.items():
            result[name] = new(result) if callable(new) and not getattr(new, "is_traced_table", False) else new
        return result  # type: ignore[no-any-return]

    def drop(self, labels: Any = None, *, axis: Any = 0, columns: Any = None) -> Frame:
        """Return the frame without some columns."""
        names = columns if columns is not None else labels
        if columns is None and axis not in {1, "columns"}:
            untraceable("drops rows of a data frame", "keep all rows")
        gone = [names] if isinstance(names, str) else list(names)
        for name in gone:
            self._column(name)
        return Frame({name: array for name, array in self.arrays.items() if name not in gone})

    def rename(self, *, columns: Any) -> Frame:
        """Return the frame under other names."""
        new = columns if callable(columns) else lambda name: columns.get(name, name)
        return Frame({new(name): array for name, array in self.arrays.items()})


def _is(item: Any, kind: type) -> bool:
    return issubclass(type(item), kind)


def _lowered(item: Any) -> Any:
    """Return the array behind a table."""
    if isinstance(item, list | tuple):
        return type(item)(_lowered(part) for part in item)
    return item.to_numpy() if getattr(item, "is_traced_table", False) else item


def _isna(value: Value) -> Value:
    if value.dtype == TEXT:
        untraceable("looks for missing text", "impute text before this step")
    return apply(np.isnan, value)


def _cast(value: Value, dtype: Any) -> Value:
    if value.dtype.kind == "f" and np.dtype(dtype).kind in "iu":
        untraceable("casts floats to integers in pandas, which refuses NaN", "use .to_numpy().astype(...)")
    return astype(value, dtype)


def _operator(name: str, ufunc: np.ufunc, *, swapped: bool = False) -> Any:
    def operator(self: Any, other: Any) -> Any:
        operands = (other, self) if swapped else (self, other)
        if name in {"floordiv", "mod", "pow"} and any(_kind(one) in "iub" for one in operands):
            untraceable(f"uses {ufunc.__name__} of integers in pandas, which has rules of its own", _THROUGH_NUMPY)
        lead = next((one for one in operands if _is(one, Frame)), self)
        return lead.combine(operands, lambda *values: apply(ufunc, *values))

    return operator


def _kind(item: Any) -> str:
    if _is(item, Frame):
        return next((array.dtype.kind for array in item.arrays.values() if array.dtype.kind in "iub"), "f")
    return str(item.dtype.kind) if hasattr(item, "dtype") else "f"


for _name, _ufunc in _OPERATORS.items():
    setattr(_Table, f"__{_name}__", _operator(_name, _ufunc))
    if _name not in _COMPARING:
        setattr(_Table, f"__r{_name}__", _operator(_name, _ufunc, swapped=True))
