"""Globs in SQL: ``*`` is any text, ``?`` any character, and nothing else means anything."""

from __future__ import annotations

ESCAPE = "\\"


def as_like(glob: str) -> str:
    """Return the LIKE pattern of a glob, to be used with ``escape=ESCAPE``."""
    for special in (ESCAPE, "%", "_"):
        glob = glob.replace(special, ESCAPE + special)
    return glob.replace("*", "%").replace("?", "_")
