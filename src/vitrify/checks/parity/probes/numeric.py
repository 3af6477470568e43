"""Probes of numbers: signs and zeros, the ends of the range, neighbouring floats, integers that float32 cannot hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.checks.parity.probes.material import Probe, spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from vitrify.checks.parity.probes.material import Column, Material

_POWERS = tuple(10.0**exponent for exponent in (-30, -20, -10, -5, 5, 10, 20, 30))
_NEIGHBOURS = 8
"""Sample values of a column whose neighbouring floats are tried."""

_LARGE = tuple(sign * (2**bits + step) for bits in (24, 31, 32, 53, 63) for step in (-1, 0, 1) for sign in (1, -1))


def probes(material: Material) -> Iterator[Probe | None]:
    """Yield the probes of every numeric column."""
    floats = [column for column in material.columns if column.kind == "f"]
    integers = [column for column in material.columns if column.kind == "i" and column.field.categories is None]
    yield _whole(material, "sign flips", np.negative, "the sign of an input is lost")
    yield material.change(
        "zeros",
        [
            *((column, [0.0, -0.0, 1.0, -1.0]) for column in floats),
            *((column, _holds(column, (0, 1, -1))) for column in integers),
            *((column, [False, True]) for column in material.columns if column.kind == "b"),
        ],
        "zero, minus zero and one are not treated alike",
    )
    yield material.change(
        "extreme magnitudes",
        [(column, _holds(column, [s * p for p in _POWERS for s in (1, -1)])) for column in floats],
        "very large or very small values are lost in a narrower type",
    )
    yield material.change(
        "ends of the range",
        [
            *((column, _ends(column.dtype)) for column in floats),
            *((column, [np.iinfo(column.dtype).max, np.iinfo(column.dtype).min]) for column in integers),
        ],
        "the largest and smallest values of the type overflow",
    )
    yield material.change(
        "infinities", [(column, [np.inf, -np.inf]) for column in floats], "infinite inputs are treated another way"
    )
    yield material.change(
        "large integers",
        [(column, _holds(column, _LARGE)) for column in (*integers, *floats)],
        "integers beyond 2**24 (float32) or 2**53 (float64) are rounded",
    )
    yield material.change(
        "neighbouring values",
        [
            *((column, _neighbours(column, material.present(column))) for column in floats),
            *((column, _steps(column, material.present(column))) for column in integers),
            *((column, _moments(material.present(column))) for column in material.columns if column.kind == "m"),
        ],
        "an input is rounded to a narrower type before it is used",
    )


def _whole(material: Material, name: str, change: Any, hint: str) -> Probe | None:
    """Change every floating-point value of a row at once."""
    arrays = material.base(name, material.quota)
    kinds = {field.name for field in material.signature.inputs if arrays[field.name].dtype.kind == "f"}
    return Probe(name, {key: change(a) if key in kinds else a for key, a in arrays.items()}, hint) if kinds else None


def _holds(column: Column, values: Any) -> list[Any]:
    """Return the values that the column's type has a place for, unsigned and narrow types considered."""
    if column.kind == "f":
        largest = float(np.finfo(column.dtype).max)
        return [float(value) for value in values if abs(value) <= largest]
    info = np.iinfo(column.dtype)
    return [int(value) for value in values if info.min <= value <= info.max]


def _ends(dtype: np.dtype[Any]) -> list[Any]:
    info = np.finfo(dtype)
    return [info.max, info.min, info.tiny, -info.tiny, info.smallest_subnormal, -info.smallest_subnormal]


def _neighbours(column: Column, values: NDArray[Any]) -> list[Any]:
    """Return the floats beside some sample values, and in float64 those beside the edges of float32's rounding."""
    chosen = values[spread(len(values), _NEIGHBOURS)]
    with np.errstate(over="ignore"):
        points = chosen
        if column.dtype == np.float64:
            near = chosen.astype(np.float32)
            beyond = np.nextafter(near, np.float32(np.inf))
            points = np.concatenate([chosen, near.astype(np.float64), (near.astype(np.float64) + beyond) / 2])
        points = points[np.isfinite(points)]
        up, down = np.nextafter(points, points.dtype.type(np.inf)), np.nextafter(points, points.dtype.type(-np.inf))
    return [*points, *up, *down]


def _steps(column: Column, values: NDArray[Any]) -> list[Any]:
    chosen = [int(value) for value in values[spread(len(values), _NEIGHBOURS)]]
    return _holds(column, [value + step for step in (-1, 1) for value in chosen])


def _moments(values: NDArray[Any]) -> list[Any]:
    chosen = values[spread(len(values), _NEIGHBOURS)]
    ticks = chosen.view(np.int64)
    return [*np.concatenate([ticks - 1, ticks + 1, [0]]).view(chosen.dtype)] if len(chosen) else []
