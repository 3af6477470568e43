"""Golden samples: inputs and the outputs that the model gave for them, kept inside the artifact."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

from vitrify import containers
from vitrify.core import arrays as npz
from vitrify.core.document import GOLDEN

if TYPE_CHECKING:
    from vitrify.core.protocols import Arrays, Files
    from vitrify.core.signature import Signature

MAX_ROWS = 100
MAX_BYTES = 1024 * 1024
"""Golden inputs are at most this many rows and, but for the first row, this many bytes."""


def choose(inputs: Arrays, signature: Signature) -> Arrays:
    """Return the rows of an example to keep: spread evenly over it, so that a sorted table shows all its ends."""
    count = containers.rows(inputs, signature.inputs)
    if not signature.batched or not count:
        return inputs
    size = sum(array.nbytes for array in inputs.values())
    keep = max(1, min(count, MAX_ROWS, MAX_BYTES * count // max(size, 1)))
    return containers.take(inputs, signature.inputs, np.linspace(0, count - 1, keep).astype(np.intp))


def dump(inputs: Arrays, outputs: Arrays) -> bytes:
    """Return the bytes of the golden file."""
    named = {f"input/{name}": array for name, array in inputs.items()}
    named |= {f"output/{name}": array for name, array in outputs.items()}
    stream = io.BytesIO()
    npz.dump(named, stream)
    return stream.getvalue()


def load(files: Files) -> tuple[Arrays, Arrays]:
    """Return the golden inputs and outputs; both are empty where the artifact has none."""
    if GOLDEN not in files.names():
        return {}, {}
    named = npz.load(files.read(GOLDEN), where=GOLDEN)
    sides: tuple[Arrays, Arrays] = ({}, {})
    for name, array in named.items():
        side, _, plain = name.partition("/")
        sides[side == "output"][plain] = array
    return sides
