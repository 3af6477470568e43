"""Padding: inputs of different lengths filled up to the longest of a batch, and outputs cut back again.

Only dimensions that a signature gives a name may be filled, and only of plain numbers. An output's dimension is cut
back where it has the name of one that was filled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import UsageError
from vitrify.serve.ports import DATATYPES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Field

    Array = np.ndarray[Any, Any]

Sizes = dict[str, int]
"""Sizes by the name of a dimension."""
_ANY = -1


class Padding:
    """Which dimensions are filled up, and with what.

    Args:
        inputs: The model's.
        outputs: Likewise.
        pad: The value by the name of the input.

    Raises:
        UsageError: A name is of no input that can be filled up, or a value is none of its element type.
    """

    def __init__(self, inputs: Sequence[Field], outputs: Sequence[Field], pad: Mapping[str, float]) -> None:
        fields = {field.name: field for field in inputs}
        self._values = {name: _value(name, fields.get(name), value) for name, value in pad.items()}
        self._axes = {name: _named(fields[name]) for name in pad}
        filled = {dimension for axes in self._axes.values() for dimension in axes.values()}
        cut = {field.name: {axis: name for axis, name in _named(field).items() if name in filled} for field in outputs}
        self._cut = {name: axes for name, axes in cut.items() if axes}

    def trailing(self, name: str, array: Array) -> tuple[int, ...]:
        """Return the dimensions of an input after the batch in which requests of one batch must agree."""
        if not (axes := self._axes.get(name)):
            return tuple(array.shape[1:])
        return tuple(_ANY if axis in axes else array.shape[axis] for axis in range(1, array.ndim))

    def sizes(self, arrays: Arrays) -> Sizes:
        """Return how long the dimensions that may be filled up are in one request."""
        if not self._axes:
            return {}
        present = ((name, axes) for name, axes in self._axes.items() if name in arrays)
        return {dimension: arrays[name].shape[axis] for name, axes in present for axis, dimension in axes.items()}

    def fill(self, name: str, arrays: Sequence[Array]) -> Array | None:
        """Return the arrays one after the other, each filled up to the longest; None where there is nothing to fill."""
        if name not in self._axes or len({array.shape[1:] for array in arrays}) == 1:
            return None
        longest = np.max([array.shape[1:] for array in arrays], axis=0)
        rows = sum(len(array) for array in arrays)
        out = np.full((rows, *longest.tolist()), self._values[name], arrays[0].dtype)
        start = 0
        for array in arrays:
            out[(slice(start, start + len(array)), *map(slice, array.shape[1:]))] = array
            start += len(array)
        return out

    def cut(self, name: str, array: Array, sizes: Sizes) -> Array:
        """Return an output without what was filled up, for a request of these sizes."""
        if not (axes := self._cut.get(name)):
            return array
        return array[tuple(slice(sizes.get(axes.get(axis, ""))) for axis in range(array.ndim))]

    def misfit(self, name: str, array: Array, longest: Sizes) -> str:
        """Say in which dimension an output of a filled batch is not as long as its name promises; empty for none."""
        for axis, dimension in self._cut.get(name, {}).items():
            given = array.shape[axis] if axis < array.ndim else None
            if dimension in longest and given != longest[dimension]:
                return f"{given} long in dimension {dimension!r}, expected {longest[dimension]}"
        return ""


def _named(field: Field) -> dict[int, str]:
    """Return the dimensions after the batch that may change, by their position."""
    return {axis: size for axis, size in enumerate(field.shape) if axis and isinstance(size, str)}


def _value(name: str, field: Field | None, value: float) -> float:
    if field is None:
        msg = f"pad names {name!r}, which is no input"
        raise UsageError(msg, remedy="name an input of the model")
    whole = field.dtype.startswith(("int", "uint", "bool"))
    if field.dtype not in DATATYPES or (whole and field.nullable) or not field.batched or not _named(field):
        msg = f"pad names input {field}; expected plain numbers with a batch dimension and another that may change"
        raise UsageError(msg, remedy="leave it out of pad")
    if whole and not _fits(value, field.dtype):
        msg = f"pad gives {value} for input {field}, which is no {field.dtype}"
        raise UsageError(msg, remedy="give a value of the input's element type")
    return value


def _fits(value: float, dtype: str) -> bool:
    if dtype == "bool":
        return value in {0, 1}
    bounds = np.iinfo(np.dtype(dtype))
    return value == value // 1 and bounds.min <= value <= bounds.max
