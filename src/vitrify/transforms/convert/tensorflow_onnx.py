"""From a saved model to ONNX, by tf2onnx over the frozen graph of its signature; nothing of TensorFlow is left in it.

Inputs and outputs have the saved model's names, and sizes that may change the signature's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.protocols import Written
from vitrify.formats._tensorflow.loaded import tf
from vitrify.formats._tensorflow.serving import declared
from vitrify.formats.onnx import Onnx
from vitrify.formats.saved_model import SavedModel
from vitrify.transforms.convert._once import Once
from vitrify.transforms.convert._tf2onnx import OPSET, guard_pools, made, named, sized

if TYPE_CHECKING:
    import onnx

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject
    from vitrify.core.report import Finding

_CARRIED = ("missing_text", "casts", "labels")


class SavedModelToOnnx:
    """The step from ``saved-model`` to ``onnx``."""

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
        carried = {key: entry[key] for key in (*_CARRIED, "inputs", "outputs") if key in entry}
        return Written(entry={**written.entry, **carried}, notes=written.notes)


def _converted(source: Subject) -> onnx.ModelProto:
    """Return the ONNX model.

    Raises:
        UnsupportedModelError: An operator has no form in ONNX.
    """
    import tf2onnx  # not before TensorFlow, which is loaded quietly

    model = SavedModel().read(source.files, source.document.entry, source.allow)
    function = declared(model)
    specs, gives = dict(function.structured_input_signature[1]), sorted(function.structured_outputs)

    def serve(*given: Any) -> Any:
        answers = function(**dict(zip(specs, given, strict=True)))
        return tuple(tf.identity(answers[name]) for name in gives)

    signature = [tf.TensorSpec(spec.shape, spec.dtype, name=name) for name, spec in specs.items()]
    traced = tf.function(serve, autograph=False, input_signature=signature)
    proto = made(lambda: tf2onnx.convert.from_function(traced, input_signature=signature, opset=OPSET))
    guard_pools(proto)
    outputs = dict(zip((value.name for value in proto.graph.output), gives, strict=True))
    inputs = {value.name: value.name.partition(":")[0] for value in proto.graph.input}
    proto = named(proto, inputs, outputs, "saved-model")
    _size(proto, source)
    return proto


def _size(proto: onnx.ModelProto, source: Subject) -> None:
    signature, entry = source.document.signature, source.document.entry
    if signature is None:
        return
    names = {**entry.get("inputs", {}), **entry.get("outputs", {})}
    fields = (*signature.inputs, *signature.outputs)
    sized((*proto.graph.input, *proto.graph.output), {names.get(one.name, one.name): one.shape for one in fields})
