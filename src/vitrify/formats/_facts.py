"""What every format says in the same words, so that one page can show them all."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def port(name: str, kind: str, shape: Sequence[int | str | None] | None) -> dict[str, Any]:
    """Return an input or output: its element type as the format writes it, and its shape.

    A size that may change is text or None; a shape of None means that not even the rank is known.
    """
    return {"name": name, "type": kind, "shape": None if shape is None else list(shape)}


def tensor(name: str, kind: str, shape: Sequence[int], size: int) -> dict[str, Any]:
    """Return a stored tensor: ``size`` is its bytes in the file."""
    return {"name": name, "type": kind, "shape": list(shape), "bytes": size}


def weights(tensors: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return ``tensors`` and their totals: ``parameters`` (elements), ``bytes`` and ``precision`` (elements a type)."""
    listed = list(tensors)
    precision: Counter[str] = Counter()
    for one in listed:
        precision[one["type"]] += math.prod(one["shape"])
    return {
        "tensors": listed,
        "parameters": sum(precision.values()),
        "bytes": sum(one["bytes"] for one in listed),
        "precision": dict(precision.most_common()),
    }


def counts(names: Iterable[str]) -> dict[str, int]:
    """Return how often each name occurs, in the order of the names."""
    return dict(sorted(Counter(names).items()))
