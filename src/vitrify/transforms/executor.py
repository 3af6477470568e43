"""The executor: run a plan, prove every step, commit once."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.artifacts.seal import Draft, seal
from vitrify.core.attestation import PARITY
from vitrify.core.catalog import catalog
from vitrify.core.document import SCHEMA, Document
from vitrify.core.errors import CheckFailedError, UnsupportedModelError
from vitrify.core.progress import track
from vitrify.core.protocols import Subject
from vitrify.core.wire import to_builtins

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.plan import Plan, Step
    from vitrify.core.protocols import Check, Runtime, Stage, Transform, Written
    from vitrify.core.report import Report
    from vitrify.stores.oci_layout import OciLayout


@dataclass(frozen=True)
class Made:
    """What one step made, not yet committed."""

    stage: Stage
    subject: Subject
    reports: tuple[Report, ...]


def execute(
    plan: Plan, source: Artifact, subject: Subject, *, checks: Sequence[Check], store: OciLayout, name: str | None
) -> Artifact:
    """Run a plan; outside the tolerance of any check there is no output artifact.

    Args:
        plan: At least one step.
        source: The artifact to start from.
        subject: The same, opened, with all samples to compare on in ``golden``.
        checks: Each compares a step's result with what it was made from, and gates.
        store: Where the result goes.
        name: The result's name, or None.

    Raises:
        UnsupportedModelError: The model has parts that a step cannot do; all are listed before work starts.
        CheckFailedError: A check found something; its report is in the error.
    """
    with ExitStack() as stages:
        here, reports = subject, []
        for step in plan.steps:
            made = _run_step(step, here, checks, stages.enter_context(store.stage()))
            here = made.subject
            reports += [{"step": step.transform, **to_builtins(report)} for report in made.reports]
        lineage = {"source": str(source.digest), "plan": to_builtins(plan)}
        inputs, _ = source.golden()
        draft = Draft(
            here.document.replace(lineage=lineage),
            inputs,
            _open(here).run(inputs) if inputs else {},
            evidence={PARITY: {"source": str(source.digest), "reports": reports}},
        )
        return seal(made.stage, draft, store, name)


def _run_step(step: Step, source: Subject, checks: Sequence[Check], stage: Stage) -> Made:
    transform: Transform = catalog().load("transform", step.transform)
    if problems := transform.problems(source, step):
        road = f"from {step.source} to {step.target}"
        msg = f"{step.transform}: {len(problems)} part(s) of this model cannot be carried {road}"
        raise UnsupportedModelError(msg, problems=problems)
    with track(f"{step.source} to {step.target}"):
        written = transform.apply(source, step, stage)
    result = Subject(stage.files(), _document(step, source.document, written), source.golden, source.allow)
    reports = tuple(check.run(result, source) for check in checks)
    for report in reports:
        if not report.passed:
            msg = f"{step.transform}: the result does not predict what its source predicts; nothing was saved\n{report}"
            raise CheckFailedError(msg, report=report, remedy=_remedy(step))
    return Made(stage, result, reports)


def _document(step: Step, source: Document, written: Written) -> Document:
    runtime = catalog().runtime_of(step.target)
    return Document(
        schema=SCHEMA,
        format=step.target,
        runtime=runtime.name if runtime else None,
        entry=written.entry,
        signature=source.signature,
        notes=(*source.notes, *written.notes),
    )


def _open(subject: Subject) -> Any:
    runtime: Runtime = catalog().load("runtime", str(subject.document.runtime))
    return runtime.open(subject.files, subject.document, subject.allow)


def _remedy(step: Step) -> str:
    if step.options.get("precision") == "float32":
        return "convert in the source's own precision: leave --precision out"
    return "look at the worst rows in the report; allow a wider tolerance only if those rows cannot occur"
