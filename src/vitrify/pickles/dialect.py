"""Dialects: what a library adds to plain pickles, and what an older version of a library means today.

A dialect is made for one file and used for both passes over it. In the first nothing is imported and every value is
inert (:mod:`vitrify.pickles.inert`); in the second the values are live. Where a method serves both passes, an inert
value (``inert.is_inert``) tells them apart. A dialect may raise any error of :mod:`vitrify.core.errors`.

A subclass changes what it has to; everything here is neutral.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from vitrify.pickles import inert
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Nested:
    """What :meth:`Dialect.built` returns where another pickle follows: the machine runs it, with a memo of its own.

    In the first pass ``then`` gets the other pickle's inert value, in the second the live one; what it returns stands
    on the stack. Reading goes on behind the other pickle's STOP.
    """

    def __init__(self, then: Callable[[Any], Any]) -> None:
        """Take what to make of its value."""
        self.then = then


class Dialect:
    """A plain pickle: no persistent ids, no bytes between the opcodes, today's names."""

    constructors: Mapping[str, Callable[..., Any]] = MappingProxyType({})
    """By dotted name: a function of ours that stands in for it when the pickle calls it. Trusted by that, for calls
    only; what the name stands for is not imported. Its arguments are live and from a stranger: it checks them. A
    class of ours may stand here for one of theirs that is made without its constructor; it is then trusted for
    ``state`` too, and BUILD calls its ``__setstate__``."""

    refers: frozenset[str] = frozenset()
    """Dotted names that may stand as values, and are never called by the pickle. When live, each is what
    ``constructors`` has for it, or else what is found under that name here."""

    checks: Mapping[str, Callable[[Any], None]] = MappingProxyType({})
    """By dotted name of a class: a function that gets its live state before the class does, and raises
    MalformedError where native code would break on it. What holds a native model (``building.NATIVE``) is loaded only
    with such a check; :mod:`vitrify.formats._boosters` has them."""

    def rename(self, module: str, name: str) -> tuple[str, str] | None:  # noqa: ARG002 (neutral)
        """Return today's module and name of what has moved; None where it has not.

        Called for each global in both passes, after the names of Python 2 were translated. What it returns is what
        is decided on and what is loaded.
        """
        return None

    def persistent(self, pid: Any) -> Any:
        """Return what a persistent id stands for.

        In the first pass ``pid`` is inert (a tuple or text, globals in it are ``inert.Global``): check it, and return
        any token to stand in the tree. In the second it is live: return the object.

        Raises:
            MalformedError: This dialect has no such ids.
        """
        refuse("pickle", f"a persistent id ({inert.shown(pid)}), which only the program that wrote it could resolve")

    @property
    def persists(self) -> bool:
        """Whether persistent ids are known here; where not, each is a finding and :meth:`persistent` is not asked."""
        return type(self).persistent is not Dialect.persistent

    def built(self, instance: Any, state: Any, view: memoryview, at: int) -> tuple[Any, int] | None:  # noqa: ARG002 (neutral)
        """Replace what BUILD has just made, and go on reading elsewhere; None leaves all as it is.

        Args:
            instance: The object; in the first pass its ``inert.Call``.
            state: What BUILD gave to it; in the first pass inert, mostly an ``inert.Dict``.
            view: The whole file.
            at: Where the next opcode stands.

        Returns:
            What stands on the stack instead (or a :class:`Nested`, for what stands there), and where the next opcode
            stands: not before ``at``, not behind the end. Both passes have to give the same place.
        """
        return None

    def migrate(self, cls: str, state: Any) -> Any:  # noqa: ARG002 (neutral)
        """Return the live state that today's version of a class expects.

        Called in the second pass for each BUILD, before the state is given.

        Args:
            cls: The class's dotted name, today's.
            state: What the pickle holds.

        Raises:
            MalformedError: This state cannot be mapped; the message says which version wrote it and what to do.
        """
        return state


PLAIN = Dialect()
