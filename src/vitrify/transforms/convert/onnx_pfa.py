"""From ONNX to PFA: the graph as expressions of one row, trees as PFA's own.

What a graph does to each row becomes a document in pure PFA: constants in cells, float rounded as ONNX rounds it. A
graph that mixes rows is refused, and every operator that is not known is listed at once.

Source: https://dmg.org/pfa/docs/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats.onnx import Onnx
from vitrify.formats.pfa import Pfa, PfaDocument
from vitrify.transforms.convert._onnx_source import ports
from vitrify.transforms.convert._pfa.write import written

if TYPE_CHECKING:
    import onnx

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject


class OnnxToPfa:
    """The step from ``onnx`` to ``pfa``."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:
        """List every operator that a row cannot have, and every input that is no row; then try."""
        del step
        try:
            written(_model(source))
        except UnsupportedModelError as error:
            return error.problems or (Finding(place="graph", message=error.message, remedy=error.remedy),)
        return ()

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the document."""
        del step
        made = written(_model(source))
        kept = Pfa().write(PfaDocument(made.content), sink, None)
        entry = ports(source.document.entry)
        found: dict[str, Any] = {**kept.entry, **entry}
        for key, names in (("inputs", made.inputs), ("outputs", made.outputs)):
            given = entry.get(key) or {name: name for name in names}
            found[key] = {name: names[port] for name, port in given.items()}
        return Written(entry=found)


def _model(source: Subject) -> onnx.ModelProto:
    model: onnx.ModelProto = Onnx().read(source.files, source.document.entry, source.allow)
    return model
