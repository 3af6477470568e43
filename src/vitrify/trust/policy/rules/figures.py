"""Comparing one value with what a policy wants of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from vitrify.core.errors import MalformedError
from vitrify.trust.policy.fields import finite, shown

if TYPE_CHECKING:
    from vitrify.trust.policy.fields import Fields


@dataclass(frozen=True)
class Wanted:
    """What one value must be; NaN, infinities, true and false are no number that satisfies a bound.

    Attributes:
        equals: Exactly this, of the same type.
        at_least: A number from this on.
        at_most: A number up to this.
    """

    equals: str | float | bool | None = None
    at_least: float | None = None
    at_most: float | None = None

    @classmethod
    def bounds(cls, fields: Fields) -> Self:
        """Read ``at-least`` and ``at-most``, of which one must be there.

        Raises:
            MalformedError: Neither is there, or no number is in both.
        """
        low, high = fields.number("at-least"), fields.number("at-most")
        if low is None and high is None:
            msg = f"{fields.place}: nothing is wanted of it, expected at-least or at-most"
            raise MalformedError(msg)
        if low is not None and high is not None and low > high:
            raise fields.wrong("at-least", f"at most {high:g}, which is at-most")
        return cls(None, low, high)

    @classmethod
    def any_of(cls, fields: Fields) -> Self:
        """Read ``equals`` or the bounds."""
        return cls(equals=fields.value("equals")) if fields.has("equals") else cls.bounds(fields)

    def __str__(self) -> str:
        """Return what is wanted."""
        if self.equals is not None:
            return f"= {shown(self.equals)}"
        low = [] if self.at_least is None else [f">= {self.at_least:g}"]
        high = [] if self.at_most is None else [f"<= {self.at_most:g}"]
        return " and ".join([*low, *high])

    def met(self, value: Any) -> bool:
        """Say whether a value is what is wanted."""
        number = finite(value)
        if isinstance(self.equals, bool | str):
            return type(value) is type(self.equals) and bool(value == self.equals)
        if number is None:
            return False
        if self.equals is not None:
            return number == self.equals
        above = self.at_least is None or number >= self.at_least
        return above and (self.at_most is None or number <= self.at_most)
