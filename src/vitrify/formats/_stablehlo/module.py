"""What a module holds, however it was written: functions, their ports, and operations with the regions inside them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

Shape = tuple["int | str | None", ...]


class Type(NamedTuple):
    """A type: of a tensor the element type and the shape; of anything else its name, and no shape."""

    name: str
    shape: Shape | None = None


class Port(NamedTuple):
    """A value by name, and its type."""

    name: str
    type: Type


@dataclass(slots=True)
class Body:
    """A region: what it takes, and what it does in order."""

    arguments: list[Port] = field(default_factory=list)
    operations: list[Op] = field(default_factory=list)

    def walk(self) -> Iterator[Op]:
        """Yield every operation, those of inner regions too."""
        for operation in self.operations:
            yield operation
            for region in operation.regions:
                yield from region.walk()


@dataclass(slots=True)
class Op:
    """One operation.

    Attributes:
        name: With its dialect, as text has it: ``stablehlo.add``.
        target: Of a custom call, what it calls; None where it is one but its target cannot be told.
        call: The function that it calls, empty for none.
    """

    name: str
    results: list[Port]
    operands: list[str]
    regions: list[Body]
    target: str | None = ""
    call: str = ""


@dataclass(slots=True)
class Function:
    """A function of the module."""

    name: str
    visibility: str
    outputs: list[Type]
    body: Body


@dataclass(slots=True)
class Module:
    """A whole module; ``others`` are the operations at its top that are no functions."""

    name: str
    version: str
    producer: str
    dialects: list[str]
    functions: list[Function]
    others: list[Op]

    @property
    def main(self) -> Function | None:
        """The function that is called from outside: ``main``, or the first public one."""
        public = [one for one in self.functions if one.visibility in {"", "public"}]
        return next((one for one in self.functions if one.name == "main"), public[0] if public else None)

    def walk(self) -> Iterator[Op]:
        """Yield every operation of every function."""
        for function in self.functions:
            yield from function.body.walk()
        for one in self.others:
            yield one
            for region in one.regions:
                yield from region.walk()


def is_custom_call(name: str) -> bool:
    """Say whether an operation of that name calls code that is not in the module, in whatever dialect or version."""
    return "custom_call" in name
