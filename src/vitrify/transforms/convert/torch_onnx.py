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
from vitrify.formats._torch.caller import names, ports
from vitrify.formats._torch.quiet import quiet
from vitrify.formats.onnx import Onnx
from vitrify.formats.torch_export import read_program
from vitrify.transforms.convert._building.float32 import to_float32
from vitrify.transforms.convert._building.model import opset_of
from vitrify.transforms.convert._clean.cleaning import clean, provenance
from vitrify.transforms.convert._torch_attention import written_out

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        precision_of(step)
        program = read_program(source.files, source.document.entry, source.allow)
        return (*_type_problems(program), *_operator_problems(program, opset_of(step.options)))

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the ONNX model."""
        entry = source.document.entry
        program = written_out(read_program(source.files, entry, source.allow))
        model = _export(program, *names(entry, program), opset_of(step.options))
        if precision_of(step) == "float32":
            model = to_float32(model)
        name_sizes(model, _shapes(source))
        facts = provenance(source, precision_of(step), torch=torch.__version__)
        written = Onnx().write(clean(model, facts), sink, None)
        return Written(entry={**written.entry, **ports(entry)}, notes=written.notes)


def precision_of(step: Step) -> str:
    """Return the precision that was asked for.

    Raises:
        UsageError: It is none of those that this step knows.
    """
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
    if all(_decomposes(target, opset) for target in missing):  # into what the exporter translates, or else will name
        return []
    if missing:
        with quiet():
            decomposed = _core._prepare_exported_program_for_export(program, registry=registry)  # noqa: SLF001 (no public way)
        missing = _untranslated(decomposed.graph_module, registry)
    remedy = "replace it in forward by operators that ONNX has, or keep the torch-export form"
    return [
        Finding(place=str(target), message=f"no ONNX translation ({count} call(s))", remedy=remedy)
        for target, count in sorted(missing.items(), key=lambda item: str(item[0]))
    ]


def _decomposes(target: torch._ops.OpOverload, opset: int) -> bool:
    """Say whether the exporter takes an operator apart: by its table, or as PyTorch itself does."""
    implicit = torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd")  # noqa: SLF001 (no public way)
    return bool(implicit) or target in _table(opset)


@cache
def _table(opset: int) -> Any:
    from torch.onnx._internal.exporter import _decomp

    translated = set(_decomp.get_onnx_implemented_overloads(_registry(opset)))
    return _decomp.create_onnx_friendly_decomposition_table(translated)


def _untranslated(module: torch.fx.GraphModule, registry: Any) -> Counter[torch._ops.OpOverload]:
    """Count the operators of a graph, and of the graphs inside it, that have no translation."""
    from torch.onnx._internal.exporter import _dispatching

    graphs = [part.graph for part in module.modules() if isinstance(part, torch.fx.GraphModule)]
    return Counter(
        node.target
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


def _shapes(source: Subject) -> dict[str, tuple[int | str, ...]]:
    """Return the signature's shapes by the names in the graph."""
    entry, signature = source.document.entry, source.document.signature
    shapes: dict[str, tuple[int | str, ...]] = {name: tuple(shape) for name, shape in entry["shapes"].items()}
    inner = ports(entry)["inputs"]
    for field in signature.inputs if signature else ():
        shapes[inner.get(field.name, field.name)] = field.shape
    return shapes


def name_sizes(model: onnx.ModelProto, shapes: Mapping[str, tuple[int | str, ...]]) -> None:
    """Give the dimensions of inputs and outputs their names, and the model the version that runtimes read."""
    for value in (*model.graph.input, *model.graph.output):
        dimensions = value.type.tensor_type.shape.dim
        sizes = shapes.get(value.name, ())
        for dimension, size in zip(dimensions, sizes if len(sizes) == len(dimensions) else (), strict=False):
            if isinstance(size, str):
                dimension.dim_param = size
    model.ir_version = min(model.ir_version, _IR)
