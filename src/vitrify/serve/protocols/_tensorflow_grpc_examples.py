"""``tensorflow.Example``: features by name, to the arrays of a model's inputs.

Each input takes the feature of its name from each example, or else from the context that all share. A column takes one
value; other inputs take as many as an element of the batch has. A feature that is in no input is not looked at, as in
TensorFlow's own parsing; one that is missing is missing where the input may be.

Source: https://github.com/tensorflow/serving, ``apis/input.proto``; ``tensorflow/core/example/feature.proto``.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import LimitExceededError, SignatureError
from vitrify.serve.ports import to_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.core.protocols import Arrays
    from vitrify.serve.models import Served
    from vitrify.serve.ports import Port

    Array = np.ndarray[Any, Any]

MAX_SHARED = 64 * 1024 * 1024
"""Bytes of one input that the context gives to examples."""
_KINDS = {"bytes_list": "object", "float_list": "float32", "int64_list": "int64"}


def inputs_of(given: Any, served: Served) -> Arrays:
    """Return the inputs that examples hold.

    Args:
        given: A message ``Input``.
        served: The model.

    Raises:
        SignatureError: There is no example, or a feature does not fit the input of its name.
    """
    kind = given.WhichOneof("kind")
    listed = getattr(given, kind) if kind else None
    if listed is None or not listed.examples:
        raise SignatureError("input: no examples, expected one at least")
    context = listed.context.features.feature if kind == "example_list_with_context" else {}
    rows = [example.features.feature for example in listed.examples]
    arrays = {port.name: _gathered(rows, context, port) for port in served.inputs}
    return {name: array for name, array in arrays.items() if array is not None}


def _gathered(rows: Sequence[Any], context: Any, port: Port) -> Array | None:
    """Return one input; None where no example has it, which the model may allow."""
    name = port.name
    found = [row[name] if name in row else context.get(name) for row in rows]
    if name in context:
        _require_room(context[name], sum(name not in row for row in rows), name)
    kinds = [feature.WhichOneof("kind") if feature is not None else None for feature in found]
    used = next((kind for kind in kinds if kind is not None), None)
    if used is None:
        return None
    values = [getattr(feature, used).value if kind else () for feature, kind in zip(found, kinds, strict=True)]
    inner = _inner(values, port)
    size = math.prod(inner)
    for index, (kind, held) in enumerate(zip(kinds, values, strict=True)):
        where = f"examples[{index}].features[{name[:200]!r}]"
        if kind not in {None, used}:
            msg = f"{where}: found {kind}, expected {used} as before"
            raise SignatureError(msg)
        if len(held) != size and (held or not port.field.nullable or size != 1):
            expected = "1 value" if size == 1 else f"{size} values"
            msg = f"{where}: found {len(held)} values, expected {expected}"
            raise SignatureError(msg)
    gaps = [not held for held in values] if size == 1 else []
    return _array(values, _KINDS[used], gaps, (len(rows), *inner), port)


def _require_room(feature: Any, uses: int, name: str) -> None:
    """Refuse a feature of the context that becomes much larger than its message, once for each example.

    Raises:
        LimitExceededError: It does.
    """
    kind = feature.WhichOneof("kind")
    values = len(getattr(feature, kind).value) if kind else 0
    if uses * max(feature.ByteSize(), 8 * values) > MAX_SHARED:
        msg = f"context.features[{name[:200]!r}]: for {uses} examples it takes more than {MAX_SHARED} bytes"
        raise LimitExceededError(msg, remedy="send fewer examples at a time")


def _inner(values: Sequence[Sequence[Any]], port: Port) -> tuple[int, ...]:
    """Return the sizes of one element of the batch.

    Where one of them may change, the values say it; where several may, each is 1.
    """
    inner = port.shape[1:]
    if inner.count(-1) != 1:
        return tuple(max(size, 1) for size in inner) if -1 in inner else inner
    fixed = math.prod(size for size in inner if size != -1)
    longest = max(map(len, values))
    return tuple(longest // fixed if size == -1 and fixed else max(size, 0) for size in inner)


def _array(values: Sequence[Sequence[Any]], dtype: str, gaps: list[bool], shape: tuple[int, ...], port: Port) -> Array:
    missing: dict[str, Any] = {"object": None, "float32": math.nan, "int64": 0}
    flat = list(chain.from_iterable(held or ((missing[dtype],) if gaps else ()) for held in values))
    out: Array = np.empty(len(flat), np.dtype(dtype))
    out[:] = flat
    array = out.reshape(shape)
    if dtype == "int64" and any(gaps):
        return np.ma.MaskedArray(array, mask=np.reshape(gaps, shape))
    return to_session(array, port) if dtype == "object" else array
