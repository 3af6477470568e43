"""How deep a value is nested, and how large it would be if nothing in it were shared.

Building it needs neither; but to show, to compare or to copy such a value takes a C stack or a time without end, for
whoever loads it. An object ends the count: its class decides how it is compared.
"""

from __future__ import annotations

from typing import Any

from vitrify.pickles.inert import Call, Dict, Group, parts
from vitrify.reading.malformed import exceed

MAX_DEPTH = 2000
"""CPython's pickler itself gives up at half of it, unless it was told otherwise."""
MAX_UNFOLDED = 10**10

_HOLD = frozenset({list, tuple, Dict, Group, Call})


def check(root: Any, *, where: str) -> None:
    """Go through a finished inert value once, without recursion.

    Raises:
        LimitExceededError: It is nested too deep, or doubles too often.
    """
    if type(root) not in _HOLD:
        return
    sizes: dict[int, int] = {}
    path: list[tuple[Any, list[Any], int]] = []  # what is open, its containers that are still to come, its leaves
    _open(root, path, sizes)
    while path:
        value, waiting, leaves = path[-1]
        if len(path) > MAX_DEPTH:
            exceed(where, f"values nested more than {MAX_DEPTH} levels deep")
        if waiting:
            part = waiting.pop()
            if id(part) not in sizes:
                _open(part, path, sizes)
            continue
        path.pop()
        total = leaves + sum(sizes[id(part)] for part in parts(value) if type(part) in _HOLD)
        if total > MAX_UNFOLDED:
            exceed(where, f"values that share each other until they count more than {MAX_UNFOLDED}")
        sizes[id(value)] = 1 if type(value) is Call else total


def _open(value: Any, path: list[tuple[Any, list[Any], int]], sizes: dict[int, int]) -> None:
    held = parts(value)
    containers = [part for part in held if type(part) in _HOLD]
    sizes[id(value)] = 1  # while it is open, so that a circle ends
    path.append((value, containers, 1 + len(held) - len(containers)))
