"""What replays have in common that keep the sizes of a shape apart from data: some sizes stay symbolic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]


class Sizes:
    """Whole numbers, as an array of Python's and the exporter's integers.

    Attributes:
        values: The numbers.
        dtype: Their type in the graph: exporters cast sizes to int32, which holds every size there is.
    """

    def __init__(self, values: Any, dtype: Any = np.int64) -> None:
        """Take an array of objects, or what becomes one."""
        self.values = np.asarray(values, dtype=object)
        self.dtype = np.dtype(dtype)

    @staticmethod
    def of(values: Any, dtype: Any = np.int64) -> Sizes | Array:
        """Return sizes, or a constant where all of them are known."""
        array = np.asarray(values, dtype=object)
        if all(isinstance(value, (int, np.integer)) for value in array.flat):
            return np.asarray(array.tolist(), dtype=dtype).reshape(array.shape)
        return Sizes(array, dtype)

    def like(self, values: Any) -> Sizes | Array:
        """Return other sizes of the same type."""
        return Sizes.of(values, self.dtype)


def is_constant(value: Any) -> bool:
    """Say whether a value is known before the model runs."""
    return isinstance(value, (np.ndarray, np.generic))


def axis_of(axis: int, rank: int) -> int:
    """Return an axis counted from the front."""
    return axis + rank if axis < 0 else axis
