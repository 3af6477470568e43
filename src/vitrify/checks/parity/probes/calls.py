"""Probes of a model that is called with whole tensors: every probe is one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.checks.parity.probes.batches import dimensions
from vitrify.checks.parity.probes.material import Probe, deviation
from vitrify.checks.parity.probes.samples import JITTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from vitrify.checks.parity.probes.material import Material

_NOISY = 8
_CHANGES: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "sign flips": np.negative,
    "zeros": np.zeros_like,
    "minus zeros": lambda array: np.full_like(array, -0.0),
    "large values": lambda array: array * array.dtype.type(1e4),
    "small values": lambda array: array * array.dtype.type(1e-4),
    "missing: NaN": lambda array: np.full_like(array, np.nan),
}


def probes(material: Material) -> Iterator[Probe]:
    """Yield the samples with noise, changed as a whole, and in other sizes."""
    floats = [name for name, array in material.samples.items() if array.dtype.kind == "f"]
    for turn in range(_NOISY if floats else 0):
        rng = material.rng(f"call {turn}")
        noisy = {
            name: (array + rng.standard_normal(array.shape) * deviation(array.reshape(-1)) * JITTER).astype(array.dtype)
            for name, array in material.samples.items()
            if name in floats
        }
        yield Probe(f"jittered ({turn + 1})", {**material.samples, **noisy})
    for label, change in _CHANGES.items():
        if floats:
            changed = {name: change(material.samples[name]) for name in floats}
            yield Probe(label, {**material.samples, **changed}, "the model was fixed to its example")
    yield from dimensions(material)
