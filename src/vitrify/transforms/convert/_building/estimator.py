"""The transform that scikit-learn's models and the boosters share: walk through the model, write what came out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.catalog import catalog
from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.transforms.convert._building.graph import TEXT, Graph, Precision, onnx_type
from vitrify.transforms.convert._building.model import opset_of, to_model, used_inputs
from vitrify.transforms.convert._building.ports import Ports, declare_inputs, declare_outputs
from vitrify.transforms.convert._building.steps import Steps
from vitrify.transforms.convert._clean.cleaning import provenance

if TYPE_CHECKING:
    from onnx import ModelProto

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject

_PRECISIONS: tuple[Precision, ...] = ("source", "float32", "float64")


class EstimatorToOnnx:
    """From a fitted estimator to an ONNX graph that computes as it does.

    Options of the step: ``precision`` (``source``, ``float32`` or ``float64``) and ``opset``.
    """

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:
        """List every step of the model, and every input, that cannot be converted."""
        return _Conversion(source, step).problems

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the graph as ``model.onnx``.

        Raises:
            UnsupportedModelError: Something cannot be converted; everything is listed.
        """
        conversion = _Conversion(source, step)
        if conversion.problems:
            msg = f"{conversion.name} cannot be converted to ONNX"
            raise UnsupportedModelError(msg, problems=conversion.problems)
        model = conversion.model()
        written: Written = catalog().load("format", "onnx").write(model, sink, None)
        versions = {"opset": conversion.opset, "ir": model.ir_version}
        return Written(
            entry={**written.entry, **conversion.entry(), **versions}, notes=(*written.notes, *conversion.notes)
        )


class _Conversion:
    """One walk through one model."""

    def __init__(self, source: Subject, step: Step) -> None:
        self._precision = _precision(step)
        self._source = source
        self._ports = Ports()
        self.notes: tuple[str, ...] = ()
        self.opset = opset_of(step.options)
        self._graph = Graph(self.opset, self._precision)
        model = _native(source)
        self.name = type(model).__name__
        self.problems = self._walk(model)

    def _walk(self, model: Any) -> tuple[Finding, ...]:
        signature = self._source.document.signature
        if signature is None or not signature.outputs:
            remedy = "save the model with an example: save(model, name, example=X[:100])"
            return (Finding(place="signature", message="there is none: the graph's types are unknown", remedy=remedy),)
        data, unfit = declare_inputs(self._graph, signature, self._ports)
        steps = Steps(self._graph)
        outcome = steps.run(model, data, self.name.lower(), "")
        self.notes = tuple(dict.fromkeys(steps.notes))
        problems = tuple(steps.problems)
        if not problems:
            try:
                declare_outputs(self._graph, signature, outcome, self._ports)
            except UnsupportedModelError as error:
                place = f"{self.name.lower()} ({self.name})"
                problems = (Finding(place=place, message=error.message, remedy=error.remedy),)
        used = used_inputs(self._graph)
        self._ports.inputs = {name: value for name, value in self._ports.inputs.items() if value in used}
        return (*(finding for name, finding in unfit.items() if name in used), *problems)

    def model(self) -> ModelProto:
        """Return the finished model."""
        properties = provenance(self._source, self._precision, source_class=self.name)
        return to_model(self._graph, name=self.name, properties=properties)

    def entry(self) -> dict[str, Any]:
        """Return what the runtime must know."""
        ports = self._ports
        entry: dict[str, Any] = {
            "inputs": ports.inputs,
            "outputs": ports.outputs,
            "casts": ports.casts,
            "precision": self._precision,
        }
        fed = [value for value in self._graph.inputs if value.name in ports.inputs.values()]
        if any(value.type.tensor_type.elem_type == onnx_type(TEXT) for value in fed):
            entry["missing_text"] = ports.missing_text
        return entry


def _native(source: Subject) -> Any:
    if source.native is not None:
        return source.native
    document = source.document
    return catalog().load("format", document.format).read(source.files, document.entry, source.allow)


def _precision(step: Step) -> Precision:
    asked = step.options.get("precision", "source")
    for precision in _PRECISIONS:
        if asked == precision:
            return precision
    msg = f"unknown precision {asked!r} (there are: {', '.join(_PRECISIONS)})"
    raise UsageError(msg)
