"""Material: what probes are made from, and how a probe is made by changing single columns of sample rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.checks.parity import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Field, Signature

MAX_COLUMNS = 64
"""Columns that are changed one by one; of a wider model, evenly spaced ones."""


@dataclass(frozen=True)
class Probe:
    """A named batch of input rows.

    Attributes:
        name: Where the rows come from.
        arrays: The rows.
        hint: What a difference that only this probe finds most likely means.
    """

    name: str
    arrays: Arrays
    hint: str = ""


@dataclass(frozen=True)
class Column:
    """A place of an input row that can be changed alone: a table's column, or one element of a tensor.

    Attributes:
        field: The input.
        index: Position in the flattened row; None where the field has one value a row.
        dtype: Type of its array.
    """

    field: Field
    index: int | None
    dtype: np.dtype[Any]

    @property
    def name(self) -> str:
        """The input's name, with the position in a tensor."""
        return self.field.name if self.index is None else f"{self.field.name}[{self.index}]"

    @property
    def kind(self) -> str:
        """``f`` float, ``i`` integer (signed or not), ``b`` boolean, ``t`` text, ``m`` time, ``?`` anything else."""
        kinds = {"f": "f", "i": "i", "u": "i", "b": "b", "m": "m", "M": "m", "U": "t"}
        if self.dtype.kind == "O":
            return "t" if self.field.dtype in {"string", "object"} else "?"
        return kinds.get(self.dtype.kind, "?")

    def read(self, arrays: Arrays) -> NDArray[Any]:
        """Return its values."""
        array = arrays[self.field.name]
        return array if self.index is None else array.reshape(len(array), -1)[:, self.index]

    def write(self, arrays: Arrays, values: Any, at: slice | NDArray[Any]) -> None:
        """Set its values in some rows of arrays that nobody else holds."""
        array = arrays[self.field.name]
        (array if self.index is None else array.reshape(len(array), -1)[:, self.index])[at] = values


@dataclass(frozen=True)
class Material:
    """The samples and how much may be made of them.

    Attributes:
        signature: The source's inputs.
        samples: At least one row.
        rows: Rows that all probes together should have.
        quota: Rows that one probe may have.
        seed: The same seed makes the same probes.
    """

    signature: Signature
    samples: Arrays
    rows: int
    seed: int

    @property
    def quota(self) -> int:
        """Rows that one probe may have, besides those that fill up the rest."""
        return max(self.rows // 16, 1)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are changed one by one."""
        found: list[Column] = []
        for field in self.signature.inputs:
            array = self.samples[field.name]
            width = math.prod(array.shape[1:])
            indices: list[int | None] = [None] if array.ndim == 1 else list(range(width))
            found += [Column(field, index, array.dtype) for index in indices]
        return tuple(found[i] for i in spread(len(found), MAX_COLUMNS))

    def rng(self, name: str) -> np.random.Generator:
        """Return the random numbers of one probe, which no other probe changes."""
        return np.random.default_rng([self.seed, *name.encode()])

    def base(self, name: str, count: int) -> Arrays:
        """Return that many sample rows, drawn at random, as fresh arrays."""
        count = max(count, 0)
        return rows.take(self.samples, self.rng(name).integers(0, rows.count(self.samples), count))

    def present(self, column: Column) -> NDArray[Any]:
        """Return a column's different sample values, sorted, without what is missing or infinite."""
        values = column.read(self.samples)
        values = np.ma.compressed(values) if isinstance(values, np.ma.MaskedArray) else values
        if column.kind == "f":
            values = values[np.isfinite(values)]
        if column.kind == "m":
            values = values[~np.isnat(values)]
        if column.kind == "t":
            return np.array(sorted({value for value in values.tolist() if isinstance(value, str)}), object)
        different: NDArray[Any] = np.unique(values)
        return different

    def change(self, name: str, changes: Sequence[tuple[Column, Sequence[Any]]], hint: str = "") -> Probe | None:
        """Return sample rows, each with one column set to one value; None where there is nothing to change.

        Rows are ordered by the values' positions, so that values which the source refuses lie together. Of more
        rows than the quota, evenly spaced ones are kept.
        """
        longest = max((len(values) for _, values in changes), default=0)
        pairs = [
            (column, values[position])
            for position in range(longest)
            for column, values in changes
            if position < len(values)
        ]
        pairs = [pairs[i] for i in spread(len(pairs), self.quota)]
        if not pairs:
            return None
        arrays = self.base(name, len(pairs))
        for column in {column.name: column for column, _ in pairs}.values():
            at = np.flatnonzero([other.name == column.name for other, _ in pairs])
            column.write(arrays, as_array([pairs[i][1] for i in at], column.dtype), at)
        return Probe(name, arrays, hint)


def deviation(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return the standard deviation of each element over the rows, without what is missing or infinite."""
    values = np.ma.getdata(array)
    finite = np.isfinite(values)
    values = np.where(finite, values, 0.0).astype(np.float64)
    largest = np.abs(values).max(axis=0, initial=0.0)
    unit = np.where(largest > 0, largest, 1.0)
    count = np.maximum(finite.sum(axis=0), 1)
    mean = (values / unit).sum(axis=0) / count
    square = np.where(finite, np.square(values / unit - mean), 0.0).sum(axis=0) / count
    spread: NDArray[np.float64] = unit * np.sqrt(square)
    return spread


def as_array(values: Sequence[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return values as an array of a column's type; ``numpy.ma.masked`` among them stays masked."""
    if any(value is np.ma.masked for value in values):
        mask = [value is np.ma.masked for value in values]
        data = np.array([0 if hidden else value for value, hidden in zip(values, mask, strict=True)], dtype)
        masked: NDArray[Any] = np.ma.MaskedArray(data, mask)
        return masked
    if dtype.kind == "O":
        array = np.empty(len(values), object)
        array[:] = values
        return array
    return np.array(values, dtype)


def spread(count: int, most: int) -> list[int]:
    """Return at most ``most`` evenly spaced indices below ``count``, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return [int(i) for i in np.unique(np.linspace(0, count - 1, most).astype(np.int64))]
