"""What cannot be traced: refused with the operation and the line of the user's own code that asked for it."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from vitrify.core.errors import UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_LIBRARIES = ("vitrify.transforms.", "numpy.", "pandas.", "scipy.", "sklearn.", "contextlib.")
_raised: ContextVar[list[UnsupportedModelError] | None] = ContextVar("_raised", default=None)


@contextmanager
def watching() -> Iterator[list[UnsupportedModelError]]:
    """Yield the list of what is refused in the block, also where the user's own code swallows the exception."""
    found: list[UnsupportedModelError] = []
    token = _raised.set(found)
    try:
        yield found
    finally:
        _raised.reset(token)


class _NoAttributeError(UnsupportedModelError, AttributeError):
    """What a stand-in does not have: an answer to ``hasattr``, and a refusal where nobody asks first."""


def no_attribute(operation: str, remedy: str) -> NoReturn:
    """Refuse an attribute, in a way that ``hasattr`` takes for no.

    Raises:
        AttributeError: Always.
    """
    msg = f"{_place()} {operation}"
    raise _NoAttributeError(msg, remedy=remedy)


def untraceable(operation: str, remedy: str) -> NoReturn:
    """Refuse one operation of the user's code.

    Args:
        operation: What it does, continuing "line 3 of f ...".
        remedy: What to write instead.

    Raises:
        UnsupportedModelError: Always; the message names function, file and line.
    """
    error = UnsupportedModelError(f"{_place()} {operation}", remedy=remedy)
    found = _raised.get()
    if found is not None:
        found.append(error)
    raise error


def _place() -> str:
    """Return the innermost line that is no library's."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 (the one way to the caller's line that builds no traceback)
    while frame is not None:
        if not f"{frame.f_globals.get('__name__', '')}.".startswith(_LIBRARIES):
            code = frame.f_code
            return f"{code.co_qualname} ({Path(code.co_filename).name}, line {frame.f_lineno})"
        frame = frame.f_back
    return "it"
