"""Data: what comes out, from an array to the text of JSON.

Floats are the shortest text that reads back as the same number of their own type. What is no number is said by each
protocol in its own way.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from vitrify.core.errors import SignatureError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Array = np.ndarray[Any, Any]

PIECE = 4096
"""Elements that are Python objects at a time."""
STRINGS: Mapping[str, bytes] = {"nan": b'"NaN"', "inf": b'"Infinity"', "-inf": b'"-Infinity"'}
"""The Open Inference Protocol has no word for what is no number: strings, which are valid JSON."""
TOKENS: Mapping[str, bytes] = {"nan": b"NaN", "inf": b"Infinity", "-inf": b"-Infinity"}
"""TensorFlow Serving's: no valid JSON, but documented."""
NUMBERS: Mapping[str, bytes] = {"nan": b"null", "inf": b"1e999", "-inf": b"-1e999"}
"""Valid JSON: a number that is too large is read as infinite, and what is missing in a table is null."""


def flat(array: Array, constants: Mapping[str, bytes], text: Callable[[Any], Any]) -> bytes:
    """Return an array's elements in row-major order, as JSON without the brackets around them.

    Args:
        array: In the session's form.
        constants: How NaN and the infinities are said.
        text: From what is no number to what stands in JSON for it.
    """
    return b",".join(_pieces(array, constants, text))


def nested(array: Array, constants: Mapping[str, bytes], text: Callable[[Any], Any]) -> bytes:
    """Return an array as JSON, nested as its shape is."""
    if array.ndim == 0:
        return flat(array.reshape(1), constants, text)
    if array.ndim == 1:
        return b"[" + flat(array, constants, text) + b"]"
    return b"[" + b",".join(nested(part, constants, text) for part in array) + b"]"


def as_text(value: Any) -> Any:
    """Return what is no number as the Open Inference Protocol has it: text; null where it is missing.

    Raises:
        SignatureError: It is bytes that are no UTF-8.
    """
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            msg = "an output holds bytes that are no UTF-8, which JSON cannot carry"
            raise SignatureError(msg, remedy="ask for it with the parameter binary_data") from None
    return None if is_missing(value) else value if isinstance(value, str) else str(value)


def is_missing(value: Any) -> bool:
    """Say whether a value of an array of objects or times is missing: None, NaN, NaT."""
    return value is None or bool(value != value)  # noqa: PLR0124 (what is missing is not equal to itself)


def doubles(array: Array) -> Array:
    """Return floats as the doubles whose shortest text is that of the floats."""
    if array.dtype.itemsize >= 8 or array.dtype.kind != "f":  # noqa: PLR2004
        return array
    return array.astype("U32").astype(np.float64)


def _pieces(array: Array, constants: Mapping[str, bytes], text: Callable[[Any], Any]) -> Iterator[bytes]:
    mask = np.ma.getmaskarray(array).ravel() if isinstance(array, np.ma.MaskedArray) else None
    row = np.ma.getdata(array).ravel()
    for start in range(0, len(row), PIECE):
        part = row[start : start + PIECE]
        if part.dtype.kind == "f":
            yield _floats(part, constants)
            continue
        values = part.tolist() if part.dtype.kind in "biu" else [text(value) for value in part]
        if mask is not None:
            values = [None if out else value for value, out in zip(values, mask[start : start + PIECE], strict=True)]
        yield msgspec.json.encode(values)[1:-1]


def _floats(part: Array, constants: Mapping[str, bytes]) -> bytes:
    values = doubles(part)
    finite = np.isfinite(values)
    if finite.all():
        return msgspec.json.encode(values.tolist())[1:-1]
    return b",".join(as_constant(value, constants) for value in values.tolist())


def as_constant(value: float, constants: Mapping[str, bytes]) -> bytes:
    """Return one number as JSON."""
    return msgspec.json.encode(value) if math.isfinite(value) else constants[str(value)]
