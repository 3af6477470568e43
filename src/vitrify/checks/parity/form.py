"""Form: names, shapes and element types of outputs, before any value is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.checks.parity.measure import differ

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vitrify.core.protocols import Arrays


def element_type(array: NDArray[Any]) -> str:
    """Return the name of an array's element type; all ways to hold text are one."""
    return "text" if array.dtype.kind in "OU" else array.dtype.name


def problems(got: Arrays, expected: Arrays) -> dict[str, str]:
    """Say for each expected output what is wrong with its form, strictly; outputs beyond those are no problem."""
    found = {}
    for name, array in expected.items():
        if name not in got:
            found[name] = f"is missing (there are: {', '.join(got)})"
        elif got[name].shape != array.shape:
            found[name] = f"has shape {_shape(got[name])}, expected {_shape(array)}"
        elif element_type(got[name]) != element_type(array):
            found[name] = f"is {element_type(got[name])}, expected {element_type(array)}"
    return found


def comparable(got: NDArray[Any] | None, expected: NDArray[Any]) -> bool:
    """Say whether two outputs can be compared value by value."""
    if got is None or got.shape != expected.shape:
        return False
    numbers = "biufc"
    return (got.dtype.kind in numbers) == (expected.dtype.kind in numbers)


def bit_equal(got: NDArray[Any], expected: NDArray[Any]) -> bool:
    """Say whether two outputs are the same to the last bit: minus zero is not zero, NaN is NaN."""
    if got.shape != expected.shape or element_type(got) != element_type(expected):
        return False
    if got.dtype.kind in "OU" or isinstance(got, np.ma.MaskedArray) or isinstance(expected, np.ma.MaskedArray):
        return not differ(got.reshape(1, -1), expected.reshape(1, -1)).any()
    return got.tobytes() == expected.tobytes()


def _shape(array: NDArray[Any]) -> str:
    return f"({', '.join(str(size) for size in array.shape)})"
