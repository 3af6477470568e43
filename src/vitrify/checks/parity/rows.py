"""Rows: taking, joining and showing rows of named arrays, masked and object arrays included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vitrify.core.protocols import Arrays

_SHOWN = 40
"""Fields, elements and characters shown of one row; the rest is counted."""


def count(arrays: Arrays) -> int:
    """Return the number of rows: the first dimension that all arrays share; 0 for no arrays."""
    return min((array.shape[0] if array.ndim else 1 for array in arrays.values()), default=0)


def take(arrays: Arrays, rows: NDArray[Any] | slice | Sequence[int]) -> Arrays:
    """Return some rows of each array, by index, mask or slice."""
    return {name: array[rows] for name, array in arrays.items()}


def join(parts: Sequence[Arrays]) -> Arrays:
    """Return the rows of all parts, one after the other; names are those of the first."""
    if len(parts) == 1:
        return parts[0]
    return {name: _concatenate([part[name] for part in parts]) for name in parts[0]}


def _concatenate(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    masked = any(isinstance(array, np.ma.MaskedArray) for array in arrays)
    if not masked:
        return np.concatenate(arrays)
    data = np.concatenate([np.ma.getdata(array) for array in arrays])
    return np.ma.MaskedArray(data, np.concatenate([np.ma.getmaskarray(array) for array in arrays]))


def row(arrays: Arrays, index: int) -> dict[str, Any]:
    """Return one row as JSON, shortened where it is long."""
    shown = {name: plain(array[index]) for name, array in list(arrays.items())[:_SHOWN]}
    return shown if len(arrays) <= _SHOWN else {**shown, "...": f"{len(arrays) - _SHOWN} more"}


def plain(value: Any) -> Any:  # noqa: PLR0911 (one case a type)
    """Return a value as JSON: no NumPy types; what JSON has no number for (NaN, infinity) as text."""
    match value:
        case np.ma.core.MaskedConstant():
            return None
        case np.ndarray() | np.generic():
            if value.size <= _SHOWN:
                return plain(value.tolist())
            return [*plain(value.reshape(-1)[:_SHOWN].tolist()), f"... {value.size - _SHOWN} more"]
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case float() if not np.isfinite(value):
            return repr(value)
        case str():
            return value if len(value) <= _SHOWN else f"{value[:_SHOWN]}... ({len(value)} characters)"
        case None | bool() | int() | float():
            return value
        case _:
            return str(value)
