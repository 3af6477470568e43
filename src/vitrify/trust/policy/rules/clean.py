"""Rules about our own checks, whose report says ``clean``: the scan and the trial in a clean process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from vitrify.core.attestation import SCAN, TRIAL
from vitrify.trust.policy.fields import shown
from vitrify.trust.policy.rules._rule import Answer, Rule, aged, judge

if TYPE_CHECKING:
    from datetime import timedelta

    from vitrify.trust.policy.case import Case
    from vitrify.trust.policy.fields import Fields


@dataclass(frozen=True)
class _Clean(Rule):
    """The newest report of one check says ``clean``; what was found or not checked does not satisfy it."""

    predicate_type: ClassVar[str]
    remedy: ClassVar[str]
    max_age: timedelta | None

    @classmethod
    def parse(cls, fields: Fields) -> Self:
        """Read ``max-age``."""
        return cls(fields.duration("max-age"))

    def ask(self, case: Case) -> Answer:
        """Answer by the verdict."""
        expected = aged(f"a {self.name} that says clean", self.max_age)
        return judge(case, self.predicate_type, expected, self._look, max_age=self.max_age, remedy=self.remedy)

    def _look(self, predicate: dict[str, Any]) -> tuple[bool, str]:
        verdict = predicate.get("verdict")
        return verdict == "clean", f"{self.name}: {verdict[:80] if isinstance(verdict, str) else shown(verdict)}"


class Scan(_Clean):
    """Nothing in its files could hurt whoever loads them."""

    name = "scan"
    predicate_type = SCAN
    remedy = "scan it where VITRIFY_EVIDENCE_KEY is a key that counts: vitrify scan NAME --attest"


class Trial(_Clean):
    """It was opened in a process of its own and predicted the same."""

    name = "trial"
    predicate_type = TRIAL
    remedy = "save it again where VITRIFY_EVIDENCE_KEY is a key that counts"
