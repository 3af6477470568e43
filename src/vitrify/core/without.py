"""Import a library without another that it would load only to see whether it is there."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def without(name: str) -> Iterator[None]:
    """Let an import of ``name`` fail while the block runs, unless it is loaded already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # Python's own way to say that there is no such module
    try:
        yield
    finally:
        del sys.modules[name]
