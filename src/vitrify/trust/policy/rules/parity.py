"""``parity``: a converted model predicts what its source predicts, by as much as the policy says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from vitrify.core.attestation import PARITY, SLSA
from vitrify.trust.policy.fields import finite, shown
from vitrify.trust.policy.rules._rule import Answer, Rule, aged, judge
from vitrify.trust.provenance import SAVED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from vitrify.trust.policy.case import Case
    from vitrify.trust.policy.fields import Fields

_FIGURES = {
    "atol": ("tolerance", "atol"),
    "rtol": ("tolerance", "rtol"),
    "absolute": ("absolute", "max"),
    "relative": ("relative", "max"),
}
"""Where a parity report has each figure of an output."""


@dataclass(frozen=True)
class Parity(Rule):
    """Every step's report is clean, and no figure of a floating-point output is larger than the policy allows.

    Attributes:
        limits: The greatest of each figure: ``atol`` and ``rtol`` are what the check itself tolerated, ``absolute`` and
            ``relative`` the largest differences that it saw, over all probes, those of huge values too.
        only_converted: Whether a model that was saved, not converted, needs none; its provenance has to say so.
        max_age: The oldest that counts.
    """

    name: ClassVar[str] = "parity"
    limits: tuple[tuple[str, float], ...]
    only_converted: bool
    max_age: timedelta | None

    @classmethod
    def parse(cls, fields: Fields) -> Self:
        """Read ``atol``, ``rtol``, ``absolute``, ``relative``, ``only-converted`` and ``max-age``."""
        limits = [(kind, fields.number(kind, least=0)) for kind in _FIGURES]
        return cls(
            tuple((kind, limit) for kind, limit in limits if limit is not None),
            fields.yes("only-converted", default=False),
            fields.duration("max-age"),
        )

    def ask(self, case: Case) -> Answer:
        """Answer by the reports of all steps."""
        bounds = "".join(f", {kind} at most {limit:g}" for kind, limit in self.limits)
        expected = aged(f"every step clean{bounds}", self.max_age)
        if self.only_converted and not case.statements(PARITY) and _was_saved(case):
            return Answer(holds=True, found="saved, not converted", expected=expected)
        remedy = "convert it again where VITRIFY_EVIDENCE_KEY is a key that counts: vitrify convert SOURCE --to FORMAT"
        return judge(case, PARITY, expected, self._look, max_age=self.max_age, remedy=remedy)

    def _look(self, predicate: dict[str, Any]) -> tuple[bool, str]:
        reports = predicate.get("reports")
        if not isinstance(reports, list) or not reports or not all(isinstance(one, dict) for one in reports):
            return False, "a parity attestation without reports"
        unclean = [one for one in reports if one.get("verdict") != "clean"]
        if unclean:
            return False, f"{shown(unclean[0].get('step'))}: {shown(unclean[0].get('verdict'))}"
        if not any(one.get("check") == "parity" for one in reports):
            return False, "no report of the parity check"
        told = [f"{len(reports)} reports clean"]
        for kind, limit in self.limits:
            figures = [finite(value) for value in _figures(reports, kind)]
            if any(figure is None or figure < 0 for figure in figures):
                return False, f"a report without the figure {kind}"
            greatest = max((figure for figure in figures if figure is not None), default=0.0)
            told.append(f"{kind} {greatest:g}")
            if greatest > limit:
                return False, f"{kind} {greatest:g}"
        return True, ", ".join(told)


def _figures(reports: list[dict[str, Any]], kind: str) -> Iterator[Any]:
    """Yield a figure of every output that is not compared exactly; None where it is not there."""
    group, key = _FIGURES[kind]
    for report in reports:
        if report.get("check") != "parity":
            continue
        details = report.get("details")
        outputs = details.get("outputs") if isinstance(details, dict) else None
        if not isinstance(outputs, dict) or not outputs:
            yield None
            continue
        for output in outputs.values():
            if isinstance(output, dict) and output.get("kind") == "exact":
                continue
            figures = output.get(group) if isinstance(output, dict) else None
            yield figures.get(key) if isinstance(figures, dict) else None


def _was_saved(case: Case) -> bool:
    """Say whether all provenance that decides says that no transform made it."""
    deciding = case.deciding(SLSA)
    definitions = [one.predicate.get("buildDefinition") for one in deciding if not case.too_old(one, None)]
    saved = [isinstance(one, dict) and one.get("buildType") == SAVED for one in definitions]
    return bool(deciding) and len(saved) == len(deciding) and all(saved)
