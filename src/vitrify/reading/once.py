"""What is made of some bytes once, while they are at hand: whoever looks at them asks the same questions."""

from __future__ import annotations

import weakref
from functools import wraps
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")


def once(make: Callable[[memoryview, str], _T]) -> Callable[[memoryview, str], _T]:
    """Keep what a function makes of a view and its name for as long as the caller keeps that view.

    What it raises is not kept. It gets a view of the view: what it makes may hold on to that without keeping its own
    key alive.
    """
    kept: dict[int, tuple[weakref.ref[memoryview], str, _T]] = {}

    @wraps(make)
    def ask(view: memoryview, where: str) -> _T:
        key = id(view)
        found = kept.get(key)
        if found is None or found[0]() is not view or found[1] != where:
            made = make(view[:], where)
            found = kept[key] = weakref.ref(view, lambda _: kept.pop(key, None) and None), where, made
        return found[2]

    return ask
