"""Indexing of traced values: reading parts of each row, and writing to them.

The rows themselves cannot be picked or left out: how many come out must not depend on what is in them.

Source: https://numpy.org/doc/stable/user/basics.indexing.html
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._building.graph import BOOL
from vitrify.transforms.convert._trace import shape as shaping
from vitrify.transforms.convert._trace.choose import where
from vitrify.transforms.convert._trace.errors import untraceable
from vitrify.transforms.convert._trace.value import Rows, Value, astype, broadcast, constant, lift, moved

_NO_PICKING = "keep all rows: np.where(mask, x, other) instead of x[mask]"


def get(value: Value, key: Any) -> Value:
    """Return ``value[key]``."""
    result, axis, picked = value, 0, False
    for part in _parts(value, key):
        if part is None:
            result, axis = shaping.expand(result, axis), axis + 1
            continue
        size = result.shape[axis]
        if isinstance(part, slice) and part == slice(None):
            axis += 1
            continue
        if isinstance(size, Rows):
            untraceable(f"takes {_shown(part)} of the rows of the batch", _NO_PICKING)
        if isinstance(part, int | np.integer):
            result = _take(result, np.array(_place(int(part), size)), axis)
            continue
        if isinstance(part, slice):
            places = np.arange(size)[part]
        else:
            if picked:
                untraceable("indexes with two arrays at once", "index one axis at a time")
            places, picked = _places(part, size), True
        result = _take(result, places, axis)
        axis += 1
    return result


def set_(value: Value, key: Any, new: Any) -> Value:
    """Return the value with ``value[key] = new`` done."""
    if isinstance(key, Value) or (isinstance(key, tuple) and any(isinstance(part, Value) for part in key)):
        return _masked(value, key, new)
    parts = _parts(value, key)
    if any(part is None for part in parts):
        untraceable("assigns to a new axis", "assign to columns: x[:, j] = value")
    numbers = np.arange(np.prod([size for size in value.shape if isinstance(size, int)], dtype=int))
    fixed = tuple(part for part, size in zip(parts, value.shape, strict=True) if not isinstance(size, Rows))
    for part, size in zip(parts, value.shape, strict=True):
        if isinstance(size, Rows) and not (isinstance(part, slice) and part == slice(None)):
            untraceable(f"assigns to {_shown(part)} of the rows of the batch", _NO_PICKING)
    within = tuple(size for size in value.shape if isinstance(size, int))
    places = numbers.reshape(within)[fixed] if fixed else numbers.reshape(within)
    chosen = np.isin(numbers, places).reshape(within)
    part = get(value, key)
    filled = astype(lift(value.graph, new), value.dtype)
    filled = shaping.broadcast_to(filled, broadcast(filled.shape, part.shape))
    if filled.ndim != part.ndim:
        untraceable("assigns an array of more dimensions than it is assigned to", "drop the extra axes")
    return _scatter(value, filled, chosen, np.asarray(places))


def _scatter(value: Value, filled: Value, chosen: np.ndarray[Any, Any], places: np.ndarray[Any, Any]) -> Value:
    """Put a part back where it was taken from: lay it out as the whole, then choose between the two."""
    batched = any(isinstance(size, Rows) for size in value.shape)
    if batched and not isinstance(value.shape[0], Rows):
        untraceable("assigns to an array whose first axis is not the batch", "assign before transposing")
    lead: tuple[Any, ...] = (value.shape[0],) if batched else ()
    flat = shaping.reshape(filled, (*lead, places.size))
    order = np.zeros(chosen.size, np.int64)
    order[places.ravel()] = np.arange(places.size)
    laid = shaping.reshape(_take(flat, order, len(lead)), (*lead, *chosen.shape))
    return where(constant(value.graph, chosen), laid, value)


def _masked(value: Value, key: Any, new: Any) -> Value:
    """Assign where a mask is true: of the whole shape, or of the rows and then perhaps some columns."""
    parts = key if isinstance(key, tuple) else (key,)
    mask = parts[0]
    if not isinstance(mask, Value) or mask.dtype != BOOL or any(isinstance(part, Value) for part in parts[1:]):
        untraceable("assigns to places that are computed", "use np.where(mask, value, x)")
    new = lift(value.graph, new)
    if new.ndim > (1 if isinstance(value.shape[-1], int) and mask.ndim < value.ndim else 0):
        untraceable("assigns an array to the places of a mask", "use np.where(mask, array, x)")
    if mask.shape != value.shape[: mask.ndim]:
        untraceable("assigns by a mask of another shape", "use np.where(mask, value, x)")
    for _ in range(value.ndim - mask.ndim):
        mask = shaping.expand(mask, mask.ndim)
    changed = where(mask, astype(new, value.dtype), value)
    if len(parts) == 1:
        return changed
    rest = (slice(None), *parts[1:])
    return set_(value, rest, get(changed, rest))


def _parts(value: Value, key: Any) -> list[Any]:
    """Return one index an axis, and None for each new one."""
    parts = list(key) if isinstance(key, tuple) else [key]
    if any(isinstance(part, Value) for part in parts):
        untraceable("picks elements by an index that is computed from the data", _NO_PICKING)
    used = sum(part is not None and part is not Ellipsis for part in parts)
    if used > value.ndim:
        msg = f"too many indices for array: array is {value.ndim}-dimensional, but {used} were indexed"
        raise IndexError(msg)
    rest = [slice(None)] * (value.ndim - used)
    place = next((place for place, part in enumerate(parts) if part is Ellipsis), None)
    return [*parts, *rest] if place is None else [*parts[:place], *rest, *parts[place + 1 :]]


def _place(place: int, size: int) -> int:
    if not -size <= place < size:
        msg = f"index {place} is out of bounds for axis with size {size}"
        raise IndexError(msg)
    return place % size


def _places(part: Any, size: int) -> np.ndarray[Any, Any]:
    array = np.asarray(part)
    if array.dtype == BOOL:
        if array.shape != (size,):
            msg = f"boolean index did not match indexed array: size is {size} but shape is {array.shape}"
            raise IndexError(msg)
        return np.flatnonzero(array)
    if array.ndim != 1:
        untraceable("indexes with an array of several dimensions", "index with a list of columns")
    return np.array([_place(int(place), size) for place in array.tolist()], np.int64)


def _take(value: Value, places: np.ndarray[Any, Any], axis: int) -> Value:
    shape = (*value.shape[:axis], *places.shape, *value.shape[axis + 1 :])
    return moved(value, lambda tensor: value.graph.gather(tensor, places.astype(np.int64), axis), shape)


def _shown(part: Any) -> str:
    return f"the slice {part.start}:{part.stop}" if isinstance(part, slice) else f"the place {str(part)[:40]}"
