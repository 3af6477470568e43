"""Steps from an older state to today's: each is a small function for some classes, up to a version.

A step is given the attributes of one instance as a dict, and changes it in place. It is taken where the release that
wrote the state is older than the step's; what follows from the state's own shape needs no version.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

State = dict[str, Any]
Version = tuple[int, int]
Step = "Callable[[State], None]"

UNKNOWN: Version = (0, 17)
"""Releases before 0.18 did not say which they are."""

ALWAYS: Version = (1 << 16, 0)

_STEPS: dict[str, list[tuple[Version, Callable[[State], None]]]] = {}


def step(*classes: str, before: Version = ALWAYS) -> Callable[[Callable[[State], None]], Callable[[State], None]]:
    """Register a function for these classes (dotted, below ``sklearn``), for states older than a release."""

    def register(function: Callable[[State], None]) -> Callable[[State], None]:
        for cls in classes:
            _STEPS.setdefault(f"sklearn.{cls}", []).append((before, function))
        return function

    return register


def take(cls: str, state: State, version: Version) -> None:
    """Take all steps of a class that are newer than a version, in the order in which they are registered."""
    for before, function in _STEPS.get(cls, ()):
        if version < before:
            function(state)


def parsed(version: Any) -> Version:
    """Return the first two numbers of a version."""
    found = re.match(r"([0-9]{1,4})\.([0-9]{1,4})", version) if isinstance(version, str) else None
    return (int(found[1]), int(found[2])) if found else UNKNOWN


def move(state: State, **names: str) -> None:
    """Give attributes (left) to the names of today (right) that are not there yet."""
    for old, new in names.items():
        if old in state:
            value = state.pop(old)
            state.setdefault(new, value)


def reword(state: State, parameter: str, words: dict[str, Any]) -> None:
    """Replace a parameter's old value with the one that means the same today."""
    value = state.get(parameter)
    if type(value) is str and value in words:
        state[parameter] = words[value]
