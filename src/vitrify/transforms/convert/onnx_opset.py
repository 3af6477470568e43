"""From ONNX to ONNX in another operator set or IR version, up and down, by ONNX's own converter.

Options: ``opset`` (of the standard's operators), ``ir_version``. An operator set brings the IR version and the
``ai.onnx.ml`` that were released with it, so that the runtimes of its time read the result: a newer ``ai.onnx.ml`` goes
down with it, an older one stays.

Source: https://onnx.ai/onnx/repo-docs/Versioning.html#released-versions; the versions are ``onnx.helper``'s.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import onnx
from onnx import helper, inliner, version_converter

from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats import _onnx_external
from vitrify.formats.onnx import Onnx
from vitrify.transforms.convert._clean.cleaning import clean, nodes, opset, provenance
from vitrify.transforms.convert._onnx_source import ports
from vitrify.transforms.convert._trees import older as _trees_older

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject

_ML = "ai.onnx.ml"
_FIRST_IR = 4
"""The first version whose initialisers need not be inputs as well."""

_FUNCTIONS = 8
"""The first version that has functions; they are inlined for older ones."""

_MAX_REASON = 400
_REMEDY = "ask for a later opset, or replace it in the source"


def require_known(options: Mapping[str, Any]) -> None:
    """Refuse versions that nobody has, before any work.

    Raises:
        UsageError: ``opset`` or ``ir_version`` is out of range.
    """
    for name, known in _known().items():
        if options.get(name) is not None:
            _number(options[name], name, known)


def _known() -> dict[str, range]:
    return {
        "opset": range(1, onnx.defs.onnx_opset_version() + 1),
        "ir_version": range(_FIRST_IR, int(onnx.IR_VERSION) + 1),
    }


class ChangeOpset:
    """The step from ``onnx`` to ``onnx``."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:
        """List the operators that the other set does not have, and what its converter cannot do."""
        model = Onnx().read(source.files, source.document.entry, source.allow)
        if (size := _onnx_external.size(model)) > _onnx_external.LIMIT:
            message = f"the weights are {size} bytes, more than ONNX's converter takes"
            return (Finding(place="model.onnx", message=message, remedy="export the source again in that opset"),)
        wanted = _Wanted(model, step)
        if found := wanted.problems():
            return found
        try:
            wanted.model()
        except UnsupportedModelError as error:
            return (Finding(place="model.onnx", message=error.message, remedy=error.remedy),)
        return ()

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the graph as ``model.onnx``.

        Raises:
            UnsupportedModelError: The converter cannot do it.
        """
        entry = source.document.entry
        before = Onnx().read(source.files, entry, source.allow)
        facts = {item.key: item.value for item in before.metadata_props}  # a model's vocabulary may be in them
        written = Onnx().write(clean(_Wanted(before, step).model(), {**provenance(source), **facts}), sink, None)
        kept = {key: entry[key] for key in ("precision",) if key in entry}
        return Written(entry={**written.entry, **ports(entry), **kept})


class _Wanted:
    """A model, and the versions that are asked for."""

    def __init__(self, model: onnx.ModelProto, step: Step) -> None:
        self._model = model
        known = _known()
        self.opset = _number(step.options.get("opset") or opset(model), "opset", known["opset"])
        row = next(row for row in helper.VERSION_TABLE if row[2] >= self.opset)
        held = {entry.domain: int(entry.version) for entry in model.opset_import}
        stays = self.opset == opset(model)
        self.ml = held.get(_ML, row[3]) if stays else min(held.get(_ML, row[3]), row[3])
        least = model.ir_version if stays else row[1]
        self.ir = _number(step.options.get("ir_version") or least, "ir_version", known["ir_version"])

    def problems(self) -> tuple[Finding, ...]:
        """List operators, and forests, that have no equal there."""
        plain = self._inlined()
        counts = Counter((node.domain, node.op_type) for node in nodes(plain.graph))
        ml = _trees_older.unfit(plain, self.ml) if self.ml < _trees_older.NEW else ()
        return (*ml, *self._unknown(counts), *self._unknown_attributes(nodes(plain.graph)))

    def model(self) -> onnx.ModelProto:
        """Return the model in the other versions.

        Raises:
            UnsupportedModelError: ONNX's converter or checker refuses it.
        """
        result = onnx.ModelProto()
        result.CopyFrom(self._inlined())
        if self.ml < _trees_older.NEW:
            _trees_older.older(result)
        if opset(result) != self.opset:
            result = _converted(result, self.opset)
        for entry in result.opset_import:
            if entry.domain == _ML:
                entry.version = self.ml
        result.ir_version = self.ir
        try:
            onnx.checker.check_model(result, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            msg = f"what ONNX's converter gives for opset {self.opset} is not valid: {str(error)[:_MAX_REASON]}"
            raise UnsupportedModelError(msg, remedy=_REMEDY) from error
        return result

    def _inlined(self) -> onnx.ModelProto:
        """Return the model without functions where their bodies have to change, or there would be none."""
        changes = self.opset != opset(self._model) or self.ir < _FUNCTIONS
        return inliner.inline_local_functions(self._model) if changes and self._model.functions else self._model

    def _unknown(self, counts: Counter[tuple[str, str]]) -> Iterable[Finding]:
        versions = {"": self.opset, "ai.onnx": self.opset, _ML: self.ml}
        for (domain, kind), count in sorted(counts.items()):
            if domain not in versions or (kind == "TreeEnsemble" and domain == _ML):
                continue
            where = "" if domain == "ai.onnx" else domain
            known = [one for one in onnx.defs.get_all_schemas_with_history() if (one.domain, one.name) == (where, kind)]
            first = min((one.since_version for one in known), default=0)
            there = [one for one in known if one.since_version <= versions[domain]]
            if known and (not there or max(there, key=lambda one: one.since_version).deprecated):
                message = f"{count} node(s); {domain or 'ai.onnx'} {versions[domain]} does not have it (first: {first})"
                yield Finding(place=kind, message=message, remedy=_REMEDY)

    def _unknown_attributes(self, listed: Iterable[onnx.NodeProto]) -> Iterable[Finding]:
        """List what nodes of ``ai.onnx.ml``, which ONNX's converter leaves alone, say that the older one cannot."""
        for node in listed:
            if node.domain != _ML or node.op_type == "TreeEnsemble":
                continue
            try:
                schema = onnx.defs.get_schema(node.op_type, self.ml, _ML)
            except onnx.defs.SchemaError:
                continue  # listed as unknown
            if more := sorted({one.name for one in node.attribute} - set(schema.attributes)):
                message = f"{node.op_type} of ai.onnx.ml {self.ml} has no {', '.join(more)}"
                yield Finding(place=node.name or node.output[0], message=message, remedy=_REMEDY)


def _converted(model: onnx.ModelProto, wanted: int) -> onnx.ModelProto:
    ends = [[value.name for value in side] for side in (model.graph.input, model.graph.output)]
    try:
        result = version_converter.convert_version(model, wanted)
    except Exception as error:
        reason = " ".join(str(error).split())[:_MAX_REASON]
        msg = f"ONNX's converter cannot bring opset {opset(model)} to {wanted}: {reason}"
        raise UnsupportedModelError(msg, remedy=_REMEDY) from error
    if ends != [[value.name for value in side] for side in (result.graph.input, result.graph.output)]:
        msg = f"ONNX's converter changed the inputs or outputs on the way to opset {wanted}"
        raise UnsupportedModelError(msg, remedy=_REMEDY)
    return result


def _number(asked: object, name: str, known: range) -> int:
    if isinstance(asked, int) and asked in known:
        return asked
    msg = f"{name} {asked!r} cannot be written (known are {known.start} to {known.stop - 1})"
    raise UsageError(msg, remedy="see which one the runtime that is to read it knows")
