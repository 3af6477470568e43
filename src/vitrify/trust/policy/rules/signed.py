"""``signed-by``: enough of the named keys have signed the artifact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from vitrify.trust.policy.rules._rule import Answer, Rule, listed
from vitrify.trust.signing import SIGNATURE

if TYPE_CHECKING:
    from vitrify.trust.policy.case import Case
    from vitrify.trust.policy.fields import Fields


@dataclass(frozen=True)
class SignedBy(Rule):
    """So many of these keys have signed it; two names of one key are one key.

    Attributes:
        keys: Names from the policy's own table of keys.
        at_least: How many of them.
    """

    name: ClassVar[str] = "signed-by"
    keys: tuple[str, ...]
    at_least: int

    @classmethod
    def parse(cls, fields: Fields) -> Self:
        """Read ``keys`` and ``at-least``."""
        keys = tuple(dict.fromkeys(fields.texts("keys")))
        at_least = fields.count("at-least", 1)
        if at_least > len(keys):
            raise fields.wrong("at-least", f"at most the number of its keys, {len(keys)}")
        return cls(keys, at_least)

    def key_names(self) -> tuple[str, ...]:
        """Return the keys that it names."""
        return self.keys

    def ask(self, case: Case) -> Answer:
        """Count the keys whose signature holds and that count for this name, purpose and moment."""
        expected = f"signed by {self.at_least} of: {listed(self.keys)}"
        # A key that signed a scan has said what the scan found, not that the model is good: only signatures count.
        made = [one for one in case.statements(SIGNATURE) if not case.too_old(one, None)]
        signers = {signer for one in made for signer in one.signers}
        signed = {name for name in self.keys if case.keys.get(name) in signers}
        found = f"signed by {listed(signed)}"
        idle = [name for name in self.keys if name not in case.keys]
        if idle:
            found += f"; no key for this name, purpose and moment: {listed(idle)}"
        holds = len({case.keys[name] for name in signed}) >= self.at_least
        return Answer(holds, found, expected, f"vitrify sign {case.facts.reference} --key KEY")
