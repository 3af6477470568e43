"""Generated: rows to compare on where nobody gave any, from what the signature declares.

Only for inputs of numbers that mean the same whatever they are: real numbers and bytes. Identifiers and text have a
vocabulary that a signature does not tell, so samples of them have to be given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.signature import BATCH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Field, Signature

ROWS = 16
_SIZE = 8
"""What a dimension that may change is set to."""


def generated(signature: Signature, *, seed: int = 0) -> Arrays:
    """Return normally distributed rows (bytes: uniform ones); none where an input is of another type."""
    rng = np.random.default_rng(seed)
    arrays = {field.name: _values(field, rng) for field in signature.inputs}
    return {} if any(array is None for array in arrays.values()) else {k: v for k, v in arrays.items() if v is not None}


def _values(field: Field, rng: np.random.Generator) -> NDArray[Any] | None:
    shape = tuple(ROWS if size == BATCH else _SIZE if isinstance(size, str) else size for size in field.shape)
    if field.dtype in {"float16", "float32", "float64"}:
        return rng.normal(size=shape).astype(field.dtype)
    return rng.integers(0, 256, shape).astype(np.uint8) if field.dtype == "uint8" else None
