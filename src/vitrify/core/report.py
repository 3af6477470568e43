"""Report: what a check found. What was not checked is never shown as clean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from vitrify.core.html import html_table
from vitrify.core.wire import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

Verdict = Literal["clean", "found", "not checked"]


class Finding(Value, frozen=True, kw_only=True):
    """One thing that was found, and where.

    Attributes:
        place: A step, a file, a row or a column: enough to go and look.
        message: What is there and what was expected.
        remedy: What to do about it.
        rule: Which rule found it, the same in every version: ``untrusted-global``.
        subject: The exact thing that it is about, which a policy can allow: ``acme.steps.Scale``.
        verdict: ``not checked`` where it says that something could not be looked at.
    """

    place: str
    message: str
    remedy: str = ""
    rule: str = ""
    subject: str = ""
    verdict: Literal["found", "not checked"] = "found"

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.place}: {self.message}{f' ({self.remedy})' if self.remedy else ''}"


class Report(Value, frozen=True, kw_only=True):
    """The answer of one check about one artifact, or about two of them.

    Attributes:
        check: Catalog name of the check.
        verdict: ``clean``, ``found`` or ``not checked``.
        findings: In order of importance.
        details: The figures, as JSON; their keys belong to the check.
    """

    check: str
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    details: dict[str, Any] = {}

    @classmethod
    def of(cls, check: str, findings: Iterable[Finding], details: dict[str, Any] | None = None) -> Self:
        """Return a report whose verdict follows from its findings: the worst of theirs, ``clean`` without any."""
        found = tuple(sorted(findings, key=lambda finding: finding.verdict != "found"))
        verdict: Verdict = found[0].verdict if found else "clean"
        return cls(check=check, verdict=verdict, findings=found, details=details or {})

    @property
    def passed(self) -> bool:
        """Whether the check ran and found nothing."""
        return self.verdict == "clean"

    def __str__(self) -> str:
        """Return the verdict and the findings, a line each."""
        return "\n".join([f"{self.check}: {self.verdict}", *(f"  - {finding}" for finding in self.findings)])

    def _repr_html_(self) -> str:
        """Show the verdict, and a row for each finding."""
        rows = [(finding.place, finding.message, finding.remedy) for finding in self.findings]
        return html_table(("place", "finding", "what to do"), rows, caption=f"{self.check}: {self.verdict}")
