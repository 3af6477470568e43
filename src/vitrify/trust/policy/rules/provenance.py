"""``provenance``: it is known who built it, and from which commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from vitrify.core.attestation import SLSA
from vitrify.trust.policy.fields import shown
from vitrify.trust.policy.rules._rule import Answer, Rule, aged, judge, listed
from vitrify.trust.provenance import read

if TYPE_CHECKING:
    from datetime import timedelta

    from vitrify.trust.policy.case import Case
    from vitrify.trust.policy.fields import Fields


@dataclass(frozen=True)
class Provenance(Rule):
    """SLSA provenance is there and says what the policy wants to know.

    Attributes:
        builders: Builder ids that count, exactly; any, where empty.
        commit: Whether the git commit must be known.
        clean: Whether nothing may have been changed since that commit; asks for the commit, too.
        max_age: The oldest that counts.
    """

    name: ClassVar[str] = "provenance"
    builders: tuple[str, ...]
    commit: bool
    clean: bool
    max_age: timedelta | None

    @classmethod
    def parse(cls, fields: Fields) -> Self:
        """Read ``builders``, ``commit``, ``clean`` and ``max-age``."""
        builders = fields.texts("builders") if fields.has("builders") else ()
        return cls(
            builders,
            fields.yes("commit", default=False),
            fields.yes("clean", default=False),
            fields.duration("max-age"),
        )

    def ask(self, case: Case) -> Answer:
        """Answer by the provenance that decides."""
        wants = ["SLSA provenance"]
        wants += [f"of builder {listed(self.builders)}"] if self.builders else []
        wants += ["with a git commit"] if self.commit or self.clean else []
        wants += ["without changes since"] if self.clean else []
        remedy = "save it again from a clean git checkout, where VITRIFY_EVIDENCE_KEY is a key that counts"
        return judge(case, SLSA, aged(" ".join(wants), self.max_age), self._look, max_age=self.max_age, remedy=remedy)

    def _look(self, predicate: dict[str, Any]) -> tuple[bool, str]:
        known = read(predicate)
        if not known.builder or not known.build_type:
            return False, "provenance that names no builder or no build type"
        commit = f"commit {shown(known.commit)}" if known.commit else "no commit"
        state = {True: ", with changes since", False: "", None: ", changes since unknown"}[known.dirty]
        found = f"{shown(known.builder)}, {commit}{state if known.commit else ''}"
        fine = not self.builders or known.builder in self.builders
        fine &= bool(known.commit) or not (self.commit or self.clean)
        return fine and (known.dirty is False or not self.clean), found
