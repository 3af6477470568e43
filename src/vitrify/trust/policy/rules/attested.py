"""``attestation`` and ``sbom``: a statement of a type is there, and says what it must."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from vitrify.core.errors import MalformedError
from vitrify.trust.policy.case import CYCLONEDX, SPDX
from vitrify.trust.policy.fields import near, shown
from vitrify.trust.policy.rules._rule import Answer, Rule, aged, attest_command, judge, listed
from vitrify.trust.policy.rules.figures import Wanted

if TYPE_CHECKING:
    from datetime import timedelta

    from vitrify.trust.policy.case import Case
    from vitrify.trust.policy.fields import Fields

_FORMATS = {"cyclonedx": (CYCLONEDX, "bomFormat", "CycloneDX"), "spdx": (SPDX, "spdxVersion", "SPDX-")}


@dataclass(frozen=True)
class Attested(Rule):
    """An attestation of this type is there; with ``field``, one place in its predicate is as wanted.

    Attributes:
        predicate_type: Its type, exactly.
        field: Names from the outside in, with dots between them: ``metrics.auc``.
        wanted: What stands there.
        max_age: The oldest that counts.
    """

    name: ClassVar[str] = "attestation"
    predicate_type: str
    field: str
    wanted: Wanted | None
    max_age: timedelta | None

    @classmethod
    def parse(cls, fields: Fields) -> Self:
        """Read ``type``, ``field`` with ``equals``, ``at-least`` or ``at-most``, and ``max-age``."""
        kind, field = fields.text("type"), ""
        wanted = None
        if fields.has("field"):
            field, wanted = fields.text("field"), Wanted.any_of(fields)
        return cls(kind, field, wanted, fields.duration("max-age"))

    def ask(self, case: Case) -> Answer:
        """Answer by what stands in the field."""
        what = f"an attestation of type {self.predicate_type}"
        expected = aged(f"{what} with {self.field} {self.wanted}" if self.wanted else what, self.max_age)
        remedy = attest_command(case, self.predicate_type)
        return judge(case, self.predicate_type, expected, self._look, max_age=self.max_age, remedy=remedy)

    def _look(self, predicate: dict[str, Any]) -> tuple[bool, str]:
        if self.wanted is None:
            return True, "there"
        value: Any = predicate
        for key in self.field.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return self.wanted.met(value), f"{self.field} is {shown(value)}"


@dataclass(frozen=True)
class Sbom(Rule):
    """A bill of materials is attached, in one of the formats.

    Attributes:
        formats: ``cyclonedx`` and ``spdx``, or one of them.
        max_age: The oldest that counts.
    """

    name: ClassVar[str] = "sbom"
    formats: tuple[str, ...]
    max_age: timedelta | None

    @classmethod
    def parse(cls, fields: Fields) -> Self:
        """Read ``formats`` and ``max-age``."""
        formats = fields.texts("formats", tuple(_FORMATS))
        for one in formats:
            if one not in _FORMATS:
                msg = f"{fields.place}: unknown format {one!r}{near(one, _FORMATS)}"
                raise MalformedError(msg)
        return cls(formats, fields.duration("max-age"))

    def ask(self, case: Case) -> Answer:
        """Answer by the first format that is there."""
        expected = aged(f"a bill of materials: {listed(self.formats)}", self.max_age)
        remedy = f"vitrify sbom {case.facts.reference} --format {self.formats[0]} --attach"
        answers = []
        for one in self.formats:
            kind, key, start = _FORMATS[one]

            def look(predicate: dict[str, Any], key: str = key, start: str = start) -> tuple[bool, str]:
                value = predicate.get(key)
                return isinstance(value, str) and value.startswith(start), f"{key} is {shown(value)}"

            answers.append(judge(case, kind, expected, look, max_age=self.max_age, remedy=remedy))
        return next((answer for answer in answers if answer.holds), answers[0])
