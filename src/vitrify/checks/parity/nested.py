"""Nested: outputs that are no plain arrays (sequences, maps, ragged lists) as arrays that can be compared.

Such an output is an array of objects, each a list, a dict, an array or a scalar. It becomes two outputs:

* ``name[structure]``: text, which has to be equal: lengths, keys, shapes, and every value that is no float;
* ``name[values]``: the floats in order, which may differ by rounding; a last column adds up those beyond the width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from vitrify.core.protocols import Arrays, Session

_ROOM = 4
"""Columns for values, as a multiple of the most that a sample has."""


def widths(outputs: Arrays) -> dict[str, int]:
    """Return for each nested output how many columns of values it gets, from the answers to the samples."""
    nested = {name: array for name, array in outputs.items() if _is_nested(array)}
    return {
        name: _ROOM * max((sum(1 for _ in _floats(item)) for item in array.flat), default=1)
        for name, array in nested.items()
    }


class Flat:
    """A session whose nested outputs come as plain arrays."""

    def __init__(self, session: Session, widths: Mapping[str, int]) -> None:
        """Wrap a session; ``widths`` are those of :func:`widths`."""
        self._session, self._widths = session, widths
        self.signature = session.signature

    def run(self, inputs: Arrays) -> Arrays:
        """Predict."""
        outputs: Arrays = {}
        for name, array in self._session.run(inputs).items():
            outputs |= _flattened(name, array, self._widths[name]) if name in self._widths else {name: array}
        return outputs

    def predict(self, data: Any) -> Arrays:
        """Predict from any container; the outputs stay as they are."""
        return self._session.predict(data)

    def close(self) -> None:
        """Let go of the model."""
        self._session.close()


def _is_nested(array: NDArray[Any]) -> bool:
    return array.dtype.kind == "O" and any(isinstance(item, (list, tuple, dict, np.ndarray)) for item in array.flat)


def _flattened(name: str, array: NDArray[Any], width: int) -> Arrays:
    items = list(array.reshape(-1)) if array.dtype == object else [array]
    values = np.zeros((len(items), width + 1))
    for row, item in enumerate(items):
        floats = np.fromiter(_floats(item), np.float64)
        values[row, : min(len(floats), width)] = floats[:width]
        values[row, width] = floats[width:].sum()
    structure = np.array([_structure(item) for item in items], dtype=object)
    return {f"{name}[structure]": structure, f"{name}[values]": values}


def _floats(item: Any) -> Iterator[float]:
    match item:
        case np.ndarray() if item.dtype.kind == "f":
            yield from item.reshape(-1).tolist()
        case np.ndarray() if item.dtype.kind == "O":
            for inner in item.flat:
                yield from _floats(inner)
        case dict():
            for inner in item.values():
                yield from _floats(inner)
        case list() | tuple():
            for inner in item:
                yield from _floats(inner)
        case float() | np.floating():
            yield float(item)


def _structure(item: Any) -> str:  # noqa: PLR0911 (one case a type)
    match item:
        case np.ndarray() if item.dtype.kind == "f":
            return f"float{list(item.shape)}"
        case np.ndarray():
            return f"{list(item.shape)}{[_structure(inner) for inner in item.flat]}"
        case dict():
            return "{" + ", ".join(f"{key!r}: {_structure(inner)}" for key, inner in item.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(_structure(inner) for inner in item) + "]"
        case float() | np.floating():
            return "float"
        case np.generic():
            return repr(item.item())
        case _:
            return repr(item)
