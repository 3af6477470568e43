"""The array that a user's function is called with while it is traced: NumPy's protocols over a value.

What would need the numbers themselves (a truth value, a float, iteration over rows) is refused where it happens.

Source: NEP 13 (``__array_ufunc__``) and NEP 18 (``__array_function__``)
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._trace import index as indexing
from vitrify.transforms.convert._trace import reduce as reducing
from vitrify.transforms.convert._trace import shape as shaping
from vitrify.transforms.convert._trace.errors import no_attribute, untraceable
from vitrify.transforms.convert._trace.functions import FUNCTIONS, clip, dot, repeat, round_, take
from vitrify.transforms.convert._trace.ufuncs import apply
from vitrify.transforms.convert._trace.value import Rows, Shape, Value, astype

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_BRANCH = "write it without a branch: np.where(condition, a, b)"
_NO_NUMBER = "compute with whole columns; look up with np.take(table, places); what is fixed belongs into fit"
_REDUCED = {"add": reducing.sum_, "multiply": reducing.prod, "maximum": reducing.maximum, "minimum": reducing.minimum}
_OPERATORS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power, "matmul": np.matmul, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip
_COMPARISONS = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}


class Traced:
    """A stand-in for an array.

    A part that was taken by slicing is a view, as in NumPy: writing to it writes to the whole, and it sees what is
    written to the whole.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Value, parent: Traced | None = None, key: Any = None) -> None:
        """Stand for a value: of its own, or of a part of another array."""
        self._own = value
        self._parent = parent
        self._key = key
        self._version = 0
        self._seen = parent.version if parent is not None else 0

    @property  # type: ignore[misc]  # a property where others have an attribute: that is the disguise
    def __class__(self) -> Any:
        """Pass for an array where the user's code asks."""
        return np.ndarray

    # What NumPy's own machinery asks for

    @property
    def version(self) -> int:
        """How often it was written to, or the whole that it is a part of."""
        return self._version + (self._parent.version if self._parent is not None else 0)

    @property
    def value(self) -> Value:
        """The value as it is now."""
        if self._parent is not None and self._parent.version != self._seen:
            if self._key is None:
                untraceable("uses a reshaped view of an array that was written to since", "copy it first: x.copy()")
            self._own, self._seen = indexing.get(self._parent.value, self._key), self._parent.version
        return self._own

    def become(self, value: Value) -> Traced:
        """Take another value, in place."""
        if value.shape != self.value.shape:
            msg = f"non-broadcastable output operand with shape {self.shape} doesn't match {value.shape}"
            raise ValueError(msg)
        value = astype(value, self.dtype)
        if self._parent is None:
            self._own, self._version = value, self._version + 1
        elif self._key is None:
            untraceable("writes to a reshaped view of an array", "copy it first: x.copy()")
        else:
            self._parent[self._key] = wrap(value)
            self._own, self._seen = value, self._parent.version
        return self

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Compute a ufunc in the graph."""
        if any(getattr(one, "is_traced_table", False) for one in inputs):
            return NotImplemented
        operands = [unwrap(one) for one in inputs]
        out = kwargs.pop("out", None)
        if method == "reduce" and ufunc.__name__ in _REDUCED:
            kwargs = {key: value for key, value in kwargs.items() if value is not None}
            answer = _REDUCED[ufunc.__name__](operands[0], kwargs.pop("axis", 0), **kwargs)
        elif method == "accumulate" and ufunc is np.add:
            answer = reducing.cumsum(operands[0], kwargs.get("axis", 0))
        elif method == "__call__" and kwargs.keys() <= {"dtype"}:
            answer = apply(ufunc, *operands, **kwargs)
        else:
            how = method if method != "__call__" else f"with {', '.join(kwargs)}"
            untraceable(f"calls numpy.{ufunc.__name__} {how}", "use the plain function, and np.where for conditions")
        if out is None:
            return wrap(answer)
        if isinstance(out[0], Traced):
            return out[0].become(answer)
        return untraceable("writes what was computed from the data into a constant array", "leave out= away")

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Compute a function in the graph."""
        del types
        known = FUNCTIONS.get(func)
        name = f"{func.__module__}.{func.__name__}"
        if known is None:
            untraceable(f"calls {name}, which has no ONNX operators here", "write it with arithmetic and np.where")
        kwargs = {
            key: unwrap(value) for key, value in kwargs.items() if value is not None and key not in {"out", "order"}
        }
        try:
            call = inspect.signature(known).bind(*(unwrap(value) for value in args), **kwargs)
        except TypeError as error:
            untraceable(f"calls {name} in a way that is not known here ({error})", "leave its special arguments out")
        return wrap(known(*call.args, **call.kwargs))

    def __array__(self, *_: Any, **__: Any) -> Any:
        """Refuse: there are no numbers yet."""
        untraceable("turns the data into an array of numbers (np.array, or a function in C)", "use x as it is")

    # Shape and type

    @property
    def shape(self) -> Shape:
        """The sizes; the first is usually the batch's."""
        return self.value.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""
        return self.value.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.value.ndim

    @property
    def size(self) -> Any:
        """The number of elements, which a batch does not have while it is traced."""
        return FUNCTIONS[np.size](self.value)

    @property
    def T(self) -> Traced:  # noqa: N802 (numpy's name)
        """The transposed array."""
        return Traced(shaping.transpose(self.value), self)

    def astype(self, dtype: Any, *, copy: bool = True, **_: Any) -> Traced:
        """Return another element type; without a copy, where it is the same, the array itself."""
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        return wrap(astype(self.value, dtype))  # type: ignore[no-any-return]

    def reshape(self, *shape: Any, order: str = "C") -> Traced:
        """Return another shape."""
        if order != "C":
            untraceable(f"reshapes in the order {order!r}", "leave the order out")
        return Traced(shaping.reshape(self.value, shape[0] if len(shape) == 1 else shape), self)

    def transpose(self, *axes: Any) -> Traced:
        """Return the axes in another order."""
        return Traced(shaping.transpose(self.value, axes[0] if len(axes) == 1 and np.ndim(axes[0]) else axes), self)

    def ravel(self, order: str = "C") -> Traced:
        """Return a vector."""
        return self.reshape(-1, order=order)

    def flatten(self, order: str = "C") -> Traced:
        """Return a vector of its own."""
        return wrap(self.reshape(-1, order=order).value)  # type: ignore[no-any-return]

    def squeeze(self, axis: Any = None) -> Traced:
        """Return it without axes of size one."""
        return Traced(shaping.squeeze(self.value, axis), self)

    def copy(self, *_: Any, **__: Any) -> Traced:
        """Return an array of its own."""
        return wrap(self.value)  # type: ignore[no-any-return]

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> Traced:
        """Return an array of its own."""
        return self.copy()

    def __getitem__(self, key: Any) -> Traced:
        """Return parts of each row."""
        key = unwrap(key)
        parts = key if isinstance(key, tuple) else (key,)
        view = all(part is None or part is Ellipsis or isinstance(part, slice | int | np.integer) for part in parts)
        return Traced(indexing.get(self.value, key), self if view and None not in parts else None, key)

    def __setitem__(self, key: Any, new: Any) -> None:
        """Write to parts of each row."""
        self.become(indexing.set_(self.value, unwrap(key), unwrap(new)))

    # What needs the numbers

    def __bool__(self) -> bool:  # noqa: PLE0304 (it never returns)
        """Refuse."""
        untraceable("decides by the data (an if, a while, an and, or a not)", _NO_BRANCH)

    def __contains__(self, item: Any) -> bool:
        """Refuse."""
        untraceable("looks for a value in the data with in", "use np.isin, or a comparison")

    def __len__(self) -> int:
        """Return the size of an axis that is not the batch's."""
        size = self.shape[0] if self.shape else 0
        if isinstance(size, Rows):
            untraceable("asks for the number of rows: len()", "use x.shape[1] for columns; np.zeros_like(x) for rows")
        return size

    def __iter__(self) -> Iterator[Traced]:
        """Walk along an axis that is not the batch's."""
        size = self.shape[0] if self.shape else 0
        if isinstance(size, Rows):
            untraceable("goes through the rows one by one", "compute all rows at once, with whole columns: x[:, j]")
        return iter([self[index] for index in range(size)])

    def _number(self, *_: Any) -> Any:
        untraceable("takes one number out of the data (float, int, item, tolist, range)", _NO_NUMBER)

    __float__ = __int__ = __index__ = __complex__ = __round__ = __format__ = item = tolist = tobytes = _number

    # Arithmetic that has names

    def dot(self, other: Any) -> Any:
        """Return the product."""
        return wrap(dot(self.value, unwrap(other)))

    def clip(self, min: Any = None, max: Any = None) -> Any:  # noqa: A002 (numpy's names)
        """Return the values within bounds."""
        return wrap(clip(self.value, unwrap(min), unwrap(max)))

    def round(self, decimals: int = 0) -> Any:
        """Return rounded values."""
        return wrap(round_(self.value, decimals))

    def take(self, indices: Any, axis: Any = None) -> Any:
        """Return elements by place."""
        return wrap(take(self.value, unwrap(indices), axis))

    def repeat(self, repeats: Any, axis: Any = None) -> Any:
        """Return elements several times."""
        return wrap(repeat(self.value, repeats, axis))

    def fill(self, new: Any) -> None:
        """Write one value everywhere."""
        self[...] = new

    def __getattr__(self, name: str) -> Any:
        """Refuse what an array has and this has not."""
        if hasattr(np.ndarray, name) and not name.startswith("__"):
            no_attribute(f"uses .{name} of the array", "write it with arithmetic, np.where and whole columns")
        raise AttributeError(name)


def _method(function: Any) -> Any:
    def method(self: Traced, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
        kwargs = {key: value for key, value in kwargs.items() if value is not None}
        return wrap(function(self.value, axis, *args, **kwargs))

    return method


def _binary(ufunc: np.ufunc, *, swapped: bool = False, in_place: bool = False) -> Any:
    def operator(self: Traced, other: Any) -> Any:
        if getattr(other, "is_traced_table", False) and not in_place:
            return NotImplemented
        if not isinstance(other, Traced | np.ndarray | np.generic | int | float | str | list | tuple):
            return NotImplemented
        left, right = (unwrap(other), self.value) if swapped else (self.value, unwrap(other))
        answer = apply(ufunc, left, right)
        if not in_place:
            return wrap(answer)
        if not np.can_cast(answer.dtype, self.dtype, "same_kind"):
            msg = f"Cannot cast ufunc {ufunc.__name__!r} output from {answer.dtype} to {self.dtype}"
            raise TypeError(msg)
        return self.become(answer)

    return operator


def _install() -> None:
    for name, ufunc in _OPERATORS.items():
        setattr(Traced, f"__{name}__", _binary(ufunc))
        setattr(Traced, f"__r{name}__", _binary(ufunc, swapped=True))
        setattr(Traced, f"__i{name}__", _binary(ufunc, in_place=True))
    for name, ufunc in _COMPARISONS.items():
        setattr(Traced, f"__{name}__", _binary(ufunc))
    for name, ufunc in _UNARY.items():
        setattr(Traced, f"__{name}__", lambda self, ufunc=ufunc: wrap(apply(ufunc, self.value)))
    for name, function in {
        "sum": reducing.sum_, "prod": reducing.prod, "mean": reducing.mean, "std": reducing.std, "var": reducing.var,
        "max": reducing.maximum, "min": reducing.minimum, "any": reducing.any_, "all": reducing.all_,
        "argmax": reducing.argmax, "argmin": reducing.argmin, "cumsum": reducing.cumsum,
    }.items():  # fmt: skip
        setattr(Traced, name, _method(function))


_install()


def unwrap(item: Any) -> Any:
    """Return the values behind stand-ins, also inside tuples and lists."""
    if type(item) in {tuple, list}:
        return type(item)(unwrap(part) for part in item)
    return item.value if is_traced(item) else item


def wrap(item: Any) -> Any:
    """Return a stand-in for a value, or for each of several."""
    if isinstance(item, list):
        return [wrap(part) for part in item]
    return Traced(item) if isinstance(item, Value) else item


def is_traced(item: object) -> bool:
    """Say whether something is a stand-in, whatever it passes for."""
    return issubclass(type(item), Traced)
