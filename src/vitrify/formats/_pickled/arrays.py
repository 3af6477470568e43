"""The values of a small NumPy array in a pickle, from its inert form: classes and names of columns, for people."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from vitrify.pickles.inert import Call, payload, text

_MOST = 10_000
_KIND = re.compile(r"[biufUS]\d{1,4}")
_BYTES = frozenset({"_codecs.encode", "builtins.bytes", "__builtin__.bytes"})
_RECONSTRUCT, _FROM_BUFFER = "multiarray._reconstruct", "numeric._frombuffer"


def values(array: Any) -> list[Any] | None:
    """Return the items of an array of one dimension; None where it is none, is long, or holds what is not plain."""
    if not isinstance(array, Call):
        return None
    match array.dotted.rpartition("numpy._core.")[2] or array.dotted, array.state, array.args:
        case name, (_, (int(size),), Call() as kind, _, data), _ if name.endswith(_RECONSTRUCT):
            return _items(data, kind, size)
        case name, _, (data, Call() as kind, (int(size),), _) if name.endswith(_FROM_BUFFER):
            return _items(data, kind, size)
    return None


def _items(data: Any, kind: Call, size: int) -> list[Any] | None:
    if type(data) is list:
        return [_plain(one) for one in data] if len(data) <= _MOST else None
    held, dtype = _bytes(data), _dtype(kind)
    if held is None or dtype is None or size > _MOST or len(held) != size * dtype.itemsize:
        return None
    return [one.decode("latin1") if isinstance(one, bytes) else one for one in np.frombuffer(held, dtype).tolist()]


def _bytes(data: Any) -> memoryview | None:
    """Return what holds the numbers; protocols without bytes write it as text that is encoded."""
    if isinstance(data, Call) and data.dotted in _BYTES and type(data.args) is tuple:
        said = text(data.args[0]) if data.args else ""
        return None if said is None else memoryview(said.encode("latin1", "replace"))
    return payload(data)


def _dtype(kind: Call) -> np.dtype[Any] | None:
    """Return the element type that ``numpy.dtype("i8", False, True)`` with its byte order as state means."""
    name = text(kind.args[0]) if type(kind.args) is tuple and kind.args else None
    if name is None or not _KIND.fullmatch(name):
        return None
    big = type(kind.state) is tuple and len(kind.state) > 1 and kind.state[1] == ">"
    return np.dtype(f"{'>' if big else '<'}{name}")


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float) else text(value) or type(value).__name__
