"""Places: where in a file, in a file within a file, in a directory. ``models/a.zip!data.pkl:opcode 12``."""

from __future__ import annotations

HELD = "!"
"""Stands between a file and what it holds."""


def under(place: str, name: str) -> str:
    """Return the place of a file of a directory."""
    return f"{place}/{name}" if place and name else place or name


def within(place: str, name: str | None, inner: str) -> str:
    """Return the place of something in a file or a directory.

    Args:
        place: Where the file or the directory is.
        name: What the file is called there, None for a directory.
        inner: What its format says: it may begin with the file's name, which ``place`` already ends in.
    """
    if name is None:
        return under(place, inner)
    rest = inner.removeprefix(name)
    if inner.startswith(name) and rest[:1] in {"", ":", HELD, " "}:
        return place + rest
    return f"{place}: {inner}" if inner else place


def part(place: str, name: str | None, inner: str) -> str:
    """Return the place of what a file holds, or of a file of a directory; arguments as for :func:`within`."""
    if name is None:
        return under(place, inner)
    rest = inner.removeprefix(name)
    inside = rest.lstrip(f"{HELD}: ") if rest[:1] in {HELD, ":"} else inner
    return f"{place}{HELD}{inside}"


def file_of(place: str) -> tuple[str, str]:
    """Return the file on disk that a place is in, and where in it."""
    for at, sign in enumerate(place):
        if sign == HELD or (sign == ":" and at > 1):
            return place[:at], place[at:].lstrip(":! ")
    return place, ""
