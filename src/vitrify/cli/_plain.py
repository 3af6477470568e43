"""Text from strangers, made safe to print."""

from __future__ import annotations

import re

_UNUSUAL = re.compile(r"[^\n\x20-\x7e]")


def plain(text: object) -> str:
    """Return text that cannot steer a terminal, forge a line or turn the reading direction."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(text))


def plain_lines(text: str) -> str:
    """Return text of several lines, each of them made safe."""
    return "\n".join(map(plain, text.split("\n")))


def plain_json(text: str) -> str:
    """Return JSON of the same value, in which what could steer a terminal or turn the reading direction is escaped."""
    return _UNUSUAL.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    if char.isprintable():
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
