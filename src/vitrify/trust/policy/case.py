"""Case: what a rule may look at. Evidence that does not count is not in it, so no rule can rely on it by mistake."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from vitrify.core.attestation import SLSA, STATEMENT_TYPE
from vitrify.core.digest import Digest
from vitrify.trust.signing import SIGNATURE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.trust.evidence import Evidence
    from vitrify.trust.policy.facts import Facts

CYCLONEDX = "https://cyclonedx.org/bom"
SPDX = "https://spdx.dev/Document"
CLOCK_SKEW = timedelta(minutes=5)
"""Clocks of two machines differ by less; what is dated later than that is from the future, and holds for nothing."""

_STATEMENTS = frozenset({STATEMENT_TYPE, "https://in-toto.io/Statement/v0.1"})
_TIMES = {
    SIGNATURE: ("signedAt",),
    SLSA: ("runDetails", "metadata", "finishedOn"),
    CYCLONEDX: ("metadata", "timestamp"),
    SPDX: ("creationInfo", "created"),
}
_MAX_TIME = 40


@dataclass(frozen=True)
class Statement:
    """One attestation that counts.

    Attributes:
        predicate: What it says.
        when: When it says that it was made; None where it does not, or not in a way that can be read.
        signers: Key ids whose signature over it holds.
    """

    predicate: dict[str, Any]
    when: datetime | None
    signers: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """The facts, and the part of the evidence that counts.

    Attributes:
        facts: What is known; rules take attestations from ``statements`` alone.
        keys: The keys that count for this name, purpose and moment: their names in the policy to key ids.
        signed: Whether evidence counts only with the signature of such a key.
    """

    facts: Facts
    keys: Mapping[str, str]
    signed: bool

    def statements(self, predicate_type: str) -> tuple[Statement, ...]:
        """Return the attestations of this type about this very digest that count, newest first."""
        counting = [one for one in self._about(predicate_type) if self._counts(one)]
        made = [Statement(one.attestation.predicate, time_of(one), one.signers) for one in counting]
        return tuple(sorted(made, key=lambda one: one.when or datetime.max.replace(tzinfo=UTC), reverse=True))

    def deciding(self, predicate_type: str) -> tuple[Statement, ...]:
        """Return the attestations of a type that decide: the newest, and each one that may be as new.

        All of them must say yes. One without a readable time may be newer than any, so that nobody gets around a
        bad answer by leaving its time out or by writing one that is not a time.
        """
        found = self.statements(predicate_type)
        newest = max((one.when for one in found if one.when), default=None)
        return tuple(one for one in found if one.when is None or one.when == newest)

    def left_out(self, predicate_type: str) -> str:
        """Return the end of a message about attestations of a type that do not count, if there are any."""
        count = sum(not self._counts(one) for one in self._about(predicate_type))
        return f" ({count} without the signature of a key that counts here)" if count else ""

    def too_old(self, one: Statement, age: timedelta | None) -> str:
        """Return what is wrong with the time of an attestation; an empty text where nothing is."""
        if one.when is not None and one.when > self.facts.now + CLOCK_SKEW:
            return f"dated in the future: {one.when.isoformat()}"
        if age is None:
            return ""
        if one.when is None:
            return "without a time, so of unknown age"
        old = self.facts.now - one.when
        return f"{max(old.days, 0)} days old, made {one.when.isoformat()}" if old > age else ""

    def _about(self, predicate_type: str) -> list[Evidence]:
        about = Digest.parse(self.facts.digest)
        return [
            one
            for one in self.facts.evidence
            if one.attestation.predicate_type == predicate_type
            and one.attestation.type_ in _STATEMENTS
            and one.attestation.is_about(about)
        ]

    def _counts(self, one: Evidence) -> bool:
        return not self.signed or not set(self.keys.values()).isdisjoint(one.signers)


def time_of(one: Evidence) -> datetime | None:
    """Return when an attestation says that it was made, if it says so in RFC 3339 with a zone."""
    value: Any = one.attestation.predicate
    for key in _TIMES.get(one.attestation.predicate_type, ("when",)):
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, str) or len(value) > _MAX_TIME:
        return None
    try:
        when = datetime.fromisoformat(value)
        return None if when.utcoffset() is None else when.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
