"""Elements: the ``data`` of a tensor, from JSON to an array of exactly its datatype.

Numbers come in pieces of some thousands: what is in memory at a time besides the text and the array is small. Integers
are exact, floats are rounded once, from the decimal text to the datatype, never by way of a wider one.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from vitrify.core.errors import MalformedError, SignatureError
from vitrify.serve.ports import BYTES, DTYPES
from vitrify.serve.protocols._json import BARE, CONSTANTS, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Array = np.ndarray[Any, Any]

PIECE = 1 << 15
"""Bytes of text that are read at a time."""
_STRUCTURE = b"[],"
_ELEMENT = re.compile(rb"[^\s\[\],]+")
_OTHERS = bytes(set(range(256)) - set(_STRUCTURE))
_SHOWN = 40
_BFLOAT16_DIGITS, _BFLOAT16_LEAST = 8, -133
_BFLOAT16_MOST = float.fromhex("0x1.fep127")


def elements(
    text: bytes, datatype: str, shape: tuple[int, ...], *, where: str, gaps: bool = False, mixed: bool = False
) -> Array:
    """Return a tensor's data, nested as its shape says or flat in row-major order.

    Args:
        text: Valid JSON, in which the tokens for what is no number are strings.
        datatype: One of the Open Inference Protocol's, or BF16, which becomes float32.
        shape: Sizes from 0.
        where: What it is, for the error message.
        gaps: Whether ``null`` is taken, for a missing value: NaN, None, or masked.
        mixed: Whether BYTES may be numbers and booleans too.

    Raises:
        SignatureError: The data do not fit the datatype or the shape; the message has the position.
    """
    if datatype == BYTES:
        return _texts(text, shape, where, gaps=gaps, mixed=mixed)
    bare = text
    if floats := datatype.startswith(("FP", "BF")):
        for constant, token in BARE.items():
            bare = bare.replace(f'"{constant}"'.encode(), b"0").replace(token, b"0")
    if b'"' in bare:
        raise _no_number(text, datatype, where)
    count = math.prod(shape)
    skeleton = bare.translate(None, _OTHERS)
    flat = text.translate(None, b"[]")
    if not _fits(skeleton, count, shape) or (not count and _ELEMENT.search(flat)):
        raise _misshapen(text, shape, where)
    out = np.zeros(count, "float32" if datatype == "BF16" else DTYPES[datatype])
    mask = np.zeros(count, np.bool_) if gaps else None
    position = 0
    for piece in _pieces(flat) if count else ():
        values = _values(piece, datatype, position, where)
        end = position + len(values)
        if gaps and None in values:
            assert mask is not None
            mask[position:end] = [value is None for value in values]
            values = [("NaN" if floats else 0) if value is None else value for value in values]
        out[position:end] = _numbers(values, piece, datatype, position, where)
        position = end
    if position != count:  # an array that is empty where the shape has one element
        raise _misshapen(text, shape, where)
    array = out.reshape(shape)
    return np.ma.MaskedArray(array, mask.reshape(shape)) if mask is not None and mask.any() and not floats else array


def _fits(skeleton: bytes, count: int, shape: tuple[int, ...]) -> bool:
    """Say whether brackets and commas are those of flat data, or of data nested as the shape says."""
    flat = max(count - 1, 0)
    if len(skeleton) == flat + 2 and skeleton == b"[" + b"," * flat + b"]":
        return True
    length = 0  # of the nested form, before that is made
    for size in reversed(shape):
        length = size * length + max(size - 1, 0) + 2
    if len(skeleton) != length:
        return False
    nested = b""
    for size in reversed(shape):
        nested = b"[" + (nested + b",") * (size - 1) + nested * bool(size) + b"]"
    return skeleton == nested


def _pieces(flat: bytes) -> Iterator[bytes]:
    """Yield pieces of a comma-separated list, cut at commas."""
    start = 0
    while start >= 0:
        end = flat.find(b",", start + PIECE)
        yield flat[start:] if end < 0 else flat[start:end]
        start = end + 1 if end >= 0 else -1


def _values(piece: bytes, datatype: str, position: int, where: str) -> list[Any]:
    try:
        values: list[Any] = msgspec.json.decode(b"[" + piece + b"]")
    except msgspec.DecodeError as error:
        for index, text in enumerate(piece.split(b",")):
            try:
                msgspec.json.decode(text)
            except msgspec.DecodeError:
                found = text.decode()[:_SHOWN] or "nothing"
                msg = f"{where}[{position + index}]: {found} is no number that {datatype} can hold"
                raise SignatureError(msg) from error
        raise MalformedError(str(error)) from error
    return values


def _numbers(values: list[Any], piece: bytes, datatype: str, position: int, where: str) -> Array:
    """Return some values as the datatype's numbers."""
    if datatype == "BOOL":
        return _booleans(values, position, where)
    if not datatype.startswith(("FP", "BF")):
        return _integers(values, piece, datatype, position, where)
    kinds = set(map(type, values))
    if not kinds <= {int, float, str}:
        index = next(index for index, value in enumerate(values) if type(value) not in {int, float, str})
        raise _wrong(values[index], datatype, position + index, where)
    named = [CONSTANTS.get(value, value) for value in values] if str in kinds else values
    return _floats(named, piece, datatype, position, where)


def _booleans(values: list[Any], position: int, where: str) -> Array:
    for index, value in enumerate(values):
        if value is not True and value is not False and not (type(value) is int and value in {0, 1}):
            raise _wrong(value, "BOOL", position + index, where)
    return np.array(values, np.bool_)


def _integers(values: list[Any], piece: bytes, datatype: str, position: int, where: str) -> Array:
    limits = np.iinfo(DTYPES[datatype])
    low, high = int(limits.min), int(limits.max)
    if set(map(type, values)) != {int} or min(values) < low or max(values) > high:
        texts = piece.split(b",")
        for index, value in enumerate(values):
            if type(value) is float and low <= value <= high:  # 1.0 is an integer, as everywhere in this library
                exact = Decimal(texts[index].decode().strip())
                values[index] = int(exact) if exact == exact.to_integral_value() else value
            if type(values[index]) is not int or not low <= values[index] <= high:
                raise _wrong(value, datatype, position + index, where)
    return np.array(values, DTYPES[datatype])


def _floats(values: list[Any], piece: bytes, datatype: str, position: int, where: str) -> Array:
    try:
        doubles = np.array(values, np.float64)
    except OverflowError:  # an integer of more than 308 digits
        index = next(index for index, value in enumerate(values) if type(value) is int and value.bit_length() > 1024)  # noqa: PLR2004
        raise _wrong(values[index], datatype, position + index, where) from None
    if b"-0" in piece:  # Python has no integer of that name
        texts = piece.split(b",")
        negative = [index for index in np.flatnonzero(doubles == 0).tolist() if texts[index].strip()[:1] == b"-"]
        doubles[negative] = -0.0
    if datatype == "FP64":
        return doubles
    # A double is the nearest to the text, and the datatype's number the nearest to the double; that is not the nearest
    # to the text where the double lies in the middle between two. Then the text says on which side it is.
    below, above = (narrow(np.nextafter(doubles, end), datatype) for end in (-np.inf, np.inf))
    middle = np.isfinite(doubles) & (below != above)
    if middle.any():
        texts = piece.split(b",")
        for index in np.flatnonzero(middle).tolist():
            exact, double = Decimal(texts[index].decode().strip()), Decimal(float(doubles[index]))
            if exact != double:
                doubles[index] = np.nextafter(doubles[index], np.inf if exact > double else -np.inf)
    result = narrow(doubles, datatype)
    if (lost := np.isinf(result) & np.isfinite(doubles)).any():
        index = int(np.flatnonzero(lost)[0])
        msg = f"{where}[{position + index}]: {_shown(values[index])[:_SHOWN]} is larger than {datatype} can hold"
        raise SignatureError(msg)
    return result


def narrow(doubles: Array, datatype: str) -> Array:
    """Return the nearest numbers of FP32, FP16 or BF16 (as float32), ties to even; what is too large is infinite."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if datatype != "BF16":
            return doubles.astype(DTYPES[datatype])
        _, exponent = np.frexp(doubles)
        least = np.maximum(exponent - _BFLOAT16_DIGITS, _BFLOAT16_LEAST)
        rounded = np.ldexp(np.rint(np.ldexp(doubles, -least)), least)
        bounded: Array = np.where(np.abs(rounded) > _BFLOAT16_MOST, np.copysign(np.inf, rounded), rounded)
        return bounded.astype(np.float32)


def _texts(text: bytes, shape: tuple[int, ...], where: str, *, gaps: bool, mixed: bool) -> Array:
    """Return BYTES: text, and what else is allowed."""
    for constant, token in BARE.items():
        if token in text:
            msg = f"{where}: the token {constant} where {BYTES} takes {_EXPECTED[BYTES]}"
            raise SignatureError(msg, remedy=f'write "{constant}" where that text is meant')
    count = math.prod(shape)
    level: Sequence[Any] = plain(text, where, list[Any])
    if len(level) != count or any(type(value) is list for value in level):
        level = _flattened(level, shape, where)
    for index, value in enumerate(level):
        allowed = type(value) is str or (value is None and gaps) or (mixed and type(value) in {int, float, bool})
        if not allowed:
            raise _wrong(value, BYTES, index, where)
    out = np.empty(count, object)
    out[:] = level
    return out.reshape(shape)


def _flattened(data: Sequence[Any], shape: tuple[int, ...], where: str) -> list[Any]:
    level: list[Any] = [data]
    for size in shape:
        following = []
        for node in level:
            if type(node) is not list or len(node) != size:
                found = f"an array of {len(node)}" if type(node) is list else "no array"
                msg = f"{where}: {found} where the shape {list(shape)} has {size} elements, and not flat either"
                raise SignatureError(msg)
            following += node
        level = following
    return level


def _no_number(text: bytes, datatype: str, where: str) -> Exception:
    """Return the error that names the first string where there should be numbers."""
    level: list[Any] = [plain(text, where)]
    while any(type(node) is list for node in level):
        level = [child for node in level for child in (node if type(node) is list else [node])]
    taken = CONSTANTS if datatype.startswith(("FP", "BF")) else {}
    index, value = next(
        (index, value)
        for index, value in enumerate(level)
        if isinstance(value, dict) or (isinstance(value, str) and value not in taken)
    )
    return _wrong(value, datatype, index, where)


def _misshapen(text: bytes, shape: tuple[int, ...], where: str) -> SignatureError:
    held, count = sum(1 for _ in _ELEMENT.finditer(text)), math.prod(shape)
    if held != count:
        msg = f"{where}: {held} elements, but the shape {list(shape)} has {count}"
    else:
        msg = f"{where}: neither flat nor nested as the shape {list(shape)} says"
    return SignatureError(msg)


_EXPECTED = {BYTES: "a string", "BOOL": "true or false"}


def _wrong(value: Any, datatype: str, index: int, where: str) -> SignatureError:
    expected = _EXPECTED.get(datatype) or ("a number" if datatype.startswith(("FP", "BF")) else "an integer")
    shown = _shown(value)
    msg = f"{where}[{index}]: {shown[:_SHOWN]} where {datatype} takes {expected}{_range(datatype)}"
    return SignatureError(msg)


def _range(datatype: str) -> str:
    if "INT" in datatype:
        limits = np.iinfo(DTYPES[datatype])
        return f" from {limits.min} to {limits.max}"
    return ""


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if value.bit_length() < 200 else "a huge integer"  # noqa: PLR2004
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError) as error:
        raise MalformedError(str(error)) from error
