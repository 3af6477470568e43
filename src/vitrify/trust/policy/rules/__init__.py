"""The rules that a policy may name. A new one is a class in a file here and a row in the table."""

from __future__ import annotations

from vitrify.trust.policy.rules._rule import Answer, Rule
from vitrify.trust.policy.rules.approved import Approved
from vitrify.trust.policy.rules.attested import Attested, Sbom
from vitrify.trust.policy.rules.clean import Scan, Trial
from vitrify.trust.policy.rules.metric import Metric
from vitrify.trust.policy.rules.parity import Parity
from vitrify.trust.policy.rules.provenance import Provenance
from vitrify.trust.policy.rules.signed import SignedBy
from vitrify.trust.policy.rules.state import Licence, Stage, Status, Tag

__all__ = ["RULES", "Answer", "Rule"]

RULES: dict[str, type[Rule]] = {
    rule.name: rule
    for rule in (
        Scan,
        Trial,
        Parity,
        SignedBy,
        Provenance,
        Sbom,
        Attested,
        Metric,
        Approved,
        Stage,
        Status,
        Licence,
        Tag,
    )
}
