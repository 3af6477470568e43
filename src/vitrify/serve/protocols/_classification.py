"""Classification: an output's best classes as text, one string each, instead of all its numbers.

Each string is ``VALUE:INDEX``, and ``VALUE:INDEX:LABEL`` where the model has class labels; the best comes first.

Source: Triton's ``extension_classification.md``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import SignatureError

if TYPE_CHECKING:
    from vitrify.core.signature import Field

    Array = np.ndarray[Any, Any]


def classified(array: Array, most: int, field: Field | None, where: str) -> Array:
    """Return the best classes of each row, as an object array of bytes.

    Args:
        array: Numbers; of more than one dimension, the first is the batch where the field says so.
        most: How many classes.
        field: The output's; its ``classes`` are the labels.
        where: What an error calls the output.

    Raises:
        SignatureError: It has no numbers, or the count is none.
    """
    if array.dtype.kind not in "iuf" or most < 1:
        msg = f"{where}: classification takes an output of numbers and a count from 1, not {array.dtype} and {most}"
        raise SignatureError(msg)
    batched = field.batched if field is not None else array.ndim > 1
    rows = array.reshape(len(array), math.prod(array.shape[1:])) if batched and array.ndim else array.reshape(1, -1)
    labels = field.classes if field is not None else None
    count = min(most, rows.shape[1])
    best = np.argsort(_descending(rows), axis=1, kind="stable")[:, :count]
    out = np.empty((len(rows), count), dtype=object)
    for row, indices in enumerate(best.tolist()):
        for place, index in enumerate(indices):
            out[row, place] = _text(rows[row, index], index, labels)
    return out if batched else out[0]


def _descending(rows: Array) -> Array:
    """Return keys whose ascending order is the descending order of the numbers; NaN comes last."""
    return np.invert(rows) if rows.dtype.kind in "iu" else -rows


def _text(value: Any, index: int, labels: tuple[Any, ...] | None) -> bytes:
    plain = f"{value!s}:{index}"
    return (plain if labels is None or index >= len(labels) else f"{plain}:{labels[index]}").encode()
