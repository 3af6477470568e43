"""What every format says in the same words, so that one page can show them all."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_MOST_COLUMNS = 1 << 31
_WORDS = {
    "float32": ("f32", "fp32", "float"),
    "float64": ("f64", "fp64", "double"),
    "float16": ("f16", "fp16", "half"),
    "bfloat16": ("bf16",),
    "bool": ("i1", "boolean"),
    "string": ("text", "str"),
    "complex64": ("c64", "complex<f32>"),
    "complex128": ("c128", "complex<f64>"),
    **{f"int{bits}": (f"i{bits}", f"si{bits}") for bits in (2, 4, 8, 16, 32, 64)},
    **{f"uint{bits}": (f"u{bits}", f"ui{bits}") for bits in (2, 4, 8, 16, 32, 64)},
}
_ELEMENTS = {word: name for name, words in _WORDS.items() for word in (name, *words)}


def element(kind: str) -> str:
    """Return an element type as NumPy calls it, where it has that one; else as the format does (``Q4_0``).

    ``FP32``, ``F32``, ``FLOAT`` and ``float`` are one thing, and who looks for it should have to know one word.
    """
    return _ELEMENTS.get(kind.lower(), kind)


def port(name: str, kind: str, shape: Sequence[int | str | None] | None) -> dict[str, Any]:
    """Return an input or output: its element type and its shape.

    A size that may change is text or None; a shape of None means that not even the rank is known.
    """
    return {"name": name, "type": element(kind), "shape": None if shape is None else list(shape)}


def columns(names: Sequence[Any] | None, count: Any) -> list[dict[str, Any]]:
    """Return the inputs of a model that takes a table: its columns, or one matrix where they have no names."""
    if names:
        return [port(str(name), "", [None]) for name in names]
    return [port("X", "", [None, count])] if type(count) is int and 0 <= count < _MOST_COLUMNS else []


def tensor(name: str, kind: str, shape: Sequence[int], size: int) -> dict[str, Any]:
    """Return a stored tensor: ``size`` is its bytes in the file."""
    return {"name": name, "type": element(kind), "shape": list(shape), "bytes": size}


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
