"""Probes of sizes: empty, single and odd batches, and other sizes of every dimension that may change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.checks.parity import rows
from vitrify.checks.parity.probes.material import Probe
from vitrify.core.signature import BATCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from vitrify.checks.parity.probes.material import Material
    from vitrify.core.protocols import Arrays

SIZES = (0, 1, 2, 5, 33)


def probes(material: Material) -> Iterator[Probe | None]:
    """Yield sample rows in batches of each size."""
    total = rows.count(material.samples)
    for size in SIZES:
        arrays = rows.take(material.samples, np.arange(size) % total)
        yield Probe(f"batch of {size}", arrays, f"the answer depends on the size of the batch ({size} rows)")
    yield from dimensions(material)


def dimensions(material: Material) -> Iterator[Probe]:
    """Yield one or two sample rows with each changing dimension cut to one, cut in half, and doubled."""
    fields = material.signature.inputs
    names = {size for field in fields for size in field.shape if isinstance(size, str) and size != BATCH}
    for name in sorted(names):
        for label, factor in (("one", 0.0), ("half", 0.5), ("double", 2.0)):
            arrays = rows.take(material.samples, slice(0, 2)) if material.signature.batched else material.samples
            for field in fields:
                for axis, size in enumerate(field.shape):
                    if size == name:
                        arrays = {**arrays, field.name: _resized(arrays, field.name, axis, factor)}
            yield Probe(f"dimension {name}: {label}", arrays, f"the size of dimension {name!r} is fixed")


def _resized(arrays: Arrays, name: str, axis: int, factor: float) -> NDArray[Any]:
    array = arrays[name]
    length = max(1, int(array.shape[axis] * factor))
    resized: NDArray[Any] = np.take(array, np.arange(length) % array.shape[axis], axis=axis)
    return resized
