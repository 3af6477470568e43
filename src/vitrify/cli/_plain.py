"""Text from strangers, made safe to print."""

from __future__ import annotations


def plain(text: object) -> str:
    """Return text that cannot steer a terminal, forge a line or turn the reading direction."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(text))
