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
from vitrify.transforms import executor
from vitrify.transforms.planner import plan

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.errors import VitrifyError
    from vitrify.core.plan import Fidelity, Plan
    from vitrify.core.protocols import Check, Subject
    from vitrify.stores.oci_layout import OciLayout

PRECISIONS = ("source", "float32", "float64")


def convert(
    reference: str | Artifact,
    to: str = "onnx",
    *,
    name: str | None = None,
    precision: str = "source",
    opset: int | None = None,
    ir_version: int | None = None,
    fidelity: Fidelity = "numeric",
    via: Sequence[str] = (),
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
        ir_version: Version of ONNX's file format; by default the one that came with the operator set.
        fidelity: The most that a step may change.
        via: Formats that the road must pass, in this order.
        samples: Rows to compare on instead of the golden samples, in any container; the probes are made from them.
        checks: By default parity. Where nothing here can run the result, its structure is checked instead, and its
            parity report says ``not checked``.
        allow: Exact dotted names of code that may run while the source is opened.
        store: Where it lies and where the result goes; by default the user's store.

    Raises:
        UnsupportedModelError: No road leads there, or parts of the model cannot take it; all are listed.
        CheckFailedError: The result predicts otherwise; no artifact was made.
    """
    where = store or stores.default_store()
    source = open_artifact(reference, store=where) if isinstance(reference, str) else reference
    _ = source.signature  # bare weights are refused here
    tag = references.name(name) if name else _derived_name(source.name, to)
    road = _road(source, to, fidelity, via, _options(precision, opset, ir_version))
    if not road.steps:
        return source
    subject = opened(source, samples, allow)
    try:
        return executor.execute(road, source, subject, checks=gates(checks), store=where, name=tag)
    except CheckFailedError as error:
        if precision != "float32":
            raise
        noted = _noting(subject, f"float32 was asked for and did not hold: {error.report}")
        exact = _road(source, to, fidelity, via, _options("source", opset, ir_version))
        return executor.execute(exact, source, noted, checks=gates(checks), store=where, name=tag)


def foresee(
    source: Artifact,
    to: str = "onnx",
    *,
    precision: str = "source",
    opset: int | None = None,
    ir_version: int | None = None,
    fidelity: Fidelity = "numeric",
    via: Sequence[str] = (),
    samples: Any = None,
    allow: Collection[str] = (),
) -> tuple[Plan, VitrifyError | None]:
    """Return the plan, and the error that stands in its way, which lists everything that a step cannot do.

    All steps but the last are taken to know that, without proof; nothing of it is kept.

    Raises:
        UnsupportedModelError: No road leads there.
        SignatureError: The samples do not fit.
    """
    road = _road(source, to, fidelity, via, _options(precision, opset, ir_version))
    return road, executor.foresee(road, opened(source, samples, allow), source.store) if road.steps else None


def opened(source: Artifact, samples: Any = None, allow: Collection[str] = ()) -> Subject:
    """Return an artifact to convert, with all samples to compare on."""
    executor.require_plain(source)
    signature = source.signature
    subject = source.subject(allow=allow)
    return subject if samples is None else replace(subject, golden=containers.to_arrays(samples, signature))


def gates(checks: Sequence[Check] | None) -> tuple[Check, ...]:
    """Return the checks that a result has to pass: by default parity."""
    return (catalog().load("check", "parity"),) if checks is None else tuple(checks)


def _road(source: Artifact, to: str, fidelity: Fidelity, via: Sequence[str], options: dict[str, Any]) -> Plan:
    return plan(source.document.format, to, fidelity=fidelity, via=via, options=options)


def _options(precision: str, opset: int | None, ir_version: int | None) -> dict[str, Any]:
    if precision not in PRECISIONS:
        msg = f"unknown precision {precision!r} (there are: {', '.join(PRECISIONS)})"
        raise UsageError(msg)
    versions = {"opset": opset, "ir_version": ir_version}
    return {"precision": precision, **{name: version for name, version in versions.items() if version is not None}}


def _noting(subject: Subject, note: str) -> Subject:
    return replace(subject, document=subject.document.replace(notes=(*subject.document.notes, note)))


def _derived_name(name: str | None, target: str) -> str | None:
    if name is None:
        return None
    base, _, tag = name.partition(":")
    return f"{base}-{target}:{tag}"
