"""Threads: how many a runtime may use inside one run, said by whoever opens a session.

>>> with threads(1):
...     session = artifact.session()                                  # doctest: +SKIP

A server runs many models and requests side by side: one thread a run, and none that spins while it waits, is then the
most work for the machine. A runtime that has no such setting does as it always does.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_WANTED: ContextVar[int] = ContextVar("threads", default=0)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let every session that is opened in this block use so many threads a run; 0 leaves it to the runtime."""
    token = _WANTED.set(count)
    try:
        yield
    finally:
        _WANTED.reset(token)


def wanted() -> int:
    """Return how many threads the session that is being opened may use; 0 is the runtime's own choice."""
    return _WANTED.get()
