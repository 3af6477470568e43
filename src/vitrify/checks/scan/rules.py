"""The rules: what each finding means, for people who have never seen it. SARIF and the documentation show this table.

A rule's name is the same in every version; a policy and a suppressed alert are bound to it.
"""

from __future__ import annotations

from vitrify.checks.scan._rule import Rule
from vitrify.checks.scan._rules_code import CODE
from vitrify.checks.scan._rules_limits import LIMITS
from vitrify.checks.scan._rules_reach import REACH

__all__ = ["RULES", "Rule", "rule"]

RULES: dict[str, Rule] = {**CODE, **REACH, **LIMITS}

_FOREIGN = Rule(
    "A finding of a plugin", "This rule comes with a format that a third party installed.", "See its documentation."
)


def rule(name: str) -> Rule:
    """Return what a rule means; of a third party's, that it is one."""
    return RULES.get(name, _FOREIGN)
