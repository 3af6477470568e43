"""Progress of long work, without knowing who shows it.

A worker writes ``with track("hashing", total=n) as bar: ... bar.advance(k)``. Whoever has a screen installs a
renderer with :func:`show`; without one, nothing is done.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class Bar(Protocol):
    """One line of progress."""

    def advance(self, amount: int = 1) -> None:
        """Say that ``amount`` more units are done."""


class Renderer(Protocol):
    """Something that can show bars."""

    def start(self, label: str, total: int | None) -> Bar:
        """Show a new bar; ``total`` is None where the end is not known."""

    def finish(self, bar: Bar) -> None:
        """Take the bar away."""


class _Silent:
    def advance(self, amount: int = 1) -> None:
        """Do nothing."""


_renderer: ContextVar[Renderer | None] = ContextVar("vitrify_progress", default=None)


@contextmanager
def track(label: str, total: int | None = None) -> Iterator[Bar]:
    """Show that ``label`` is going on while the block runs."""
    renderer = _renderer.get()
    if renderer is None:
        yield _Silent()
        return
    bar = renderer.start(label, total)
    try:
        yield bar
    finally:
        renderer.finish(bar)


@contextmanager
def show(renderer: Renderer) -> Iterator[None]:
    """Send all progress of the block to a renderer."""
    token = _renderer.set(renderer)
    try:
        yield
    finally:
        _renderer.reset(token)
