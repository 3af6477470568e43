"""Probes of what is missing: NaN, None and masked, each where a column can hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vitrify.checks.parity.probes.material import Probe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from vitrify.checks.parity.probes.material import Column, Material

_HINT = "missing values go another way"
_SHARE = 0.3
"""Of the values of a row with holes."""


def probes(material: Material) -> Iterator[Probe | None]:
    """Yield rows with one value missing, and rows with many; the source may refuse them."""
    kinds: list[tuple[str, Any, list[Column]]] = [
        ("missing: NaN", np.nan, [c for c in material.columns if c.kind == "f" or _text(c)]),
        ("missing: None", None, [c for c in material.columns if _text(c)]),
        ("missing: masked", np.ma.masked, [c for c in material.columns if c.kind in "ib" and c.field.nullable]),
        ("missing: NaT", "NaT", [c for c in material.columns if c.kind == "m" and c.field.nullable]),
    ]
    for name, value, columns in kinds:
        repeats = max(1, min(8, material.quota // max(len(columns), 1)))
        yield _changed(material, name, columns, [value] * repeats)
        yield _holes(material, f"{name}, many", value, columns)


def _text(column: Column) -> bool:
    return column.kind == "t" and column.dtype.kind == "O"


def _changed(material: Material, name: str, columns: list[Column], values: Sequence[Any]) -> Probe | None:
    masked = _masked(material, columns) if values[0] is np.ma.masked else material
    return masked.change(name, [(column, values) for column in columns], _HINT)


def _holes(material: Material, name: str, value: Any, columns: list[Column]) -> Probe | None:
    if not columns:
        return None
    source = _masked(material, columns) if value is np.ma.masked else material
    arrays = source.base(name, source.quota)
    rng = source.rng(name + " where")
    for column in columns:
        at = np.flatnonzero(rng.random(source.quota) < _SHARE)
        column.write(arrays, value, at)
    return Probe(name, arrays, _HINT)


def _masked(material: Material, columns: list[Column]) -> Material:
    """Return the same material with masked arrays where values are to be masked."""
    names = {column.field.name for column in columns}
    samples = {
        name: np.ma.MaskedArray(np.ma.getdata(array), np.ma.getmaskarray(array)) if name in names else array
        for name, array in material.samples.items()
    }
    return type(material)(material.signature, samples, material.rows, material.seed)
