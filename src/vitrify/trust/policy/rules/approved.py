"""``approved``: enough other people have said yes."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from vitrify.trust.policy.case import CLOCK_SKEW
from vitrify.trust.policy.rules._rule import Answer, Rule, aged, listed

if TYPE_CHECKING:
    from datetime import timedelta

    from vitrify.trust.policy.case import Case
    from vitrify.trust.policy.facts import Approval
    from vitrify.trust.policy.fields import Fields


@dataclass(frozen=True)
class Approved(Rule):
    """So many people have approved; spellings of one account are one person, and the author is none of them.

    Attributes:
        at_least: How many.
        not_author: Whether the author's own yes does not count; who the author is must then be known.
        by: The accounts whose yes counts, exactly; any, where empty.
        role: The role that they must have; any, where empty.
        max_age: The oldest that counts.
    """

    name: ClassVar[str] = "approved"
    at_least: int
    not_author: bool
    by: tuple[str, ...]
    role: str
    max_age: timedelta | None

    @classmethod
    def parse(cls, fields: Fields) -> Self:
        """Read ``at-least``, ``not-author``, ``by``, ``role`` and ``max-age``."""
        at_least = fields.count("at-least", 1)
        by = fields.texts("by") if fields.has("by") else ()
        if by and at_least > len({_person(one) for one in by}):
            raise fields.wrong("at-least", f"at most the number of people in by, {len({_person(one) for one in by})}")
        return cls(
            at_least,
            fields.yes("not-author", default=True),
            by,
            fields.text("role") if fields.has("role") else "",
            fields.duration("max-age"),
        )

    def ask(self, case: Case) -> Answer:
        """Count the people."""
        facts = case.facts
        who = f" of {listed(self.by)}" if self.by else ""
        who += f" with the role {self.role}" if self.role else ""
        expected = f"approved by {self.at_least}{who}{', not the author' if self.not_author else ''}"
        remedy = f"ask for approval of {facts.reference} by somebody else"
        if self.not_author and not (facts.author and _person(facts.author)):
            found = "the author is unknown, so nobody can be told from the author"
            return Answer(holds=False, found=found, expected=expected, remedy=remedy)
        author = _person(facts.author) if self.not_author and facts.author else ""
        people = {_person(one.who) for one in facts.approvals if self._counts(one, case)} - {author, ""}
        return Answer(
            len(people) >= self.at_least, f"approved by {listed(people)}", aged(expected, self.max_age), remedy
        )

    def _counts(self, one: Approval, case: Case) -> bool:
        named = (not self.by or one.who in self.by) and (not self.role or self.role in one.roles)
        age = case.facts.now - one.when
        return named and age >= -CLOCK_SKEW and (self.max_age is None or age <= self.max_age)


def _person(who: str) -> str:
    """Return one spelling for all that read alike: two of them must never count as two people."""
    return unicodedata.normalize("NFKC", who).casefold().strip()
