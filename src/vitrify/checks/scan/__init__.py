"""Scan: could this file hurt whoever loads it. Nothing in it runs to find out.

>>> report = scan("model.pkl")                       # doctest: +SKIP
>>> report.verdict                                   # doctest: +SKIP
'found'

``clean`` is said of what was looked at to its last byte and holds nothing that runs, reaches out of the file or
breaks a reader; what could not be looked at is ``not checked``. What a person has read and takes is written down in
a policy (:mod:`.policy`); what each rule means is in :mod:`.rules`; :mod:`.sarif` is for code-scanning pages::

    from vitrify.checks.scan import Scan, scan, scan_target
    from vitrify.checks.scan.policy import Policy, read_policy
    from vitrify.checks.scan.targets import targets
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from vitrify.checks.scan.policy import Policy
from vitrify.core.document import DOCUMENT, GOLDEN
from vitrify.core.errors import UsageError
from vitrify.core.report import Finding, Report
from vitrify.inspection.scan import CHECK, scan_files
from vitrify.inspection.scan import scan as look
from vitrify.reading.files import LocalFiles

if TYPE_CHECKING:
    from collections.abc import Collection

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.document import Document
    from vitrify.core.protocols import Files, Subject
    from vitrify.inspection.scan import Limits

__all__ = ["Scan", "attest_scan", "scan", "scan_artifact", "scan_target"]


def scan(path: str | Path, *, allow: Collection[str] = (), policy: Policy | None = None) -> Report:
    """Say whether a model file or directory could hurt whoever loads it; nothing in it runs.

    Args:
        path: The file or directory; its format is found from its content.
        allow: Exact subjects of findings that are taken: ``acme.steps.Scale``. The report lists those it used.
        policy: What else is taken, and how far to look.

    Returns:
        ``clean``, ``found`` or ``not checked``, with findings that point at places.

    Raises:
        UsageError: There is no such file.
    """
    decided = (policy or Policy()).and_allow(allow)
    report = look(Path(path), limits=decided.limits)
    return decided.apply(report, Path(path).as_posix(), today=_today())


def scan_target(path: Path, policy: Policy) -> Report:
    """Scan one of many: a file that cannot be read is ``not checked`` and stops nothing."""
    try:
        return scan(path, policy=policy)
    except (UsageError, OSError) as error:
        message = error.message if isinstance(error, UsageError) else f"{path}: {error.strerror}"
        why = Finding(place=path.name, message=message, rule="unreadable", verdict="not checked")
        return Report.of(CHECK, [why])


class Scan:
    """The check on artifacts: every file in it, those of our own included."""

    def __init__(self, policy: Policy | None = None) -> None:
        """Keep the policy; by default what the subject's user allows is taken, and nothing else."""
        self.policy = policy or Policy()

    def run(self, subject: Subject, reference: Subject | None) -> Report:
        """Scan ``subject``; a ``reference`` is not asked."""
        del reference
        decided = self.policy.and_allow(sorted(subject.allow.names))
        report = _inside(subject.files, subject.document, decided.limits)
        return decided.apply(report, "", today=_today())


def scan_artifact(artifact: Artifact, policy: Policy | None = None) -> Report:
    """Scan every file in an artifact, under the names that they have there; what is encrypted is asked for its key."""
    if artifact.sealed:
        artifact.sealed.unlock()
    decided = policy or Policy()
    return decided.apply(_inside(artifact.files, artifact.document, decided.limits), "", today=_today())


def _inside(files: Files, document: Document, limits: Limits) -> Report:
    """Scan the model's files as what they are without ours beside them, and then ours: a folder may be a format."""
    ours = {DOCUMENT, GOLDEN, *document.code.modules.values()}
    sides = ([name for name in files.names() if (name in ours) == own] for own in (False, True))
    parts = [LocalFiles({name: files.path(name) for name in names}) for names in sides if names]
    reports = [scan_files(part, limits=limits) for part in parts]
    formats: Counter[str] = Counter()
    for report in reports:
        formats.update(report.details["formats"])
    totals = {key: sum(report.details[key] for report in reports) for key in ("files", "bytes")}
    findings = [finding for report in reports for finding in report.findings]
    return Report.of(CHECK, findings, {"formats": dict(sorted(formats.items())), **totals})


def attest_scan(artifact: Artifact, policy: Policy | None = None) -> Report:
    """Scan an artifact and keep the report beside it, as an attestation of type ``SCAN``.

    It says what this version of Vitrify found on this day: an older statement stays, so that both can be asked.
    """
    from vitrify.artifacts.seal import attest
    from vitrify.core import who
    from vitrify.core.attestation import SCAN
    from vitrify.core.wire import to_builtins

    report = scan_artifact(artifact, policy)
    predicate = {**to_builtins(report), "who": who.user(), "when": who.now()}
    attest(artifact.store, artifact.digest, SCAN, predicate)
    return report


def _today() -> date:
    return datetime.now(tz=UTC).date()
