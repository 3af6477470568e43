"""Probes of text and categories: what a tokeniser, a case rule or a category table may treat another way."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from vitrify.checks.parity.probes.material import spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.checks.parity.probes.material import Column, Material, Probe

_UNSEEN = ("zzz", "unseen category", "0", "-1", "None", "nan", "NaN", "null", "")
_UNUSUAL = (
    *(" ", "\t\n", "a", "I", "1", "!", "a.b,c;d!e?", "under_score", "it's e-mail: a@b.co", "3.14 1,000 1e5"),
    *("Straße", "STRASSE", "İstanbul", "ıI", "ΣΊΣΥΦΟΣ ς", "na\u00efve", "nai\u0308ve", "ﬁne", "Ǆungla"),  # noqa: RUF001 (meant)
    *("שלום עולם", "مرحبا", "日本語 テスト", "👩‍👩‍👧 ok 🙂", "a\u00a0b\u2009c", "a\u200bb", "\ufeffbom", "x" * 2000),
    "word " * 400,
)
_SAMPLES = 12
"""Sample values of a column that are rewritten."""

_RARE = 8


def probes(material: Material) -> Iterator[Probe | None]:
    """Yield the probes of every text and category column."""
    texts = [column for column in material.columns if column.kind == "t"]
    free = [column for column in texts if column.field.categories is None]
    yield material.change(
        "unseen categories",
        [(column, _unseen(column)) for column in material.columns if column in texts or column.field.categories],
        "a category that training did not see, or the text of a missing value, is treated another way",
    )
    yield material.change(
        "rare categories",
        [
            (column, _rare(material, column))
            for column in material.columns
            if column in texts or column.field.categories
        ],
        "a rare category is left out or merged with another",
    )
    yield material.change(
        "unusual text",
        [(column, _UNUSUAL) for column in free],
        "text outside ASCII, white space or length is treated another way",
    )
    yield material.change(
        "rewritten text",
        [(column, [r for value in _some(material, column) for r in _rewritten(value)]) for column in free],
        "letter case, white space or the cut between words is treated another way",
    )


def _unseen(column: Column) -> list[Any]:
    if column.kind == "t":
        return [value for value in _UNSEEN if value not in (column.field.categories or ())]
    known = [value for value in column.field.categories or () if isinstance(value, int)]
    return [max(known) + 1, min(known) - 1] if known and column.kind == "i" else []


def _rare(material: Material, column: Column) -> list[Any]:
    """Return the least frequent sample values, and every category that the signature has."""
    counts = Counter(v for v in column.read(material.samples).tolist() if isinstance(v, str | int))
    rare = [value for value, _ in counts.most_common()[: -_RARE - 1 : -1]]
    categories = [] if column.field.categories is None else [c for c in column.field.categories if c is not None]
    return [*rare, *(categories[i] for i in spread(len(categories), material.quota))]


def _some(material: Material, column: Column) -> list[str]:
    values = material.present(column).tolist()
    return [values[i] for i in spread(len(values), _SAMPLES)]


def _rewritten(value: str) -> list[str]:
    words = value.split()
    return [
        *(value.upper(), value.lower(), value.swapcase(), f" {value}\t", value[:1], value[: len(value) // 2]),
        *(f"{value} {value}", f"{value}É", f"É{value}".upper(), "-".join(words), "".join(reversed(value))),
    ]
