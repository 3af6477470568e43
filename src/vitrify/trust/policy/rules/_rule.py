"""Rule: one question of a policy, and its answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import timedelta
    from typing import Any

    from vitrify.trust.policy.case import Case, Statement
    from vitrify.trust.policy.fields import Fields


@dataclass(frozen=True)
class Answer:
    """What a rule says of one model.

    Attributes:
        holds: Whether it is satisfied.
        found: What there is.
        expected: What the policy wants.
        remedy: The next thing to do where it is not satisfied.
    """

    holds: bool
    found: str
    expected: str
    remedy: str = ""


class Rule(ABC):
    """One rule as a policy file has it; a subclass and a row in :data:`RULES` make a new one.

    A rule never raises on what an attestation says: whatever it cannot read does not satisfy it.
    """

    name: ClassVar[str]
    """What it is called in the file."""

    @classmethod
    @abstractmethod
    def parse(cls, fields: Fields) -> Self:
        """Read its options; those that it does not take are refused by the caller.

        Raises:
            MalformedError: A value is not what it must be.
        """

    @abstractmethod
    def ask(self, case: Case) -> Answer:
        """Answer for one model."""

    def key_names(self) -> tuple[str, ...]:
        """Return the keys of the policy that it names, so that a misspelt one is found when the file is read."""
        return ()


def judge(
    case: Case,
    predicate_type: str,
    expected: str,
    look: Callable[[dict[str, Any]], tuple[bool, str]],
    *,
    max_age: timedelta | None = None,
    remedy: str = "",
) -> Answer:
    """Answer by the attestations of one type that decide: there is one, all are young enough, and ``look`` takes all.

    Args:
        case: The model.
        predicate_type: Which attestations are asked.
        expected: What the policy wants, for the answer.
        look: Says whether a predicate is good, and what is in it.
        max_age: The oldest that counts.
        remedy: What to do where there is none, or none that is good.
    """
    deciding = case.deciding(predicate_type)
    if not deciding:
        return Answer(holds=False, found=f"none{case.left_out(predicate_type)}", expected=expected, remedy=remedy)
    seen = [_seen(case, one, look, max_age) for one in deciding]
    bad = [found for holds, found in seen if not holds]
    return Answer(holds=not bad, found=bad[0] if bad else seen[0][1], expected=expected, remedy=remedy)


def _seen(
    case: Case, one: Statement, look: Callable[[dict[str, Any]], tuple[bool, str]], max_age: timedelta | None
) -> tuple[bool, str]:
    holds, found = look(one.predicate)
    if wrong := case.too_old(one, max_age):
        return False, f"{found}, {wrong}"
    return holds, f"{found}, made {one.when.isoformat()}" if one.when else found


def attest_command(case: Case, predicate_type: str) -> str:
    """Return the command that makes an attestation of this type."""
    return f"vitrify attest {case.facts.reference} --type {predicate_type} --predicate FILE --key KEY"


def aged(text: str, age: timedelta | None) -> str:
    """Return what is expected, with the greatest age where one is set."""
    return text if age is None else f"{text}, at most {_span(age)} old"


def listed(names: Iterable[str]) -> str:
    """Return names for a message."""
    return ", ".join(sorted(names)) or "none"


def _span(age: timedelta) -> str:
    hours = int(age.total_seconds() // 3600)
    return f"{hours // 24} days" if hours % 24 == 0 else f"{hours} hours"
