"""The executor: run a plan, prove every step, commit once."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.artifacts.seal import Draft, seal
from vitrify.core.attestation import PARITY
from vitrify.core.catalog import catalog
from vitrify.core.document import SCHEMA, Code, Document
from vitrify.core.errors import (
    CheckFailedError,
    DeniedError,
    MissingDependencyError,
    UnsupportedModelError,
    VitrifyError,
)
from vitrify.core.progress import track
from vitrify.core.protocols import Subject
from vitrify.core.report import Finding, Report
from vitrify.core.wire import to_builtins

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.plan import Plan, Step
    from vitrify.core.protocols import Arrays, Check, Runtime, Stage, Transform, Written
    from vitrify.stores.oci_layout import OciLayout

_MAX_REASON = 600


@dataclass(frozen=True)
class Made:
    """What one step made, not yet committed."""

    stage: Stage
    subject: Subject
    reports: tuple[Report, ...]


def execute(
    plan: Plan,
    source: Artifact,
    subject: Subject,
    *,
    checks: Sequence[Check],
    store: OciLayout,
    name: str | None,
    begun: Artifact | None = None,
) -> Artifact:
    """Run a plan; outside the tolerance of any check there is no output artifact.

    Args:
        plan: At least one step.
        source: The artifact to start from.
        subject: The same, opened, with all samples to compare on in ``golden``.
        checks: Each compares a step's result with what it was made from, and gates.
        store: Where the result goes.
        name: The result's name, or None.
        begun: What the first steps of this plan made of the same source, if they were taken before.

    Raises:
        MissingDependencyError: A library of some step, or of a runtime that proves it, is not there.
        UnsupportedModelError: The model has parts that a step cannot do; all are listed before work starts.
        CheckFailedError: A check found something; its report is in the error.
        DeniedError: The source is encrypted.
    """
    require_plain(source)
    _ready(plan)
    steps, here, reports = _begin(plan, subject, begun)
    with ExitStack() as stages:
        for step in steps:
            made = _run_step(step, here, subject, checks, stages.enter_context(store.stage()))
            here = made.subject
            reports += [{"step": step.transform, **to_builtins(report)} for report in made.reports]
        lineage = {"source": str(source.digest), "plan": to_builtins(plan)}
        inputs = source.golden()[0] or subject.golden if here.document.signature else {}
        draft = Draft(
            here.document.replace(lineage=lineage),
            inputs,
            _outputs(here, subject, inputs),
            names=_own_code(here, made.stage, subject),
            evidence={PARITY: {"source": str(source.digest), "reports": reports}},
            read=here.document.runtime is not None,
        )
        return seal(made.stage, draft, store, name)


def foresee(plan: Plan, subject: Subject, store: OciLayout) -> VitrifyError | None:
    """Return what would keep a plan from being run, or None; what the steps make is thrown away, and not proven.

    A step can be asked only about what the step before it makes, so all but the last are taken.
    """
    here = subject
    try:
        _ready(plan)
        with ExitStack() as stages:
            for step in plan.steps:
                transform = _able(step, here)
                if step is not plan.steps[-1]:
                    here, _ = _taken(transform, step, here, stages.enter_context(store.stage()))
    except (MissingDependencyError, UnsupportedModelError) as error:
        return error
    return None


def require_plain(source: Artifact) -> None:
    """Refuse an encrypted source: what is made of it would lie in the store for everybody to read.

    Raises:
        DeniedError: It is encrypted.
    """
    if source.sealed:
        msg = f"{source} is encrypted, and what a transform made of it would lie in the store unencrypted"
        remedy = "transform the artifact that it was made from, then encrypt the result: vitrify protect encrypt"
        raise DeniedError(msg, remedy=remedy)


def _ready(plan: Plan) -> None:
    """Raise if a library is missing, of any step or of the runtime that proves it: before the first one is taken."""
    rows = [catalog().row("transform", step.transform) for step in plan.steps]
    rows += [row for step in plan.steps if (row := catalog().runtime_of(step.target))]
    absent = [row for row in rows if not row.installed()]
    if len(absent) == 1:
        absent[0].load()  # its error says what is missing
    if absent:
        names = ", ".join(f"{row.kind} {row.name!r} ({', '.join(row.requires)})" for row in absent)
        extras = sorted({row.extra for row in absent if row.extra})
        msg = f"libraries are missing on the road from {plan.source} to {plan.target}: {names}"
        raise MissingDependencyError(msg, remedy=f"pip install 'vitrify[{','.join(extras)}]'")


def _begin(plan: Plan, subject: Subject, begun: Artifact | None) -> tuple[tuple[Step, ...], Subject, list[Any]]:
    """Return the steps that are left, what they start from, and the reports of those that were taken before."""
    if begun is None:
        return plan.steps, subject, []
    evidence = next(item.predicate for item in begun.attestations if item.predicate_type == PARITY)
    taken = len((begun.document.lineage or {})["plan"]["steps"])
    here = Subject(begun.files, begun.document, subject.golden, subject.allow)
    return plan.steps[taken:], here, list(evidence["reports"])


def _able(step: Step, here: Subject) -> Transform:
    """Return the transform of a step that can do this model.

    Raises:
        UnsupportedModelError: It cannot; every part is listed.
    """
    transform: Transform = catalog().load("transform", step.transform)
    with _named(step):
        problems = transform.problems(here, step)
    if problems:
        road = f"from {step.source} to {step.target}"
        msg = f"{step.transform}: {len(problems)} part(s) of this model cannot be carried {road}"
        raise UnsupportedModelError(msg, problems=problems, remedy=_in_parts(step, here))
    return transform


def _taken(transform: Transform, step: Step, here: Subject, stage: Stage) -> tuple[Subject, Written]:
    """Take one step."""
    with track(f"{step.source} to {step.target}"), _named(step):
        written = transform.apply(here, step, stage)
    return Subject(stage.files(), _document(step, here.document, written), here.golden, here.allow), written


def _run_step(step: Step, here: Subject, origin: Subject, checks: Sequence[Check], stage: Stage) -> Made:
    """Run one step, and hold what came out against the model that the whole road started from."""
    result, written = _taken(_able(step, here), step, here, stage)
    reports = _reports(result, origin, checks)
    for report in reports:
        if not report.passed and not _cannot_run(result):
            msg = f"{step.transform}: the result does not predict what its source predicts; nothing was saved\n{report}"
            msg += "".join(f"\n  note: {note}" for note in written.notes)
            raise CheckFailedError(msg, report=report, remedy=_remedy(step))
        if report.verdict == "found":
            msg = f"{step.transform}: the result is not made as its source is; nothing was saved\n{report}"
            raise CheckFailedError(msg, report=report, remedy="choose another target: vitrify formats")
    return Made(stage, result, reports)


@contextmanager
def _named(step: Step) -> Iterator[None]:
    """Let what a framework's converter raises say which step it was; our own errors say so themselves."""
    try:
        yield
    except (VitrifyError, MemoryError):
        raise
    except Exception as error:
        msg = f"{step.transform}: {type(error).__name__}: {str(error)[:_MAX_REASON]}"
        raise UnsupportedModelError(
            msg, remedy="choose another target or another road (--via), or change that part of the model"
        ) from error


def _reports(result: Subject, origin: Subject, checks: Sequence[Check]) -> tuple[Report, ...]:
    """Ask the checks; where nothing here can run the result, look at its structure, and say that it was not run."""
    if not _cannot_run(result):
        return tuple(check.run(result, origin) for check in checks)
    kind = result.document.format
    why = Finding(
        place=kind,
        message=f"no runtime here opens {kind}: its predictions were not compared with its source's",
        remedy="replay the golden samples, which are in the artifact, where it runs"
        if result.document.signature
        else "",
        verdict="not checked",
    )
    return (catalog().load("check", "structure").run(result, origin), Report.of("parity", [why]))


def _in_parts(step: Step, source: Subject) -> str:
    """Return the way around where some parts of the model go to ONNX and the others can stay as they are."""
    row = next((row for row in catalog().rows("transform") if row.name == f"{step.source}-to-hybrid"), None)
    if step.target != "onnx" or row is None or not row.installed():
        return ""
    other = step.replace(transform=row.name, target="hybrid")
    try:
        problems = row.load().problems(source, other)
    except Exception:  # noqa: BLE001 (the user's own steps run; whatever they raise, the refusal is what has to be told)
        return ""
    if problems:
        return ""
    return "keep these parts as they are and the rest in ONNX: vitrify convert NAME --to hybrid"


def _own_code(result: Subject, stage: Stage, origin: Subject) -> tuple[str, ...]:
    """Carry on the source modules that the origin's artifact brought, and return the names that need others."""
    brought = result.document.code.modules
    for path in brought.values():
        with stage.open(path, "code") as stream:
            stream.write(origin.files.read(path))
    known = tuple(f"{module}." for module in brought)
    return tuple(name for name in result.document.code.names if not name.startswith(known))


def _cannot_run(result: Subject) -> bool:
    return result.document.runtime is None


def _outputs(result: Subject, origin: Subject, inputs: Arrays) -> Arrays:
    """Return the golden outputs: the result's own where it runs here, else its source's."""
    if not inputs or result.document.signature is None:
        return {}
    with closing(_open(origin if _cannot_run(result) else result)) as session:
        outputs: Arrays = session.run(inputs)
        return outputs


def _document(step: Step, source: Document, written: Written) -> Document:
    """Return the result's document. What holds weights alone gives no outputs, and has no signature."""
    runtime = catalog().runtime_of(step.target)
    predicts = runtime is not None or "outputs" in written.entry
    return Document(
        schema=SCHEMA,
        format=step.target,
        runtime=runtime.name if runtime else None,
        entry=written.entry,
        signature=source.signature if predicts else None,
        code=Code(modules=source.code.modules if written.names else {}, names=tuple(sorted(written.names))),
        notes=(*source.notes, *written.notes),
    )


def _open(subject: Subject) -> Any:
    runtime: Runtime = catalog().load("runtime", str(subject.document.runtime))
    return runtime.open(subject.files, subject.document, subject.allow)


def _remedy(step: Step) -> str:
    if step.options.get("precision") == "float32":
        return "convert in the source's own precision: leave --precision out"
    return "look at the worst rows in the report; allow a wider tolerance only if those rows cannot occur"
