"""Probes near the samples: the rows themselves, moved a little, and put together anew."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.checks.parity import rows
from vitrify.checks.parity.probes.material import Probe, deviation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from vitrify.checks.parity.probes.material import Material

JITTER = 0.1
"""Standard deviation of the noise, as a share of each column's own."""


def fill(material: Material, count: int) -> Iterator[Probe]:
    """Yield that many rows: half of them jittered, half with every column drawn from a row of its own."""
    if half := count // 2:
        yield Probe("jittered", jitter(material, half, "jittered"))
        yield Probe("shuffled", _shuffle(material, count - half))


def jitter(material: Material, count: int, name: str) -> dict[str, NDArray[Any]]:
    """Return sample rows with noise on floating-point values and small steps on integers."""
    rng = material.rng(name + " noise")
    arrays = material.base(name, count)
    for field in material.signature.inputs:
        array = arrays[field.name]
        if array.dtype.kind == "f":
            noise = rng.standard_normal(array.shape) * deviation(material.samples[field.name]) * JITTER
            arrays[field.name] = (array + noise).astype(array.dtype)
        elif array.dtype.kind in "iu" and field.categories is None and count:
            low, high = material.samples[field.name].min(), material.samples[field.name].max()
            if low is not np.ma.masked:
                steps = rng.integers(-1, 2, array.shape)
                moved = np.clip(array.astype(object) + steps, int(low), int(high))
                arrays[field.name] = _as(moved, array)
    return arrays


def _as(values: NDArray[Any], like: NDArray[Any]) -> NDArray[Any]:
    if isinstance(like, np.ma.MaskedArray):
        data = np.ma.MaskedArray(np.ma.getdata(like).copy(), np.ma.getmaskarray(like))
        shown = ~data.mask
        data[shown] = np.ma.getdata(values)[shown].astype(like.dtype)
        return data
    return values.astype(like.dtype)


def _shuffle(material: Material, count: int) -> dict[str, NDArray[Any]]:
    rng = material.rng("shuffled")
    total = rows.count(material.samples)
    mixed = {}
    for name, array in material.samples.items():
        width = math.prod(array.shape[1:])
        if width <= 1:
            mixed[name] = array[rng.integers(0, total, count)]
        else:
            picks = rng.integers(0, total, (count, width))
            mixed[name] = np.take_along_axis(array.reshape(total, width), picks, axis=0).reshape(
                count, *array.shape[1:]
            )
    return mixed
