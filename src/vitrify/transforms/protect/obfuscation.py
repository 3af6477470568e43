"""Obfuscation of an ONNX graph: every name that its users do not need is replaced, and every note goes.

Renamed: nodes, intermediate values and initialisers (in branches, bodies, functions and training graphs, too), what
quantisation annotations and sharding say of them, functions with their domains and attributes, sizes that no input
or output shows, graphs. Dropped: doc strings, metadata, producer, denotations, the names of constants. Kept: the
inputs and outputs (with ``inputs``, renamed as well: the artifact's entry then leads from the signature to them),
operators and their domains, and all data: weights, constants, class labels.

So it hides what the parts of a model are called and where it came from. It does not hide its structure, its weights or
its labels: whoever knows the architecture recognises it. Encrypt it, if that matters.

Options of the step: ``key`` (the id of the key), ``inputs``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify import stores
from vitrify.artifacts.artifact import open_artifact
from vitrify.checks.parity import Parity, Tolerance
from vitrify.core import reference as references
from vitrify.core.errors import UnsupportedModelError
from vitrify.core.plan import Plan, Step
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.transforms import executor
from vitrify.transforms.conversion import opened
from vitrify.transforms.convert._onnx_source import ports
from vitrify.transforms.protect._names import Names, Renaming, nodes, unknown_fields
from vitrify.transforms.protect.key import ProtectKey, held, key_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import onnx

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.protocols import Check, Sink, Subject
    from vitrify.stores.oci_layout import OciLayout

NAME = "protect-onnx-names"
_STANDARD = frozenset({"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training"})


def obfuscate(
    reference: str | Artifact,
    key: ProtectKey,
    *,
    name: str | None = None,
    inputs: bool = False,
    samples: Any = None,
    checks: Sequence[Check] | None = None,
    allow: Collection[str] = (),
    store: OciLayout | None = None,
) -> Artifact:
    """Replace the names in an ONNX artifact, and prove that the result predicts the same to the bit.

    Args:
        reference: What to obfuscate.
        key: The names are derived from it: the same key gives the same names, :func:`mapping` leads back.
        name: The result's name; by default the source's with ``-obfuscated`` behind it.
        inputs: Rename inputs and outputs in the graph, too; the artifact's signature keeps its names.
        samples: Rows to compare on instead of the golden samples.
        checks: By default parity without any tolerance.
        allow: Exact names of operators from outside that may run.
        store: Where it lies and where the result goes; by default the user's store.

    Raises:
        UnsupportedModelError: It is not ONNX, or has parts in which names cannot be told from data; all are listed.
        CheckFailedError: The result predicts otherwise; no artifact was made.
    """
    where = store or stores.default_store()
    source = open_artifact(reference, store=where) if isinstance(reference, str) else reference
    if source.document.format != "onnx":
        msg = f"{source} is {source.document.format}; names are replaced in ONNX graphs only"
        raise UnsupportedModelError(msg, remedy="convert it first: vitrify convert NAME --to onnx")
    tag = references.name(name) if name else derived_name(source.name, "obfuscated")
    options = {"key": key.id, "inputs": inputs}
    step = Step(transform=NAME, source="onnx", target="onnx", fidelity="exact", options=options)
    plan = Plan(source="onnx", target="onnx", steps=(step,))
    gates = (Parity(Tolerance(0.0, 0.0)),) if checks is None else tuple(checks)
    with held(key):
        return executor.execute(plan, source, opened(source, samples, allow), checks=gates, store=where, name=tag)


def mapping(reference: str | Artifact, key: ProtectKey, *, inputs: bool = False, store: OciLayout | None = None) -> Any:
    """Return the old names by the new ones, by kind (``value``, ``node``, ...), of a source that is at hand.

    Raises:
        UnsupportedModelError: It is not ONNX.
    """
    source = open_artifact(reference, store=store) if isinstance(reference, str) else reference
    model = _read(source.subject())
    names = _names(model, key, inputs=inputs)
    Renaming(names, model).apply(model)
    return names.known()


def derived_name(name: str | None, what: str) -> str | None:
    """Return what a protected artifact is called by default."""
    if name is None:
        return None
    base, _, tag = name.partition(":")
    return f"{base}-{what}:{tag}"


class ObfuscateOnnx:
    """The step from ``onnx`` to ``onnx``."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:  # noqa: ARG002 (the protocol's)
        """List texts of which nobody can say whether they name something."""
        model = _read(source)
        return (*_unknown(model), *_ambiguous(model))

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the graph as ``model.onnx``.

        Raises:
            UsageError: The key that the step names is not at hand.
        """
        from vitrify.formats.onnx import Onnx

        model, entry = _read(source), source.document.entry
        inputs = bool(step.options.get("inputs"))
        names = _names(model, key_of(step), inputs=inputs)
        led = _led(model, source, names) if inputs else {}
        Renaming(names, model).apply(model)
        written = Onnx().write(model, sink, None)
        kept: dict[str, Any] = {key: entry[key] for key in ("precision", "labels") if key in entry}
        return Written(entry={**written.entry, **ports(entry), **kept, **led})


def _read(source: Subject) -> onnx.ModelProto:
    from vitrify.formats.onnx import Onnx

    return Onnx().read(source.files, source.document.entry, source.allow)


def _names(model: onnx.ModelProto, key: ProtectKey, *, inputs: bool) -> Names:
    """Return the names of a model, of which the ends stay, and the sizes that they show."""
    ends = [] if inputs else _ends(model)
    sizes = {
        dimension.dim_param
        for value in (*model.graph.input, *model.graph.output)
        for dimension in value.type.tensor_type.shape.dim
    }
    return Names(key.derive("names"), {"value": {value.name for value in ends}, "size": sizes})


def _ends(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return inputs and outputs; old models list their initialisers as inputs, which are none of a signature's."""
    held_ = {tensor.name for tensor in model.graph.initializer}
    held_ |= {sparse.values.name for sparse in model.graph.sparse_initializer}
    return [*(value for value in model.graph.input if value.name not in held_), *model.graph.output]


def _led(model: onnx.ModelProto, source: Subject, names: Names) -> dict[str, dict[str, str]]:
    """Return the entry's keys that lead from the signature's names to the new ones."""
    entry, signature = source.document.entry, source.document.signature
    found: dict[str, dict[str, str]] = {}
    for side, values in (("inputs", model.graph.input), ("outputs", model.graph.output)):
        graph = [value.name for value in values]
        fields = [field.name for field in getattr(signature, side)] if signature else graph
        plain = dict(zip(fields, fields if set(fields) == set(graph) else graph, strict=False))
        before = entry.get(side) or plain
        found[side] = {field: names.new("value", str(name)) for field, name in before.items()}
    return found


def _unknown(model: onnx.ModelProto) -> list[Finding]:
    remedy = "update vitrify, or save the model with an older onnx"
    return [
        Finding(place=field, message="this version does not know what this text is", remedy=remedy)
        for field in unknown_fields(model)
    ]


def _ambiguous(model: onnx.ModelProto) -> list[Finding]:
    """List text attributes of operators from outside that are equal to a name: they may mean it."""
    every = list(nodes(model))
    known = {name for node in every for name in (*node.input, *node.output) if name}
    local = {(function.domain, function.name) for function in model.functions}
    return [
        Finding(
            place=node.name or node.op_type,
            message=f"its attribute {attribute.name!r} is equal to the name of a value, and may mean it",
            remedy="rename that value in the source, or leave this model's names as they are",
        )
        for node in every
        if node.domain not in _STANDARD and (node.domain, node.op_type) not in local
        for attribute in node.attribute
        if any(text.decode(errors="replace") in known for text in (attribute.s, *attribute.strings))
    ]
