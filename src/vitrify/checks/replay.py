"""Replay: do the golden samples still give their golden outputs, here, today, on this runtime?"""

from __future__ import annotations

import platform
from contextlib import closing
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.artifacts import golden
from vitrify.checks.parity import causes, form, open_session, rows
from vitrify.checks.parity.compare import bounds
from vitrify.checks.parity.judge import Judge
from vitrify.checks.parity.probes import Probe
from vitrify.checks.parity.tally import Answers, Tally
from vitrify.checks.parity.tolerance import Tolerance
from vitrify.core.errors import ModelError, SignatureError
from vitrify.core.report import Finding, Report

if TYPE_CHECKING:
    from vitrify.core.document import Document
    from vitrify.core.protocols import Arrays, Session, Subject

_PROBE = Probe("golden samples", {}, "the libraries or the machine changed since it was saved")


class Replay:
    """Runs the golden inputs again and holds the answers against the golden outputs in the artifact.

    On the runtime and the libraries that made them they are equal to the bit, and the details say so; elsewhere
    they must agree within the tolerance.
    """

    def __init__(self, runtime: str | None = None, tolerance: Tolerance | None = None) -> None:
        """Keep the runtime's catalog name (by default the artifact's own) and what counts as the same."""
        self.runtime, self.tolerance = runtime, tolerance or Tolerance()

    def run(self, subject: Subject, reference: Subject | None) -> Report:
        """Replay ``subject``; a ``reference`` is not asked."""
        del reference
        inputs, expected = golden.load(subject.files)
        if not expected:
            why = Finding(place="golden samples", message="the artifact has none", remedy="save it with an example")
            return Report(check="replay", verdict="not checked", findings=(why,))
        with closing(open_session(subject, self.runtime)) as session:
            report = replay_session(session, inputs, expected, self.tolerance)
        runtime = self.runtime or subject.document.runtime
        return report.replace(details={"runtime": runtime, **report.details, "changed": changes(subject.document)})


@np.errstate(all="ignore")
def replay_session(session: Session, inputs: Arrays, expected: Arrays, tolerance: Tolerance | None = None) -> Report:
    """Run inputs and hold the answers against what was expected."""
    try:
        got = session.run(inputs)
    except (ModelError, SignatureError) as error:
        finding = Finding(
            place="golden samples", message=f"the model refuses them: {error.message}", remedy=error.remedy
        )
        return Report(check="replay", verdict="found", findings=(finding,))
    total = rows.count(inputs)
    rowwise = session.signature.batched and all(a.ndim and a.shape[0] == total for a in expected.values())
    wrong = form.problems(got, expected)
    sound = {name: array for name, array in expected.items() if form.comparable(got.get(name), array)}
    allowed = bounds(tolerance or Tolerance(), session.signature, sound, got, rowwise=rowwise)
    tally = Tally(allowed, rowwise)
    tally.count(_PROBE.name, rows=total if rowwise else 1)
    if sound:
        judge = Judge(session, allowed, rowwise, seed=0)
        places = np.arange(total if rowwise else 1)
        tally.add(Answers(_PROBE, places, inputs, got, sound), judge.rule(inputs, got, sound))
    findings = [Finding(place=f"output {name!r}", message=problem) for name, problem in wrong.items()]
    findings += causes.findings(tally, {})
    same = {name: name in got and form.bit_equal(got[name], array) for name, array in expected.items()}
    details: dict[str, Any] = {"rows": {"compared": total}, "bit_equal": all(same.values()), "bit_equal_outputs": same}
    return Report(
        check="replay",
        verdict="found" if findings else "clean",
        findings=tuple(findings),
        details={**details, "tolerance": (tolerance or Tolerance()).details(), **tally.details()},
    )


def changes(document: Document) -> dict[str, list[str | None]]:
    """Return what is another version here than where the artifact was made: then, and now (None: not installed)."""
    environment = document.environment
    if environment is None:
        return {}
    now = {name: _version(name) for name in environment.distributions}
    then = {"python": environment.python, **environment.distributions}
    now["python"] = platform.python_version()
    return {name: [version, now[name]] for name, version in then.items() if version != now[name]}


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
