"""What a file says about itself, on a terminal: the keys that all formats share as tables, the rest as a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from vitrify.cli._plain import plain
from vitrify.cli._render import show_facts, show_table, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_OPERATORS, _TENSORS, _PORTS, _ITEMS = 15, 20, 40, 40
"""Rows that are shown of each table, without ``--all``."""
_WIDEST = 160
_BAR = 30
_HEADER = ("format", "producer", "versions", "library", "class", "classes", "license", "quantisation")
_TABLES = ("inputs", "outputs", "tensors", "operators", "precision", "metadata", "needs", "code", "parameters", "bytes")


def show_about(about: Mapping[str, Any], *, whole: bool = False) -> None:
    """Print what ``describe`` returned; ``whole`` leaves no row out."""
    show_facts([*_header(about), *_rest(about, whole=whole)])
    for name in ("inputs", "outputs"):
        if about.get(name):
            _table(name.capitalize(), ("name", "type", "shape"), _ports(about[name]), _PORTS, whole=whole)
    if operators := about.get("operators"):
        rows = sorted(operators.items(), key=lambda row: (-row[1], row[0]))
        _table(
            f"Operators: {sum(operators.values())} of {len(operators)} kinds",
            ("", "count"),
            rows,
            _OPERATORS,
            whole=whole,
        )
    if precision := about.get("precision"):
        _precision(precision)
    if tensors := about.get("tensors"):
        rows = [(one["name"], one["type"], _shape(one.get("shape")), size(one.get("bytes", 0))) for one in tensors]
        _table(f"Tensors: {len(tensors)}", ("name", "type", "shape", "size"), rows, _TENSORS, whole=whole)
    if metadata := about.get("metadata"):
        _table("Metadata", ("key", "value"), list(_flat(metadata)), _ITEMS, whole=whole)


def _header(about: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for key in _HEADER:
        if (value := about.get(key)) not in (None, "", [], {}):
            yield key, _text(value)
    if "parameters" in about:
        yield "parameters", f"{about['parameters']:,}"
    if "bytes" in about:
        yield "bytes", size(about["bytes"])
    if about.get("code"):
        yield "code", click.style("using it runs code that is in it", fg="yellow")
    for one in about.get("needs") or ():
        yield "needs", _cut(plain(one))


def _rest(about: Mapping[str, Any], *, whole: bool) -> list[tuple[str, str]]:
    known = {*_HEADER, *_TABLES}
    rows = list(_flat({key: value for key, value in about.items() if key not in known}))
    return rows if whole or len(rows) <= _ITEMS else [*rows[:_ITEMS], ("...", f"{len(rows) - _ITEMS} more: --all")]


def _table(title: str, columns: Sequence[str], rows: list[Any], most: int, *, whole: bool) -> None:
    shown = rows if whole else rows[:most]
    click.echo(f"\n{click.style(title, italic=True)}")
    show_table(columns, [[_cut(plain(cell)) for cell in row] for row in shown])
    if len(shown) < len(rows):
        click.echo(f"... and {len(rows) - len(shown)} more: --all")


def _ports(ports: Iterable[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    return [(one["name"], one["type"], _shape(one.get("shape"))) for one in ports]


def _shape(shape: Sequence[Any] | None) -> str:
    return "unknown" if shape is None else f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


def _precision(precision: Mapping[str, int]) -> None:
    total = sum(precision.values()) or 1
    rows = [
        (kind, "█" * max(1, round(_BAR * count / total)), f"{count / total:.1%}", f"{count:,}")
        for kind, count in precision.items()
    ]
    _table("Precision", ("type", "", "share", "elements"), rows, len(rows), whole=True)


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    """Yield nested facts as ``a.b`` and text."""
    for key, item in value.items():
        name = f"{prefix}{plain(key)}"
        if isinstance(item, dict) and item:
            yield from _flat(item, f"{name}.")
        elif isinstance(item, list) and len(item) > 1 and all(isinstance(one, dict) for one in item):
            yield name, f"{len(item)} of {{{', '.join(map(plain, item[0]))}}}: --json"
        elif item not in (None, "", [], {}):
            yield name, _text(item)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return _cut(", ".join(f"{plain(key)} {plain(item)}" for key, item in value.items()))
    if isinstance(value, list):
        return _cut(", ".join(plain(item) for item in value))
    return _cut(plain(value))


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."
