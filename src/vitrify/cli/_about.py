"""What a file says about itself, on a terminal: the keys that all formats share as tables, the rest as a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from vitrify.cli._plain import plain
from vitrify.cli._render import show_facts, show_table, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_OPERATORS, _TENSORS, _PORTS, _ITEMS = 15, 20, 40, 40
"""Rows that are shown of each table, without ``--all``."""
_WIDEST = 160
_BAR = 30
_PAIR = 2
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
            ("operator", "count"),
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
        elif _are(item, _is_named) or (_are(item, _is_dict) and len(item) == 1):
            yield from _flat(item[0] if _is_dict(item[0]) else dict(item), f"{name}.")
        elif _are(item, _is_dict):
            yield name, f"{len(item)} of {{{', '.join(map(plain, item[0]))}}}: --json"
        elif item not in (None, "", [], {}):
            yield name, _text(item)


def _are(value: Any, kind: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and bool(value) and all(map(kind, value))


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


def _is_named(value: Any) -> bool:
    """Say whether it is a pair of a name and what that stands for, as the steps of a pipeline are."""
    return isinstance(value, list) and len(value) == _PAIR and isinstance(value[0], str) and _is_dict(value[1])


def _text(value: Any) -> str:
    return _cut(_inline(value))


def _inline(value: Any, *, inside: bool = False) -> str:
    """Return a nested value on one line, in words and brackets."""
    if isinstance(value, dict):
        line = ", ".join(f"{plain(key)} {_inline(item, inside=True)}" for key, item in value.items())
        return f"({line})" if inside else line
    if isinstance(value, list):
        line = ", ".join("?" if item is None else _inline(item, inside=True) for item in value)
        return f"[{line}]" if inside else line
    return plain(value)


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."
