"""Asking a policy about one model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import DeniedError
from vitrify.core.report import Finding, Report
from vitrify.trust import policy_place
from vitrify.trust.policy.case import Case
from vitrify.trust.policy.document import Policy

if TYPE_CHECKING:
    from vitrify.trust.policy.facts import Facts

CHECK = "policy"


def default_policy() -> Policy | None:
    """Return the policy of this machine: ``$VITRIFY_POLICY``, else ``policy.toml`` in ``$VITRIFY_HOME``, else None.

    A policy that is there and cannot be read allows nothing.

    Raises:
        StoreError: It cannot be read.
        MalformedError: It is no policy.
    """
    place = policy_place.find()
    return None if place is None else Policy.load(place)


def evaluate(policy: Policy, facts: Facts) -> Report:
    """Ask every rule that is meant for this action and name.

    Returns:
        A report, ``clean`` where all hold, with a finding for each rule that does not. ``details["rules"]`` has all
        of them: ``place``, ``rule``, ``verdict``, ``found`` and ``expected``; where nothing is required, none.
    """
    keys = {name: trusted.key.keyid for name, trusted in policy.keys.items() if trusted.counts(facts)}
    case = Case(facts, keys, policy.wants_signatures(facts))
    rows: list[dict[str, Any]] = []
    findings = []
    for requirement in policy.requirements:
        if not requirement.meant_for(facts):
            continue
        for place, rule in requirement.rules:
            answer = rule.ask(case)
            verdict = "clean" if answer.holds else "found"
            about = {"place": place, "rule": rule.name, "verdict": verdict}
            rows.append({**about, "found": answer.found, "expected": answer.expected})
            if not answer.holds:
                message = f"{rule.name}: found {answer.found}, expected {answer.expected}"
                findings.append(Finding(place=place, message=message, remedy=answer.remedy, rule=rule.name))
    details = {
        "policy": policy.place,
        "action": facts.action,
        "name": facts.name,
        "digest": facts.digest,
        "asked": facts.now.isoformat(),
        "signed_evidence": case.signed,
        "keys": sorted(keys),
        "rules": rows,
    }
    return Report.of(CHECK, findings, details)


def require(policy: Policy, facts: Facts) -> Report:
    """Return the report of a policy that allows it.

    Raises:
        DeniedError: Some rule does not hold; its report says which.
    """
    report = evaluate(policy, facts)
    if report.passed:
        return report
    listed = "\n".join(f"  - {finding.place}: {finding.message}" for finding in report.findings)
    msg = f"the policy does not allow to {facts.action} {facts.reference} ({facts.digest[:19]}):\n{listed}"
    remedy = next((finding.remedy for finding in report.findings if finding.remedy), "")
    raise DeniedError(msg, report=report, remedy=remedy)
