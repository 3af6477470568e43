"""Rows that the prediction log keeps: copied from a batch, and the table of columns that many of them make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.core.protocols import Arrays
    from vitrify.serve.values import Done, Part

    Array = np.ndarray[Any, Any]

Layout = tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """Some requests of one batch.

    Attributes:
        time: When they were answered, by ``time.time()``.
        model: Which model.
        version: Which version of it.
        digest: The artifact's.
        parts: The requests.
        whole: Whether the arrays know no rows: then there is one request, and they are all of it.
        inputs: Of all rows.
        outputs: Likewise.
        bytes: That they hold.
    """

    time: float
    model: str
    version: str
    digest: str
    parts: tuple[Part, ...]
    whole: bool
    inputs: Arrays
    outputs: Arrays
    bytes: int

    @property
    def rows(self) -> int:
        """How many rows of a table it makes."""
        return 1 if self.whole else sum(part.rows for part in self.parts)

    @property
    def key(self) -> tuple[str, str, str, bool, Layout, Layout]:
        """What two must have in common to stand in one file."""
        return self.model, self.version, self.digest, self.whole, _layout(self.inputs), _layout(self.outputs)


def knows_rows(done: Done) -> bool:
    """Whether every array of a batch has the rows of its parts, one after the other."""
    total = sum(part.rows for part in done.parts)
    return all(array.ndim and array.shape[0] == total for array in (*done.inputs.values(), *done.outputs.values()))


def copied(arrays: Arrays, parts: Sequence[Part], wanted: Sequence[bool]) -> Arrays:
    """Return copies of the rows of the parts that are wanted."""
    if all(wanted):
        return {name: array.copy() for name, array in arrays.items()}
    rows = np.repeat(np.asarray(wanted, bool), [part.rows for part in parts])
    return {name: array[rows] for name, array in arrays.items()}


def _layout(arrays: Arrays) -> Layout:
    """Return what decides the type of each column; text of any length is the same."""
    return tuple(
        (name, "O" if array.dtype.kind in "OUST" else str(array.dtype), array.ndim) for name, array in arrays.items()
    )
