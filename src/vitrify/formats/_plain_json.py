"""Python values as JSON and back, exactly: numbers, text, arrays and containers, and nothing that could run.

What JSON has itself stays as it is. Everything else is ``{"$": kind, "v": content}``: NaN and infinities, large
integers, bytes, tuples, sets, NumPy scalars, arrays and random states, and dicts whose keys are no text or whose
order is not the alphabet's (canonical JSON sorts keys).
"""

from __future__ import annotations

import base64
import math
from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import MalformedError
from vitrify.core.report import Finding
from vitrify.core.wire import MAX_DOCUMENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DEPTH = 16
"""Containers inside containers; deeper values are refused in both directions."""

_LEVELS = 4
"""Levels of JSON for one level of a value, at most: a tagged list of pairs."""
_TAG = "$"
_DTYPES = "biufUSOmM"
_FACTORIES: dict[str, Callable[[], Any] | None] = {
    "": None, "dict": dict, "float": float, "int": int, "list": list, "ordered": OrderedDict, "set": set,
}  # fmt: skip
_BIT_GENERATORS = frozenset({"MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"})
_MAX_FLOAT_BYTES = 8
"""JSON's numbers are read as doubles; a longer float would be rounded."""
_NATIVE_INTEGERS = range(-(2**63), 2**63)


def encode(value: Any, place: str, problems: list[Finding], depth: int = MAX_DEPTH) -> Any:
    """Return the JSON form of a value.

    Args:
        value: Anything.
        place: Where it stands, for the findings.
        problems: Gets a finding for each part that has no JSON form; the result is then of no use.
        depth: How many more levels are allowed.
    """
    if depth == 0:
        problems.append(Finding(place=place, message=f"is nested more than {MAX_DEPTH} levels deep, or in itself"))
        return None
    if _is_json(value):
        return value
    if type(value) is list:
        return [encode(part, f"{place}[{index}]", problems, depth - 1) for index, part in enumerate(value)]
    if type(value) in {dict, OrderedDict, defaultdict}:
        return _encode_dict(value, place, problems, depth - 1)
    if simple := _simpler(value):
        return _tagged(simple[0], encode(simple[1], place, problems, depth - 1))
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    what = f"{value.__module__}.{value.__qualname__}, code" if hasattr(value, "__qualname__") else f"a {kind}"
    problems.append(Finding(place=place, message=f"is {what}, which is not plain data"))
    return None


def decode(value: Any, *, where: str) -> Any:
    """Return the value whose JSON form this is.

    Args:
        value: Parsed JSON.
        where: What it is part of, for the error message.

    Raises:
        MalformedError: It is no such form.
    """
    try:
        return _decode(value, _LEVELS * MAX_DEPTH)
    except (ValueError, TypeError, LookupError, OverflowError, AttributeError) as error:
        msg = f"{where}: a value that no Vitrify wrote ({error})"
        raise MalformedError(msg) from error


def _tagged(kind: str, content: Any) -> dict[str, Any]:
    return {_TAG: kind, "v": content}


def _is_json(value: Any) -> bool:
    """Whether JSON has this value itself. Types are exact: a subclass may carry more than its base can say."""
    kind = type(value)
    if kind is str:
        return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
    whole = kind is int and value in _NATIVE_INTEGERS
    return value is None or kind is bool or whole or (kind is float and math.isfinite(value))


def _encode_dict(value: dict[Any, Any], place: str, problems: list[Finding], depth: int) -> Any:
    keys = list(value)
    if type(value) is dict and _TAG not in value and all(type(key) is str for key in keys) and keys == sorted(keys):
        return {key: encode(item, f"{place}[{key!r}]", problems, depth) for key, item in value.items()}
    pairs = [
        [encode(key, f"{place} key {key!r}", problems, depth), encode(item, f"{place}[{key!r}]", problems, depth)]
        for key, item in value.items()
    ]
    if not isinstance(value, defaultdict):
        return _tagged("ordered" if type(value) is OrderedDict else "dict", pairs)
    names = [name for name, factory in _FACTORIES.items() if factory is value.default_factory]
    if not names:
        problems.append(Finding(place=place, message=f"is a defaultdict that makes {value.default_factory!r}"))
    return _tagged("default", [*names, pairs])


def _simpler(value: Any) -> tuple[str, Any] | None:
    """Return a kind and a simpler value to encode; None where there is none."""
    if isinstance(value, np.generic) or type(value) is np.ndarray:
        content = _array_content(np.asarray(value))
        kind = "array" if type(value) is np.ndarray else "scalar"
        return None if content is None else (kind, content)
    if isinstance(value, np.dtype):
        return ("dtype", value.str) if value.kind in _DTYPES else None
    if type(value) not in _SIMPLER:
        return None
    kind, simplify = _SIMPLER[type(value)]
    return kind, simplify(value)


_SIMPLER: dict[type, tuple[str, Callable[[Any], Any]]] = {
    int: ("int", str),
    float: ("float", str),
    bytes: ("bytes", lambda value: base64.b64encode(value).decode()),
    tuple: ("tuple", list),
    set: ("set", lambda value: sorted(value, key=lambda part: (type(part).__name__, repr(part)))),
    frozenset: ("frozenset", lambda value: sorted(value, key=lambda part: (type(part).__name__, repr(part)))),
    np.random.RandomState: ("random-state", lambda value: value.get_state(legacy=False)),
    np.random.Generator: ("generator", lambda value: value.bit_generator.state),
}


def _array_content(array: np.ndarray[Any, Any]) -> list[Any] | None:
    flat = array.reshape(-1)
    if array.dtype.kind in "mM":
        flat = flat.view(np.int64)
    elif array.dtype.kind not in _DTYPES or (array.dtype.kind == "f" and array.dtype.itemsize > _MAX_FLOAT_BYTES):
        return None
    return [array.dtype.str, list(array.shape), flat.tolist()]


def _decode(value: Any, depth: int) -> Any:
    if depth == 0:
        msg = f"nested more than {MAX_DEPTH} levels deep"
        raise ValueError(msg)
    match value:
        case list():
            return [_decode(part, depth - 1) for part in value]
        case dict() if _TAG in value:
            return _RESTORE[value[_TAG]](_decode(value["v"], depth - 1))
        case dict():
            return {key: _decode(part, depth - 1) for key, part in value.items()}
        case _:
            return value


def _dtype(text: Any, count: int = 1) -> np.dtype[Any]:
    dtype = np.dtype(str(text))
    if dtype.kind not in _DTYPES or dtype.itemsize * max(count, 1) > MAX_DOCUMENT_BYTES:
        msg = f"an array of {count} times {text!r}"
        raise ValueError(msg)
    return dtype


def _array(content: Any) -> np.ndarray[Any, Any]:
    dtype_text, shape, values = content
    dtype = _dtype(dtype_text, len(values))
    if dtype.kind == "O":
        array = np.empty(len(values), dtype)
        for index, item in enumerate(values):
            array[index] = item
    elif dtype.kind in "mM":
        array = np.array(values, np.int64).view(dtype)
    else:
        array = np.array(values, dtype)
    if array.shape != (len(values),) or any(type(size) is not int or size < 0 for size in shape):
        msg = f"an array of shape {shape} with elements of shape {array.shape[1:]}"
        raise ValueError(msg)
    return array.reshape(tuple(shape))


def _random_state(state: Any) -> np.random.RandomState:
    restored = np.random.RandomState()
    restored.set_state(state)
    return restored


def _generator(state: Any) -> np.random.Generator:
    if state["bit_generator"] not in _BIT_GENERATORS:
        msg = f"unknown bit generator {state['bit_generator']!r}"
        raise ValueError(msg)
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


_RESTORE: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "dict": dict,
    "ordered": OrderedDict,
    "default": lambda content: defaultdict(_FACTORIES[content[0]], dict(content[1])),
    "array": _array,
    "scalar": lambda content: _array(content)[()],
    "dtype": _dtype,
    "random-state": _random_state,
    "generator": _generator,
}
