"""Asking the policy about a version, with all the facts that the registry has; the same rules as everywhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import DeniedError
from vitrify.core.wire import to_builtins
from vitrify.registry.handlers import evidence, find

if TYPE_CHECKING:
    from vitrify.core.report import Report
    from vitrify.registry.values import Decision, Version
    from vitrify.registry.work import Work


def require(work: Work, version: Version, action: str, approvals: tuple[Decision, ...]) -> dict[str, Any]:
    """Refuse what the policy does not allow; return the grounds on which it did.

    Raises:
        DeniedError: A rule is not met; the report says which, and what was found.
    """
    report = ask(work, version, action, approvals)
    if report is not None and not report.passed:
        msg = f"the policy does not allow to {action} {version.model}:{version.version}:"
        lines = [msg, *(f"  - {finding}" for finding in report.findings)]
        remedy = f"vitrify policy explain --version {version.model}:{version.version} --for {action}"
        raise DeniedError("\n".join(lines), report=report, remedy=remedy)
    return grounds(work, version, report)


def ask(work: Work, version: Version, action: str, approvals: tuple[Decision, ...]) -> Report | None:
    """Return what the policy says; None where there is none."""
    if work.policy is None:
        return None
    from vitrify.trust.policy import Approval, Facts, evaluate

    return evaluate(
        work.policy,
        Facts(
            action=action,
            name=version.model,
            digest=version.digest,
            version=version.version,
            author=version.author,
            evidence=evidence.verified(work, version.digest),
            metrics=version.metrics,
            tags=version.tags,
            licence=find.model(work, version.model).licence or None,
            stage=version.stage,
            status=version.status,
            approvals=tuple(
                Approval(who=decision.who, when=decision.when, roles=("approver",)) for decision in approvals
            ),
            now=work.when,
        ),
    )


def grounds(work: Work, version: Version, report: Report | None) -> dict[str, Any]:
    """Return what a decision rested on, for the log."""
    seen = [attested.digest for attested in evidence.about(work, version.digest)]
    return {"evidence": seen, "policy": to_builtins(report.details) if report else None}
