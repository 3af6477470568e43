"""TensorFlow Serving's JSON: values nested as their tensors are, bytes as ``{"b64": ...}``, NaN and so on as tokens.

The rows of an input are read as they come: an array of numbers by :mod:`._elements`, everything else as Python objects.
A shape is not said, so it is found: by the first element of each level; every other must agree.

Source: https://github.com/tensorflow/serving/blob/master/tensorflow_serving/g3doc/api_rest.md
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from vitrify.core.errors import MalformedError, SignatureError
from vitrify.serve import ports
from vitrify.serve.ports import BYTES
from vitrify.serve.protocols import _data, _json
from vitrify.serve.protocols._elements import elements
from vitrify.serve.protocols._rows import Words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vitrify.serve.ports import Port
    from vitrify.serve.protocols._json import Raw

    Array = np.ndarray[Any, Any]

_STRUCTURE = b"[],"
_OTHERS = bytes(set(range(256)) - set(_STRUCTURE))
_B64 = "b64"
_BINARY_NAME = "_bytes"
RANK = 32


def _sayer(name: str) -> Callable[[Any], Any]:
    def say(value: Any) -> Any:
        if isinstance(value, str) and name.endswith(_BINARY_NAME):
            value = value.encode()
        if not isinstance(value, bytes):
            return _data.as_text(value)
        if not name.endswith(_BINARY_NAME):
            try:
                return value.decode()
            except UnicodeDecodeError:
                pass
        return {_B64: base64.b64encode(value).decode()}

    return say


WORDS = Words(_data.TOKENS, _sayer)
"""What an output's name ends in says whether its text is said as bytes."""


def tensor(text: bytes | Raw, port: Port, where: str, *, gaps: bool) -> Array:
    """Return what stands in JSON for a tensor, in the session's form.

    Args:
        text: In which the tokens for what is no number are strings.
        port: Where it goes.
        where: What it is, for the error message.
        gaps: Whether ``null`` is taken.

    Raises:
        SignatureError: It is no rectangular array of what the port takes.
    """
    whole = bytes(text).strip()
    if port.datatype == BYTES:
        return ports.to_session(_objects(_json.plain(whole, where), port, where, gaps=gaps), port)
    if not whole.startswith(b"["):
        return elements(b"[" + whole + b"]", port.datatype, (), where=where, gaps=gaps)
    shape = _shape(whole, where)
    return ports.to_session(elements(whole, port.datatype, shape, where=where, gaps=gaps), port)


def from_values(values: Any, port: Port, where: str, *, gaps: bool) -> Array:
    """Return nested lists and scalars as an array, as :func:`tensor` does with their text."""
    return tensor(_encoded(values, where), port, where, gaps=gaps)


def _encoded(values: Any, where: str) -> bytes:
    """Return JSON in which what is no number is a string."""
    try:
        return msgspec.json.encode(_named(values) if _has_odd(values) else values)
    except (TypeError, ValueError) as error:
        msg = f"{where}: {error}"
        raise SignatureError(msg) from error


def _has_odd(values: Any) -> bool:
    if isinstance(values, list):
        return any(map(_has_odd, values))
    return isinstance(values, float) and not np.isfinite(values)


def _named(values: Any) -> Any:
    if isinstance(values, list):
        return [_named(value) for value in values]
    if isinstance(values, float) and not np.isfinite(values):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(values)]
    return values


def _shape(whole: bytes, where: str) -> tuple[int, ...]:
    """Return the shape that nested numbers have by the first element of each level."""
    skeleton = whole.translate(None, _OTHERS)
    depth = len(skeleton) - len(skeleton.lstrip(b"["))
    if depth > RANK:
        msg = f"{where}: {depth} dimensions, at most {RANK} are taken"
        raise SignatureError(msg)
    sizes: list[int] = []
    start = depth  # of the first element of the level that is looked at
    block = 0  # bytes of one element of it
    for level in range(depth):
        end = skeleton.find(b"]" * (level + 1), start)
        inner = skeleton[start : end + level] if level else skeleton[start:end]
        count = (len(inner) + 1) // (block + 1)
        if level == 0 and count == 1 and not _holds_something(whole):
            count = 0
        sizes.append(count)
        start -= 1
        block = len(inner) + 2
    return tuple(reversed(sizes))


def _holds_something(whole: bytes) -> bool:
    """Say whether the first innermost array has an element."""
    first = whole.partition(b"]")[0].rpartition(b"[")[2]
    return bool(first.strip())


def _objects(values: Any, port: Port, where: str, *, gaps: bool) -> Array:
    """Return nested text and bytes as an array of objects."""
    shape: list[int] = []
    node = values
    while isinstance(node, list) and len(shape) < RANK:
        shape.append(len(node))
        node = node[0] if node else None
    level: Sequence[Any] = [values]
    for size in shape:
        following: list[Any] = []
        for child in level:
            if not isinstance(child, list) or len(child) != size:
                msg = f"{where}: ragged; expected arrays of the same length at every level"
                raise SignatureError(msg)
            following += child
        level = following
    mixed = port.field.dtype == "object"
    out = np.empty(len(level), object)
    out[:] = [_object(value, f"{where}[{index}]", gaps=gaps, mixed=mixed) for index, value in enumerate(level)]
    return out.reshape(shape)


def _object(value: Any, where: str, *, gaps: bool, mixed: bool) -> Any:
    if isinstance(value, dict) and list(value) == [_B64] and isinstance(value[_B64], str):
        try:
            return base64.b64decode(value[_B64], validate=True)
        except (binascii.Error, ValueError) as error:
            msg = f"{where}: no base64 ({error})"
            raise MalformedError(msg) from error
    if isinstance(value, str) or (value is None and gaps) or (mixed and isinstance(value, int | float)):
        return value
    found = "an array" if isinstance(value, list) else "an object" if isinstance(value, dict) else str(value)[:40]
    msg = f'{where}: {found} where a string or {{"b64": "..."}} is expected'
    raise SignatureError(msg)
