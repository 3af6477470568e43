"""What an expression is once it is compiled, and which symbols it can see.

Symbols live in slots of a frame, a list that each call of the action or of a function has for itself. An inline
function has slots in the frame that it stands in, so it sees what is around it; it may not change that.

Source: https://dmg.org/pfa/docs/symbols_scope/
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from vitrify.runtimes._pfa.types import Type

Frame = list[Any]
Run = Callable[[Frame], Any]


@dataclass(frozen=True)
class Expression:
    """A compiled expression.

    Attributes:
        type: What it gives.
        run: Gives it, in a frame.
        constant: Whether it is a literal.
    """

    type: Type
    run: Run
    constant: bool = False


@dataclass
class Size:
    """How many slots a frame needs; counted while it is compiled."""

    slots: int = 0


@dataclass
class Scope:
    """Symbols of a block, with those of the blocks around it.

    Attributes:
        size: The frame's.
        parent: The block around it.
        sealed: Whether what is around it may be read, but not changed.
        symbols: Slot and type by name.
    """

    size: Size
    parent: Scope | None = None
    sealed: bool = False
    symbols: dict[str, tuple[int, Type]] = field(default_factory=dict)

    def inner(self, *, sealed: bool = False) -> Scope:
        """Return a block in this one."""
        return Scope(self.size, self, sealed)

    def find(self, name: str) -> tuple[int, Type] | None:
        """Return where a symbol is and its type."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.symbols:
                return scope.symbols[name]
            scope = scope.parent
        return None

    def declare(self, name: str, type_: Type, where: str) -> int:
        """Return the slot of a new symbol.

        Raises:
            MalformedError: It is there already, or its name is no text.
        """
        if not isinstance(name, str):
            refuse(where, f"{name!r:.80} is no name of a symbol")
        if self.find(name) is not None:
            refuse(where, f"the symbol {name!r:.80} is there already")
        slot = self.size.slots
        self.size.slots += 1
        self.symbols[name] = (slot, type_)
        return slot

    def changeable(self, name: str, where: str) -> tuple[int, Type]:
        """Return where a symbol is that is to be changed.

        Raises:
            MalformedError: There is none, or only outside the function.
        """
        scope: Scope | None = self
        while scope is not None and name not in scope.symbols:
            scope = None if scope.sealed else scope.parent
        if scope is None:
            refuse(where, f"no symbol {name!r:.80} that can be set here")
        return scope.symbols[name]
