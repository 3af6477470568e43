"""Rules about what the registry knows of a version: its stage, its status, its licence and its tags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from vitrify.core.errors import MalformedError
from vitrify.trust.policy.fields import near, shown
from vitrify.trust.policy.rules._rule import Answer, Rule

if TYPE_CHECKING:
    from vitrify.trust.policy.case import Case
    from vitrify.trust.policy.facts import Facts
    from vitrify.trust.policy.fields import Fields

_STATUSES = ("active", "deprecated", "yanked")


@dataclass(frozen=True)
class _OneOf(Rule):
    """One fact is in a list, exactly.

    Attributes:
        allowed: What it may be.
    """

    allowed: tuple[str, ...]

    @classmethod
    def parse(cls, fields: Fields) -> Self:
        """Read ``in``."""
        return cls(fields.texts("in"))

    def ask(self, case: Case) -> Answer:
        """Look whether it is one of them."""
        value = self.fact(case.facts)
        expected = f"{self.name} is one of: {', '.join(self.allowed)}"
        return Answer(value in self.allowed, f"{self.name} is {shown(value)}", expected, self.remedy)

    remedy: ClassVar[str]

    def fact(self, facts: Facts) -> str | None:
        """Return what it is about."""
        raise NotImplementedError


class Stage(_OneOf):
    """The stage that the version is in now."""

    name = "stage"
    remedy = "promote it to that stage first"

    def fact(self, facts: Facts) -> str | None:
        """Return the stage."""
        return facts.stage


class Licence(_OneOf):
    """The SPDX licence identifier of the version."""

    name = "licence"
    remedy = "record the version's licence, or use another model"

    def fact(self, facts: Facts) -> str | None:
        """Return the licence."""
        return facts.licence


class Status(_OneOf):
    """Neither deprecated nor yanked, where the list does not say otherwise."""

    name = "status"
    remedy = "use a newer version"

    @classmethod
    def parse(cls, fields: Fields) -> Self:
        """Read ``in``; by default only ``active``."""
        allowed = fields.texts("in", ("active",))
        for one in allowed:
            if one not in _STATUSES:
                msg = f"{fields.place}: unknown status {one!r}{near(one, _STATUSES)}"
                raise MalformedError(msg)
        return cls(allowed)

    def fact(self, facts: Facts) -> str | None:
        """Return the status."""
        return facts.status


@dataclass(frozen=True)
class Tag(Rule):
    """A tag has this value, exactly.

    Attributes:
        tag: Its name.
        equals: Its value.
    """

    name: ClassVar[str] = "tag"
    tag: str
    equals: str

    @classmethod
    def parse(cls, fields: Fields) -> Self:
        """Read ``name`` and ``equals``."""
        return cls(fields.text("name"), fields.text("equals"))

    def ask(self, case: Case) -> Answer:
        """Compare."""
        value = case.facts.tags.get(self.tag)
        found, expected = f"tag {self.tag} is {shown(value)}", f"tag {self.tag} is {self.equals!r}"
        return Answer(value == self.equals, found, expected, f"set the tag {self.tag}, if it is true")
