"""Convert: plan the road, list what will not go, run it, prove every step.

Before a step does any work it lists everything that it cannot do. After it, the checks compare what came out
with what went in, and gate: if one of them finds something, there is no output artifact.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vitrify import containers, stores
from vitrify.artifacts.artifact import open_artifact
from vitrify.core import reference as references
from vitrify.core.catalog import catalog
from vitrify.core.errors import CheckFailedError, UsageError
from vitrify.transforms.executor import execute
from vitrify.transforms.planner import plan

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.plan import Fidelity, Plan
    from vitrify.core.protocols import Check, Subject
    from vitrify.core.report import Finding
    from vitrify.stores.oci_layout import OciLayout

PRECISIONS = ("source", "float32", "float64")


def convert(
    reference: str | Artifact,
    to: str = "onnx",
    *,
    name: str | None = None,
    precision: str = "source",
    opset: int | None = None,
    fidelity: Fidelity = "numeric",
    samples: Any = None,
    checks: Sequence[Check] | None = None,
    allow: Collection[str] = (),
    store: OciLayout | None = None,
) -> Artifact:
    """Convert an artifact and prove that the result predicts the same.

    Args:
        reference: What to convert.
        to: The target format's catalog name.
        name: The result's name; by default the source's with ``-onnx`` (or what ``to`` is) behind it.
        precision: ``source`` computes as the source does, cast for cast. ``float32`` is smaller and faster and
            must prove itself: where it does not hold, ``source`` is taken and the reason is noted.
        opset: ONNX operator set; by default what the runtime at hand reads.
        fidelity: The most that a step may change.
        samples: Rows to compare on instead of the golden samples, in any container; the probes are made from them.
        checks: By default parity.
        allow: Exact dotted names of code that may run while the source is opened.
        store: Where it lies and where the result goes; by default the user's store.

    Raises:
        UnsupportedModelError: No road leads there, or parts of the model cannot take it; all are listed.
        CheckFailedError: The result predicts otherwise; no artifact was made.
    """
    if precision not in PRECISIONS:
        msg = f"unknown precision {precision!r} (there are: {', '.join(PRECISIONS)})"
        raise UsageError(msg)
    where = store or stores.default_store()
    source = open_artifact(reference, store=where) if isinstance(reference, str) else reference
    signature = source.signature
    subject = source.subject(allow=allow)
    if samples is not None:
        subject = replace(subject, golden=containers.to_arrays(samples, signature))
    gates = (catalog().load("check", "parity"),) if checks is None else tuple(checks)
    tag = references.name(name) if name else _derived_name(source.name, to)
    road = _road(source, to, fidelity, precision, opset)
    if not road.steps:
        return source
    try:
        return execute(road, source, subject, checks=gates, store=where, name=tag)
    except CheckFailedError as error:
        if precision != "float32":
            raise
        noted = _noting(subject, f"float32 was asked for and did not hold: {error.report}")
        exact = _road(source, to, fidelity, "source", opset)
        return execute(exact, source, noted, checks=gates, store=where, name=tag)


def foresee(
    source: Artifact, to: str = "onnx", *, fidelity: Fidelity = "numeric", allow: Collection[str] = ()
) -> tuple[Plan, tuple[Finding, ...]]:
    """Return the plan, and everything that its first step cannot do with this model. Nothing is made."""
    road = _road(source, to, fidelity, "source", None)
    if not road.steps:
        return road, ()
    first = road.steps[0]
    return road, catalog().load("transform", first.transform).problems(source.subject(allow=allow), first)


def _road(source: Artifact, to: str, fidelity: Fidelity, precision: str, opset: int | None) -> Plan:
    options = {"precision": precision, **({"opset": opset} if opset else {})}
    return plan(source.document.format, to, fidelity=fidelity, options=options)


def _noting(subject: Subject, note: str) -> Subject:
    return replace(subject, document=subject.document.replace(notes=(*subject.document.notes, note)))


def _derived_name(name: str | None, target: str) -> str | None:
    if name is None:
        return None
    base, _, tag = name.partition(":")
    return f"{base}-{target}:{tag}"
