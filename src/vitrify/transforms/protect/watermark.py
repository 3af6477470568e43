"""A watermark in weights: eight bytes that say whose copy it is, found from the weights and the key alone.

How it works, and why its p-value can be relied on, is in :mod:`._mark`; how much it survives is measured by
``benchmarks/watermark.py`` and stands in ``docs/how-to/protect.md``. It finds out who passed a copy on. It does not
stop anybody, and somebody who knows of it can destroy it: by training on, or by noise as large as the mark itself.

Options of the step: ``key`` (the id of the key), ``strength``.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify import stores
from vitrify.artifacts.artifact import open_artifact
from vitrify.checks.parity import Parity, Tolerance
from vitrify.core import reference as references
from vitrify.core.document import SCHEMA, Document
from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.core.plan import Plan, Step
from vitrify.core.protocols import Subject, Written
from vitrify.core.report import Finding
from vitrify.transforms import executor
from vitrify.transforms.conversion import opened
from vitrify.transforms.convert._onnx_source import ports
from vitrify.transforms.protect import _code, _mark, _weights
from vitrify.transforms.protect.key import ProtectKey, held, key_of
from vitrify.transforms.protect.obfuscation import derived_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.protocols import Check, Sink
    from vitrify.stores.oci_layout import OciLayout

STEPS = {"onnx": "protect-onnx-watermark", "safetensors": "protect-safetensors-watermark"}
FIDELITY = 0.01
"""How far predictions may move by default: of each value, and of the typical size of its output."""

_BYTES = 8
_SURE = -12.0
"""A mark that its own detector does not find with a p-value below ten to the power of this is not made."""

_payload: ContextVar[bytes | None] = ContextVar("vitrify_watermark_payload", default=None)
"""The id is no option of the step: what a step's options are, everybody can read in the artifact."""


@dataclass(frozen=True)
class Found:
    """What the detector says.

    Attributes:
        present: Whether the p-value is below 1e-6.
        payload: The id, eight bytes; None where none could be read.
        log10_p: The decimal logarithm of a bound on the probability that a key that has nothing to do with these
            weights agrees with them so well, at any id (where one was expected: at that id) and any strength.
        strength: Of the mark that agrees best.
        weights: How many weights were looked at.
    """

    present: bool
    payload: bytes | None
    log10_p: float
    strength: int
    weights: int

    @property
    def id(self) -> str:
        """The id as text where it is such, else as a hexadecimal number; empty where no mark is present."""
        if not self.present or self.payload is None:
            return ""
        text = self.payload.rstrip(b"\0").decode("ascii", errors="replace")
        return text if text and text.isascii() and text.isprintable() else f"0x{self.payload.hex()}"


def payload_of(text: str) -> bytes:
    """Return the eight bytes of an id: at most eight ASCII characters, or ``0x`` and at most 16 hex digits.

    Raises:
        UsageError: It is neither.
    """
    if text.startswith("0x"):
        try:
            return int(text, 16).to_bytes(_BYTES, "big")
        except (ValueError, OverflowError) as error:
            msg = f"id {text!r} is no number of at most 64 bits"
            raise UsageError(msg) from error
    if not 0 < len(text) <= _BYTES or not text.isascii() or not text.isprintable():
        msg = f"id {text!r} cannot be written (expected 1 to {_BYTES} printable ASCII characters, or 0x and hex digits)"
        raise UsageError(msg, remedy="keep a list of whom each short id stands for")
    return text.encode().ljust(_BYTES, b"\0")


def embed(
    reference: str | Artifact,
    key: ProtectKey,
    id: str,  # noqa: A002 (the field's own word)
    *,
    strength: int = 1,
    name: str | None = None,
    fidelity: float = FIDELITY,
    samples: Any = None,
    checks: Sequence[Check] | None = None,
    allow: Collection[str] = (),
    store: OciLayout | None = None,
) -> Artifact:
    """Mark the weights of an ONNX or safetensors artifact, and prove that its predictions stay within a tolerance.

    Args:
        reference: What to mark.
        key: Whoever has it can find the mark, and remove it.
        id: Whose copy it is; see :func:`payload_of`. It is in the weights alone.
        strength: 1 to 5. A weight changes by at most about 0.1 %, twice as much with each.
        name: The result's name; by default the source's with ``-marked`` behind it.
        fidelity: How far predictions may move, as a share of the value, and of its output's root mean square.
        samples: Rows to compare on instead of the golden samples.
        checks: By default parity within ``fidelity``; bare weights cannot predict, so that nothing is compared.
        allow: Exact names of operators from outside that may run.
        store: Where it lies and where the result goes; by default the user's store.

    Raises:
        UsageError: The id or the strength cannot be.
        UnsupportedModelError: Another format, or too few weights that are floats, or too coarse ones.
        CheckFailedError: Its predictions moved too far; no artifact was made.
    """
    payload = payload_of(id)
    if strength not in _mark.STRENGTHS:
        msg = f"strength {strength} (expected 1 to {_mark.STRENGTHS[-1]})"
        raise UsageError(msg)
    where = store or stores.default_store()
    source = open_artifact(reference, store=where) if isinstance(reference, str) else reference
    kind = source.document.format
    if kind not in STEPS:
        msg = f"{source} is {kind}; marks are put into {' and '.join(STEPS)} only"
        raise UnsupportedModelError(msg, remedy="convert it first: vitrify convert NAME --to onnx")
    tag = references.name(name) if name else derived_name(source.name, "marked")
    options = {"key": key.id, "strength": strength}
    step = Step(transform=STEPS[kind], source=kind, target=kind, fidelity="numeric", options=options)
    plan = Plan(source=kind, target=kind, steps=(step,))
    executor.require_plain(source)
    subject = opened(source, samples, allow) if source.document.signature else source.subject(allow=allow)
    gates = (Parity(_tolerance(source, fidelity)),) if checks is None else tuple(checks)
    with held(key), _carrying(payload):
        return executor.execute(plan, source, subject, checks=gates, store=where, name=tag)


def detect(
    reference: str | Artifact | Path,
    key: ProtectKey,
    *,
    id: str | None = None,  # noqa: A002 (the field's own word)
    allow: Collection[str] = (),
    store: OciLayout | None = None,
) -> Found:
    """Say whether weights carry a mark of this key; the model that was marked is not needed.

    Args:
        reference: An artifact of any format whose weights can be taken out, or a file of ONNX or safetensors.
        key: The key of the mark.
        id: The id that is expected: a weaker mark is then enough.
        allow: As for :func:`vitrify.open`.
        store: Where to look; by default the user's store.

    Raises:
        UnsupportedModelError: Nothing here can take its weights out.
    """
    subject = _subject(reference, allow, store)
    return detect_in(lambda: _weights.arrays(subject), key, id=id)


def detect_in(
    arrays: Any,
    key: ProtectKey,
    *,
    id: str | None = None,  # noqa: A002 (the field's own word)
) -> Found:
    """Say whether arrays carry a mark; ``arrays`` is called once a strength and returns them one after another."""
    secret = key.derive("mark")
    expected = None if id is None else payload_of(id)
    best: Found | None = None
    for strength in _mark.STRENGTHS:
        agreement = _mark.agreement(arrays(), secret, strength)
        payload = _code.decode(agreement.soft) if expected is None else expected
        chance = _mark.log10_p(agreement.exponent(payload), known=expected is not None)
        found = Found(chance < -6, payload, round(chance, 2), strength, agreement.weights)  # noqa: PLR2004 (the attribute's)
        if best is None or found.log10_p < best.log10_p:
            best = found
    assert best is not None
    return best


class _Marking:
    """What the two steps share."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:
        """Say what keeps a mark from being found again."""
        payload, secret, strength = _request(step)
        weights = list(_weights.arrays(source))
        count = sum(map(_mark.counts, weights))
        found = _mark.agreement((_mark.marked(array, secret, payload, strength) for array in weights), secret, strength)
        chance = _mark.log10_p(found.exponent(payload), known=False)
        if chance <= _SURE and _code.decode(found.soft) == payload:
            return ()
        message = f"{count} weights that can carry a mark, and it would not be found again (p = 1e{chance:.0f})"
        coarse = any(array.dtype.itemsize == 2 for array in weights)  # noqa: PLR2004 (bytes of a half)
        remedy = "mark it more strongly: --strength 4" if coarse else "a model needs some 500 different float weights"
        return (Finding(place="weights", message=message, remedy=remedy),)


class MarkOnnx(_Marking):
    """The step from ``onnx`` to ``onnx``."""

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the graph with marked tensors as ``model.onnx``."""
        from vitrify.formats.onnx import Onnx

        payload, secret, strength = _request(step)
        model, entry = _weights.read_onnx(source), source.document.entry
        for tensor in _weights.onnx_tensors(model):
            _weights.put(tensor, _mark.marked(_weights.to_array(tensor), secret, payload, strength))
        written = Onnx().write(model, sink, None)
        kept: dict[str, Any] = {key: entry[key] for key in ("precision", "labels") if key in entry}
        return Written(entry={**written.entry, **ports(entry), **kept})


class MarkSafetensors(_Marking):
    """The step from ``safetensors`` to ``safetensors``."""

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the tensors; those that were one tensor under two names still are."""
        from vitrify.formats._safetensors.write import write_tensors

        payload, secret, strength = _request(step)
        made: dict[int, Any] = {}

        def change(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            return _mark.marked(values, secret, payload, strength)

        tensors = _weights.named(source)
        for value in tensors.values():
            if id(value) not in made:
                made[id(value)] = _weights.replaced(value, change)
        entry, notes = write_tensors({name: made[id(value)] for name, value in tensors.items()}, sink)
        return Written(entry=entry, notes=notes)


def _request(step: Step) -> tuple[bytes, bytes, int]:
    """Return what is to be embedded, with which secret and how strongly."""
    payload = _payload.get()
    if payload is None:
        msg = f"the step {step.transform} needs an id, which is not at hand"
        raise UsageError(msg, remedy="run it with its key and id: vitrify protect watermark --help")
    return payload, key_of(step).derive("mark"), int(step.options["strength"])


@contextmanager
def _carrying(payload: bytes) -> Iterator[None]:
    token = _payload.set(payload)
    try:
        yield
    finally:
        _payload.reset(token)


def _tolerance(source: Artifact, fidelity: float) -> Tolerance:
    """Return the tolerance of an artifact whose outputs have these sizes; the smallest of them counts."""
    sizes = [
        float(np.sqrt(np.mean(np.square(output[np.isfinite(output)].astype(np.float64)))))
        for output in source.golden()[1].values()
        if output.dtype.kind == "f" and np.isfinite(output).any()
    ]
    return Tolerance(fidelity, fidelity * min((size for size in sizes if size > 0), default=1.0))


def _subject(reference: str | Artifact | Path, allow: Collection[str], store: OciLayout | None) -> Subject:
    if isinstance(reference, str):
        return open_artifact(reference, store=store).subject(allow=allow)
    if not isinstance(reference, Path):
        return reference.subject(allow=allow)
    from vitrify.inspection.identify import files_at, identify_one

    one = identify_one(files_at(reference), where=str(reference))
    if one.row.name not in STEPS:
        msg = f"{reference} is a {one.row.name} file; weights are taken from files of {' and '.join(STEPS)}"
        raise UnsupportedModelError(msg, remedy="pack it, and name the artifact: vitrify pack FILE NAME")
    return Subject(one.files, Document(schema=SCHEMA, format=one.row.name, runtime=None, entry=one.entry), {})
