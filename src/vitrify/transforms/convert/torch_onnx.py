"""From an exported PyTorch program to ONNX, by PyTorch's own exporter (``torch.onnx.export(dynamo=True)``).

The graph's inputs and outputs have the signature's names, and dimensions that may change keep theirs.

Options: ``precision`` (``source``, or ``float32`` to compute in single precision throughout), ``opset``.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats._torch.quiet import quiet
from vitrify.formats.onnx import Onnx
from vitrify.formats.torch_export import read_program
from vitrify.transforms.convert._float32 import to_float32
from vitrify.transforms.convert._model import opset_of

if TYPE_CHECKING:
    import onnx

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject

_PRECISIONS = ("source", "float32")
_IR = 10
"""What the oldest ONNX Runtime that Vitrify supports (1.20) reads."""

_NO_KERNELS = (torch.bfloat16, torch.complex64, torch.complex128)
_MAX_REASON = 400


class TorchToOnnx:
    """The step from ``torch-export`` to ``onnx``."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:
        """List every operator that the exporter has no translation for, and every type that ONNX Runtime lacks."""
        _precision(step)
        program = read_program(source.files, source.document.entry, source.allow)
        return (*_type_problems(program), *_operator_problems(program, opset_of(step.options)))

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the ONNX model."""
        entry = source.document.entry
        program = read_program(source.files, entry, source.allow)
        model = _export(program, list(entry["inputs"]), list(entry["outputs"]), opset_of(step.options))
        if _precision(step) == "float32":
            model = to_float32(model)
        _finish(model, source)
        names = {
            "inputs": {name: name for name in entry["inputs"]},
            "outputs": {name: name for name in entry["outputs"]},
        }
        written = Onnx().write(model, sink, None)
        return Written(entry={**written.entry, **names}, notes=written.notes)


def _precision(step: Step) -> str:
    precision = step.options.get("precision") or "source"
    if precision not in _PRECISIONS:
        msg = f"precision {precision!r} cannot be asked for (known: {', '.join(_PRECISIONS)})"
        raise UsageError(msg, remedy="leave it out to keep the module's own precision")
    return str(precision)


def _type_problems(program: torch.export.ExportedProgram) -> list[Finding]:
    found: Counter[torch.dtype] = Counter()
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.dtype in _NO_KERNELS:
            found[value.dtype] += 1
    return [
        Finding(
            place=str(dtype),
            message=f"{count} value(s) of this type, and ONNX Runtime computes with none on the CPU",
            remedy="convert the module first, for example with module.float()",
        )
        for dtype, count in found.items()
    ]


def _operator_problems(program: torch.export.ExportedProgram, opset: int) -> list[Finding]:
    """Ask the exporter's own registry, after its own decompositions: what it will not find then, it does not have."""
    from torch.onnx._internal.exporter import _core

    registry = _registry(opset)
    missing = _untranslated(program.graph_module, registry)
    if missing:  # some may still decompose into operators that have a translation
        with quiet():
            decomposed = _core._prepare_exported_program_for_export(program, registry=registry)  # noqa: SLF001 (no public way)
        missing = _untranslated(decomposed.graph_module, registry)
    remedy = "replace it in forward by operators that ONNX has, or keep the torch-export form"
    return [
        Finding(place=name, message=f"no ONNX translation ({count} call(s))", remedy=remedy)
        for name, count in sorted(missing.items())
    ]


def _untranslated(module: torch.fx.GraphModule, registry: Any) -> Counter[str]:
    """Count the operators of a graph, and of the graphs inside it, that have no translation."""
    from torch.onnx._internal.exporter import _dispatching

    graphs = [part.graph for part in module.modules() if isinstance(part, torch.fx.GraphModule)]
    return Counter(
        str(node.target)
        for graph in graphs
        for node in graph.nodes
        if node.op == "call_function"
        and isinstance(node.target, torch._ops.OpOverload)  # noqa: SLF001 (no public name)
        and _dispatching.dispatch(node, registry)[0] is None
    )


@cache
def _registry(opset: int) -> Any:
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    with quiet():
        return ONNXRegistry.from_torchlib(opset_version=opset)


def _export(
    program: torch.export.ExportedProgram, inputs: list[str], outputs: list[str], opset: int
) -> onnx.ModelProto:
    try:
        with quiet(), torch.no_grad():
            exported = torch.onnx.export(
                program, dynamo=True, input_names=inputs, output_names=outputs, opset_version=opset, verbose=False
            )
            return exported.model_proto
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        msg = f"torch.onnx cannot translate this program: {type(cause).__name__}: {str(cause)[:_MAX_REASON]}"
        raise UnsupportedModelError(msg, remedy="keep the torch-export form, or simplify forward") from error


def _finish(model: onnx.ModelProto, source: Subject) -> None:
    """Give dimensions the signature's names, say where the graph comes from, and drop the exporter's notes."""
    entry, signature = source.document.entry, source.document.signature
    shapes: dict[str, Any] = {name: tuple(shape) for name, shape in entry["shapes"].items()}
    shapes |= {field.name: field.shape for field in signature.inputs} if signature else {}
    for value in (*model.graph.input, *model.graph.output):
        for dimension, size in zip(value.type.tensor_type.shape.dim, shapes[value.name], strict=True):
            if isinstance(size, str):
                dimension.dim_param = size
    for part in (model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    model.ir_version = min(model.ir_version, _IR)
    model.ClearField("metadata_props")
    for key, value in (("vitrify.source", "torch-export"), ("vitrify.torch", torch.__version__)):
        model.metadata_props.add(key=key, value=value)
