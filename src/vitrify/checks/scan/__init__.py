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

from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from vitrify.checks.scan.policy import Policy
from vitrify.core.errors import UsageError
from vitrify.core.report import Finding, Report
from vitrify.inspection.scan import CHECK, scan_files
from vitrify.inspection.scan import scan as look

if TYPE_CHECKING:
    from collections.abc import Collection

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.protocols import Subject

__all__ = ["Scan", "attest_scan", "scan", "scan_target"]


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
        report = scan_files(subject.files, limits=decided.limits)
        return decided.apply(report, "", today=_today())


def attest_scan(artifact: Artifact, policy: Policy | None = None) -> Report:
    """Scan an artifact and keep the report beside it, as an attestation of type ``SCAN``.

    It says what this version of Vitrify found on this day: an older statement stays, so that both can be asked.
    """
    from vitrify.artifacts import environment
    from vitrify.artifacts.seal import attest
    from vitrify.core.attestation import SCAN
    from vitrify.core.wire import to_builtins

    decided = policy or Policy()
    report = decided.apply(scan_files(artifact.files, limits=decided.limits), "", today=_today())
    predicate = {**to_builtins(report), "who": environment.user(), "when": environment.now()}
    attest(artifact.store, artifact.digest, SCAN, predicate)
    return report


def _today() -> date:
    return datetime.now(tz=UTC).date()
