"""What a pickle's program asks for: the seam between the one loop and the two passes over it."""

from __future__ import annotations

from typing import Any, Protocol


class Hands(Protocol):
    """What makes and changes values."""

    def string(self, view: memoryview, start: int, end: int, kind: str) -> Any:
        """Return text or bytes: ``kind`` is ``str``, ``latin1`` (text of Python 2), ``bytes`` or ``bytearray``."""

    def find(self, module: Any, name: Any, at: int) -> Any:
        """Return the global of that name; the two are what stood on the stack."""

    def call(self, func: Any, args: Any, at: int) -> Any:
        """Return what a call returns."""

    def make(self, cls: Any, args: Any, kwargs: Any, at: int) -> Any:
        """Return a new instance whose constructor does not run."""

    def instance(self, cls: Any, args: tuple[Any, ...], at: int) -> Any:
        """Return what INST and OBJ make."""

    def build(self, instance: Any, state: Any, at: int) -> None:
        """Give an instance its state."""

    def dictionary(self, pairs: list[Any]) -> Any:
        """Return a dictionary of keys and values in turn."""

    def group(self, kind: str, items: list[Any]) -> Any:
        """Return a ``set`` or ``frozenset``."""

    def append(self, target: Any, items: list[Any]) -> None:
        """Add to what is no plain list."""

    def put(self, target: Any, pairs: list[Any]) -> None:
        """Put keys and values in turn into a dictionary."""

    def add(self, target: Any, items: list[Any]) -> None:
        """Add to a set."""

    def persistent(self, pid: Any, at: int) -> Any:
        """Return what a persistent id stands for."""

    def strange(self, rule: str, what: str, at: int) -> Any:
        """Return something to stand for what no pickle may use here, or refuse it."""

    def built(self, instance: Any, state: Any, at: int) -> tuple[Any, int] | None:
        """Ask the dialect, as :meth:`vitrify.pickles.dialect.Dialect.built`."""
