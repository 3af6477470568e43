"""``metric``: a figure that the registry has for a version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from vitrify.trust.policy.fields import shown
from vitrify.trust.policy.rules._rule import Answer, Rule
from vitrify.trust.policy.rules.figures import Wanted

if TYPE_CHECKING:
    from vitrify.trust.policy.case import Case
    from vitrify.trust.policy.fields import Fields


@dataclass(frozen=True)
class Metric(Rule):
    """One metric is at least, or at most, a number.

    Attributes:
        metric: Its name.
        wanted: The bounds, which are included.
    """

    name: ClassVar[str] = "metric"
    metric: str
    wanted: Wanted

    @classmethod
    def parse(cls, fields: Fields) -> Self:
        """Read ``name``, ``at-least`` and ``at-most``."""
        return cls(fields.text("name"), Wanted.bounds(fields))

    def ask(self, case: Case) -> Answer:
        """Compare."""
        value = case.facts.metrics.get(self.metric)
        found = f"{self.metric} is {shown(value)}"
        remedy = f"record {self.metric} with the version, or train a better model"
        return Answer(self.wanted.met(value), found, f"{self.metric} {self.wanted}", remedy)
