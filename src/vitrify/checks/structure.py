"""Structure: does a model take and give what its signature says? All that can be asked where nothing can run it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.catalog import catalog
from vitrify.core.report import Finding, Report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Subject
    from vitrify.core.signature import Field

_KEPT = ("versions", "inputs", "outputs", "operators", "parameters", "bytes")


class Structure:
    """Reads the model's own description, and holds it against the signature."""

    def run(self, subject: Subject, reference: Subject | None) -> Report:
        """Look at ``subject``; a ``reference`` is not asked.

        Raises:
            MalformedError: The files are not of their format.
        """
        del reference
        document = subject.document
        format_ = catalog().row("format", document.format).look()
        facts: dict[str, Any] = format_.describe(subject.files, document.entry)
        hazards = [
            finding
            for finding in format_.hazards(subject.files, document.entry)
            if finding.verdict == "found" and finding.subject not in subject.allow.names
        ]
        found = [*hazards, *_ports(subject, facts, "inputs"), *_ports(subject, facts, "outputs")]
        return Report.of("structure", found, {key: facts[key] for key in _KEPT if key in facts})


def _ports(subject: Subject, facts: Mapping[str, Any], side: str) -> Iterator[Finding]:
    signature = subject.document.signature
    if signature is None:
        if side == "outputs":
            message = "there is none: only the files themselves were looked at"
            yield Finding(place="signature", message=message, verdict="not checked")
        return
    described = {port["name"]: port for port in facts.get(side, ())}
    fields: tuple[Field, ...] = getattr(signature, side)
    names: Mapping[str, str] = subject.document.entry.get(side) or {field.name: field.name for field in fields}
    for field in fields:
        if field.name not in names:
            if side == "outputs":
                yield Finding(place=f"output {field.name!r}", message="the model does not give it")
            continue
        port = described.get(names[field.name])
        if port is None:
            message = f"the model has no {names[field.name]!r} (it has: {', '.join(described) or 'none'})"
            yield Finding(place=f"{side[:-1]} {field.name!r}", message=message)
        elif not _fits(field.shape, port.get("shape")):
            message = f"its shape is {port['shape']}, and the signature says {list(field.shape)}"
            yield Finding(place=f"{side[:-1]} {field.name!r}", message=message)


def _fits(wanted: tuple[int | str, ...], given: list[Any] | None) -> bool:
    """Say whether one shape can stand for the other: equal numbers, and a column for a vector."""
    if given is None:
        return True
    if len(given) == len(wanted) + 1 and given[-1] == 1:
        given = given[:-1]
    pairs = zip(wanted, given, strict=False)
    return len(wanted) == len(given) and all(
        left == right for left, right in pairs if isinstance(left, int) and isinstance(right, int) and right > 0
    )
