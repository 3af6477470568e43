"""Explaining: what the policy makes of a version, rule by rule, without doing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.wire import to_builtins
from vitrify.registry.handlers import approvals, find, policy
from vitrify.registry.values import Explanation

if TYPE_CHECKING:
    from vitrify.registry import requests as r
    from vitrify.registry.work import Work


def explain(work: Work, request: r.Explain) -> Explanation:
    """Say what the policy makes of a version, rule by rule."""
    found = find.version(work, request.model, request.version)
    stage = request.action.removeprefix("promote:")
    given = approvals.given(work, found.id, stage) if stage != request.action else ()  # type: ignore[arg-type] # no such stage has none
    report = policy.ask(work, found.value, request.action, given)
    if report is None:
        return Explanation(allowed=True, report={"check": "policy", "verdict": "clean", "findings": []})
    return Explanation(allowed=report.passed, report=to_builtins(report))
