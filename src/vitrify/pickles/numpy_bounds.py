"""The states of NumPy's own classes that NumPy takes on trust, checked before and after it takes them.

An array's shape must fit its bytes; a structured type's fields must lie inside it, and what says that it holds no
objects must hold none, or bytes of the file would be followed as addresses; a generator's position is an index.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DEPTH = 32
MAX_OF_NOTHING = 2**31
"""Elements of zero bytes take no place in a file; so many are believed."""
_VOID = np.dtype("V").num
_ORDERS = ("<", ">", "=", "|")
_ALIGNMENTS = frozenset({-1, *(1 << power for power in range(7))})
"""What C aligns by; -1 where the type itself knows."""


def set_state(instance: Any, state: Any, *, where: str) -> None:
    """Give an object of NumPy its state.

    Raises:
        MalformedError: NumPy would read or write outside of it.
    """
    cls: Any = type(instance)
    for base, good in _BEFORE.items():
        if isinstance(instance, base) and not good(state):
            refuse(where, f"a {cls.__module__}.{cls.__qualname__} whose state does not fit itself")
    cls.__setstate__(instance, state)
    if isinstance(instance, np.dtype) and not _sound(instance):
        refuse(where, "a type of NumPy arrays whose parts do not fit into it")


def check_scalar(args: tuple[Any, ...], *, where: str) -> None:
    """Check what a scalar is made of: of an array, where it holds objects, and NumPy reads the first element unasked.

    Raises:
        MalformedError: There is none.
    """
    if any(isinstance(arg, np.ndarray) and not arg.size for arg in args):
        refuse(where, "a NumPy scalar that is made of an array without elements")


def _array(state: Any) -> bool:
    """``(version, shape, type, order, content)``, the version may be missing; masked arrays add mask and fill."""
    if not isinstance(state, tuple) or not 4 <= len(state) <= 7:  # noqa: PLR2004 (the forms that NumPy reads)
        return False
    shape, dtype, _, content = state[1:5] if isinstance(state[0], int) else state[:4]
    if not isinstance(dtype, np.dtype) or not isinstance(shape, tuple):
        return False
    if not all(type(size) is int and size >= 0 for size in shape):
        return False
    if isinstance(content, list):
        return bool(dtype.hasobject) and len(content) == math.prod(shape)
    if not isinstance(content, bytes | str) or dtype.hasobject:
        return False
    elements = math.prod(shape)
    return len(content) == elements * dtype.itemsize and elements <= max(len(content), MAX_OF_NOTHING)


def _type(state: Any) -> bool:
    """``(version, order, subarray, names, fields, itemsize, alignment, flags, metadata)``, the last may be missing.

    NumPy also reads the shorter states of its first years, in which it takes anything for a dictionary of fields.
    """
    if not isinstance(state, tuple) or len(state) not in {8, 9}:
        return False
    version, order, subarray, names, fields, itemsize, alignment, flags = state[:8]
    numbers = all(type(number) is int for number in (version, itemsize, alignment, flags))
    if not numbers or type(order) is not str or order not in _ORDERS or alignment not in _ALIGNMENTS:
        return False
    if subarray is not None and not (_tuple(subarray, 2, 2) and isinstance(subarray[0], np.dtype)):
        return False
    if not _metadata(state[8] if len(state) > 8 else None):  # noqa: PLR2004 (the forms that NumPy writes)
        return False
    if names is None or fields is None:
        return names is None and fields is None
    named = isinstance(names, tuple) and isinstance(fields, dict) and all(type(name) is str for name in names)
    return named and set(names) <= set(fields) and all(map(_field, fields.values()))


def _metadata(value: Any) -> bool:
    """A dictionary, or for dates that and their unit."""
    if _tuple(value, 2, 2):
        value, unit = value
        return isinstance(unit, tuple) and (value is None or isinstance(value, dict))
    return value is None or isinstance(value, dict)


def _field(field: Any) -> bool:
    """``(type, offset, title)``, the last may be missing."""
    return _tuple(field, 2, 3) and isinstance(field[0], np.dtype) and type(field[1]) is int


def _tuple(value: Any, least: int, most: int) -> bool:
    return isinstance(value, tuple) and least <= len(value) <= most


def _generator(state: Any) -> bool:
    held = state[0] if isinstance(state, tuple) and state else state
    if isinstance(held, str):  # RandomState's old form: ("MT19937", key, position, ...)
        return len(state) > 2 and _within(state[2], 0, 624)  # noqa: PLR2004 (name, key, position)
    if not isinstance(held, dict):
        return held is None
    inner = held.get("state")
    position = inner.get("pos", 0) if isinstance(inner, dict) else 0
    return _within(position, 0, 624) and _within(held.get("buffer_pos", 0), 0, 4)


def _within(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int | np.integer) and low <= int(value) <= high


_BEFORE: dict[type, Callable[[Any], bool]] = {
    np.ndarray: _array,
    np.dtype: _type,
    np.random.BitGenerator: _generator,
    np.random.RandomState: _generator,
}


def _sound(dtype: np.dtype[Any], depth: int = 0) -> bool:
    """Whether a type is what NumPy itself would make of its parts."""
    composed = dtype.names is not None or dtype.subdtype is not None
    if depth > MAX_DEPTH or (composed and dtype.num != _VOID):
        return False
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return _sound(base, depth + 1) and dtype.itemsize == base.itemsize * math.prod(shape)
    if dtype.names is None:
        plain = np.dtype(dtype.str)
        return dtype.fields is None and plain.itemsize == dtype.itemsize and plain.flags == dtype.flags
    fields = [dtype.fields[name] for name in dtype.names] if dtype.fields is not None else []
    if not all(_sound(field[0], depth + 1) for field in fields):
        return False
    if not all(0 <= field[1] <= dtype.itemsize - field[0].itemsize for field in fields):
        return False
    parts: Any = {"names": dtype.names, "formats": [field[0] for field in fields]}
    parts |= {"offsets": [field[1] for field in fields], "itemsize": dtype.itemsize}
    made = np.dtype(parts, align=dtype.isalignedstruct)
    # Those that overlap may hold an object where another has bytes.
    return bool(made.flags == dtype.flags and made.hasobject == dtype.hasobject)
