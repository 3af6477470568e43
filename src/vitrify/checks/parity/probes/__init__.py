"""Probes: rows made to break a converted model, from its signature, its samples and the source itself.

Each module yields the probes of one kind of fault. A probe that the source refuses asks for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.checks.parity import rows
from vitrify.checks.parity.probes import batches, calls, missing, numeric, samples, text, thresholds
from vitrify.checks.parity.probes.jumps import Jumps
from vitrify.checks.parity.probes.material import Material, Probe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.checks.parity.tolerance import Bound
    from vitrify.core.protocols import Arrays, Session
    from vitrify.core.signature import Signature

__all__ = ["Material", "Probe", "material", "probes"]

_MATRIX = 2
"""Dimensions up to which single columns have a meaning of their own, so that looking for jumps is worth its calls."""


def material(signature: Signature, inputs: Arrays, rows_wanted: int, seed: int) -> Material:
    """Return what probes are made from: plain text becomes objects, which have room for any other text."""
    arrays = {
        field.name: inputs[field.name].astype(object) if inputs[field.name].dtype.kind == "U" else inputs[field.name]
        for field in signature.inputs
    }
    return Material(signature, arrays, rows_wanted, seed)


def probes(material: Material, source: Session, bounds: dict[str, Bound], model: Any) -> Iterator[Probe]:
    """Yield every probe of a model that answers row by row; the samples themselves are the caller's.

    Args:
        material: The samples and the number of rows wanted.
        source: The model that is right by definition.
        bounds: The tolerance of each floating-point output.
        model: The live model behind the source, where it is known.
    """
    used = rows.count(material.samples)
    flat = all(array.ndim <= _MATRIX for array in material.samples.values())
    families = [numeric.probes(material), missing.probes(material), text.probes(material), batches.probes(material)]
    if flat:
        families.append(thresholds.probes(material, model))
        families.append(iter([Jumps(source, bounds, material).probe()]))
    for family in families:
        for probe in family:
            if probe is not None:
                used += rows.count(probe.arrays)
                yield probe
    yield from samples.fill(material, max(material.rows - used, 0))


def call_probes(material: Material) -> Iterator[Probe]:
    """Yield the probes of a model whose answer is one whole, such as a graph with a fixed batch."""
    yield from calls.probes(material)
