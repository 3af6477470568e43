"""From TFLite to ONNX, by tf2onnx over the flat buffer. Quantised tensors are computed as the integers they are."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from vitrify.core.protocols import Written
from vitrify.formats.onnx import Onnx
from vitrify.formats.tflite import TFLite
from vitrify.runtimes.litert import ports_of
from vitrify.transforms.convert._once import Once
from vitrify.transforms.convert._tf2onnx import OPSET, made, named, sized

if TYPE_CHECKING:
    import onnx

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject
    from vitrify.core.report import Finding

_CARRIED = ("inputs", "outputs", "missing_text", "casts", "labels")


class TfLiteToOnnx:
    """The step from ``tflite`` to ``onnx``."""

    def __init__(self) -> None:
        """Start with nothing converted."""
        self._once = Once(_converted)

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:  # noqa: ARG002 (the protocol's)
        """List every operator that tf2onnx leaves over."""
        return self._once.problems(source)

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:  # noqa: ARG002 (the protocol's)
        """Write the ONNX model."""
        written = Onnx().write(self._once.model(source), sink, None)
        entry = source.document.entry
        carried = {key: entry[key] for key in _CARRIED if key in entry}
        return Written(entry={**written.entry, **carried}, notes=written.notes)


def _converted(source: Subject) -> onnx.ModelProto:
    """Return the ONNX model.

    Raises:
        UnsupportedModelError: An operator has no form in ONNX.
    """
    import tf2onnx  # not before TensorFlow, which is loaded quietly

    model = TFLite().read(source.files, source.document.entry, source.allow)
    with tempfile.TemporaryDirectory(prefix="vitrify-") as folder:
        path = Path(folder, "model.tflite")
        path.write_bytes(model.content)
        proto = made(lambda: tf2onnx.convert.from_tflite(str(path), opset=OPSET))
    inputs, outputs = ports_of(model.content)
    proto = named(proto, inputs, outputs, "tflite")
    if source.document.signature is not None:
        entry, signature = source.document.entry, source.document.signature
        names = {**entry.get("inputs", {}), **entry.get("outputs", {})}
        fields = (*signature.inputs, *signature.outputs)
        sized((*proto.graph.input, *proto.graph.output), {names.get(one.name, one.name): one.shape for one in fields})
    return proto
