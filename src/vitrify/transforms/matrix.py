"""Matrix: one model to every target within reach, each proven and measured, so that one can choose by looking."""

from __future__ import annotations

import statistics
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from vitrify import containers, stores
from vitrify.artifacts.artifact import open_artifact
from vitrify.core.attestation import PARITY
from vitrify.core.errors import CheckFailedError, MissingDependencyError, VitrifyError
from vitrify.core.plan import Plan
from vitrify.core.progress import track
from vitrify.core.wire import Value
from vitrify.stores.oci_layout import OciLayout
from vitrify.transforms.conversion import gates, opened
from vitrify.transforms.executor import execute
from vitrify.transforms.planner import plan, reachable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.plan import Fidelity
    from vitrify.core.protocols import Arrays, Check, Session, Subject

BATCH = 256
"""Rows of the batch that is timed; the golden rows are repeated to fill it."""

_CALLS = 15
"""Calls timed, of which the median counts; the first ones are not timed."""
_WARM = 3

Verdict = Literal["source", "proven", "not checked", "refused", "not installed"]


class Form(Value, frozen=True, kw_only=True):
    """One form of the model, or why there is none.

    Attributes:
        target: Its format.
        road: The plan that leads there; None for the source itself.
        verdict: ``proven``, ``not checked`` (nothing here runs it; its structure is right), ``refused`` or
            ``not installed``; ``source`` for the model itself.
        why: What stands in the way, or was not checked.
        size: Bytes of its files.
        rows: Rows compared.
        error: The largest absolute error of all floating-point outputs.
        one_ms: Median time of a call with one row, in milliseconds.
        batch_ms: The same with ``BATCH`` rows.
        load_ms: Time to open it, its library once imported.
    """

    target: str
    road: Plan | None = None
    verdict: Verdict
    why: str = ""
    size: int | None = None
    rows: int | None = None
    error: float | None = None
    one_ms: float | None = None
    batch_ms: float | None = None
    load_ms: float | None = None


def matrix(
    reference: str | Artifact,
    *,
    targets: Collection[str] = (),
    fidelity: Fidelity = "numeric",
    samples: Any = None,
    checks: Sequence[Check] | None = None,
    allow: Collection[str] = (),
    store: OciLayout | None = None,
) -> tuple[Form, ...]:
    """Convert a model to every format within reach, prove and time each, and keep none.

    Args:
        reference: The model.
        targets: Formats to try; by default all that a road leads to.
        fidelity: The most that a step may change.
        samples: Rows to compare on instead of the golden samples.
        checks: By default parity.
        allow: Exact dotted names of code that may run.
        store: Where the model lies; by default the user's store.

    Returns:
        The source itself, then a form a target, by name.

    Raises:
        UnsupportedModelError: A named target is out of reach.
    """
    source = (
        open_artifact(reference, store=store or stores.default_store()) if isinstance(reference, str) else reference
    )
    roads = reachable(source.document.format, fidelity=fidelity, options={"precision": "source"})
    for name in sorted(set(targets) - roads.keys()):
        plan(source.document.format, name, fidelity=fidelity)  # its error says what is wrong
    chosen = {name: road for name, road in roads.items() if not targets or name in targets}
    subject, checked = opened(source, samples, allow), gates(checks)
    forms = [Form(target=source.document.format, verdict="source", **_measured(source, allow))]
    with TemporaryDirectory(prefix="vitrify-matrix-") as folder, track("trying every target", total=len(chosen)) as bar:
        known = _Known(source, subject, checked, OciLayout(Path(folder)))
        for name, road in chosen.items():
            forms.append(_form(known, name, road, allow))
            bar.advance()
    return tuple(forms)


class _Known:
    """What came of each road so far: roads to several targets begin with the same steps, which are taken once."""

    def __init__(self, source: Artifact, subject: Subject, checks: Sequence[Check], store: OciLayout) -> None:
        self._source, self._subject, self._checks, self._store = source, subject, checks, store
        self._made: dict[str, Artifact | VitrifyError] = {}

    def get(self, road: Plan) -> Artifact:
        """Return what lies at the end of a road.

        Raises:
            VitrifyError: Why nothing does, which may have been known of its beginning.
        """
        key = str(road)
        if key not in self._made:
            try:
                self._made[key] = self._make(road)
            except VitrifyError as error:
                self._made[key] = error
        made = self._made[key]
        if isinstance(made, VitrifyError):
            raise made
        return made

    def _make(self, road: Plan) -> Artifact:
        *before, last = road.steps
        begun = self.get(road.replace(target=last.source, steps=tuple(before))) if before else None
        return execute(
            road, self._source, self._subject, checks=self._checks, store=self._store, name=None, begun=begun
        )


def _form(known: _Known, target: str, road: Plan, allow: Collection[str]) -> Form:
    try:
        made = known.get(road)
    except MissingDependencyError as error:
        return Form(target=target, road=road, verdict="not installed", why=error.remedy)
    except VitrifyError as error:
        return Form(target=target, road=road, verdict="refused", why=reason(error))
    report = proof(made)
    if report["verdict"] != "clean":
        why = "; ".join(finding["message"] for finding in report.get("findings", ()))
        return Form(target=target, road=road, verdict="not checked", why=why, **_measured(made, allow))
    details = report["details"]
    errors = [output["absolute"]["max"] for output in details["outputs"].values() if output["kind"] == "float"]
    return Form(
        target=target,
        road=road,
        verdict="proven",
        rows=details["rows"]["compared"],
        error=max((float(error) for error in errors), default=0.0),
        **_measured(made, allow),
    )


def reason(error: VitrifyError) -> str:
    """Return in one line why there is no result: the first finding, and how many more there are."""
    problems = getattr(error, "problems", ()) or (error.report.findings if isinstance(error, CheckFailedError) else ())
    if not problems:
        return error.message.partition("\n")[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{problems[0].place}: {problems[0].message}{more}"


def proof(artifact: Artifact) -> dict[str, Any]:
    """Return the last parity report of a converted artifact, as JSON."""
    predicate = next(item.predicate for item in artifact.attestations if item.predicate_type == PARITY)
    reports: list[dict[str, Any]] = [report for report in predicate["reports"] if report["check"] == "parity"]
    return reports[-1]


def _measured(artifact: Artifact, allow: Collection[str]) -> dict[str, Any]:
    """Return size and times; times only of what runs here and has golden rows."""
    facts: dict[str, Any] = {"size": artifact.size}
    inputs, _ = artifact.golden()
    if artifact.document.runtime is None or not inputs:
        return facts
    artifact.session(allow=allow).close()  # imports its library
    started = time.perf_counter()
    session = artifact.session(allow=allow)
    facts["load_ms"] = _ms(time.perf_counter() - started)
    with closing(session):
        facts |= _times(session, inputs)
    return facts


def _times(session: Session, inputs: Arrays) -> dict[str, float]:
    fields = session.signature.inputs
    if not session.signature.batched:
        return {"one_ms": _call(session, inputs)}
    count = containers.rows(inputs, fields) or 1
    batch = containers.take(inputs, fields, [row % count for row in range(BATCH)])
    return {"one_ms": _call(session, containers.take(inputs, fields, [0])), "batch_ms": _call(session, batch)}


def _call(session: Session, inputs: Arrays) -> float:
    times = []
    for _ in range(_WARM + _CALLS):
        started = time.perf_counter()
        session.run(inputs)
        times.append(time.perf_counter() - started)
    return _ms(statistics.median(times[_WARM:]))


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 4)
