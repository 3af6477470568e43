"""From TorchScript to ONNX, by PyTorch's exporter for TorchScript, over the golden samples.

Inputs and outputs have the signature's names, and dimensions that may change keep theirs.

Options: ``precision`` (``source``, or ``float32`` to compute in single precision throughout), ``opset``.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import onnx
import torch
from onnx import version_converter

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats._torch.quiet import quiet
from vitrify.formats.onnx import Onnx
from vitrify.transforms.convert._building.float32 import to_float32
from vitrify.transforms.convert._building.model import opset_of
from vitrify.transforms.convert._clean.cleaning import clean, provenance
from vitrify.transforms.convert._script_call import ScriptCall
from vitrify.transforms.convert.torch_onnx import name_sizes, precision_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject

_NEWEST = 20
"""The newest operator set of this exporter; what is newer is reached from there."""
_REWRITTEN = frozenset({"aten::__getitem__", "aten::len", "aten::list", "aten::append"})
_MAX_REASON = 400
_CONDITION = re.compile(r"^ *(if .*):$", re.MULTILINE)


class TorchScriptToOnnx:
    """The step from ``torchscript`` to ``onnx``."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:
        """List operators without a translation, what the module remembers, and numbers that would be frozen."""
        precision_of(step)
        call = ScriptCall.of(source)
        if found := call.problems("ONNX"):
            return found
        try:
            model = _export(call, opset_of(step.options))
        except UnsupportedModelError as error:
            return _missing(call) or (Finding(place="forward", message=error.message, remedy=error.remedy),)
        return tuple(_uneven(call, model))

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the ONNX model."""
        call = ScriptCall.of(source)
        model = _export(call, opset_of(step.options))
        if precision_of(step) == "float32":
            model = to_float32(model)
        shapes = {name: tuple(shape) for name, shape in (*call.inputs.items(), *call.outputs.items())}
        name_sizes(model, shapes)
        facts = provenance(source, precision_of(step), torch=torch.__version__)
        written = Onnx().write(clean(model, facts), sink, None)
        return Written(entry={**written.entry, **call.entry}, notes=written.notes)


def _missing(call: ScriptCall) -> tuple[Finding, ...]:
    """List the operators that have no translation, of those that the exporter does not rewrite before it translates."""
    with quiet(), torch.no_grad():
        _, missing = torch.onnx.utils.unconvertible_ops(call.module, call.arguments, opset_version=_NEWEST)
    remedy = "replace it in forward by operators that ONNX has, or keep the torchscript form"
    return tuple(
        Finding(place=name, message="no ONNX translation", remedy=remedy) for name in sorted(set(missing) - _REWRITTEN)
    )


def _uneven(call: ScriptCall, model: onnx.ModelProto) -> Iterator[Finding]:
    """Yield each branch of the module whose two sides answer in different sizes, which no signature can say."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    answers = {value.name for value in graph.output}
    whole = call.module.inlined_graph  # its nodes live as long as it does
    places = [_CONDITION.search(node.sourceRange()) for node in whole.findAllNodes("prim::If")]
    chosen = [node for node in graph.node if node.op_type == "If"]
    known = len(places) == len(chosen)  # else some were decided as they were exported
    for at, node in enumerate(chosen):
        sides = zip(*(attribute.g.output for attribute in node.attribute), strict=True)
        for name, (one, other) in zip(node.output, sides, strict=True):
            sizes = [[size.dim_value for size in side.type.tensor_type.shape.dim] for side in (one, other)]
            pairs = list(zip(*sizes, strict=False))
            if name in answers and (len(sizes[0]) != len(sizes[1]) or any(a and b and a != b for a, b in pairs)):
                shapes = " and ".join(str([size or "?" for size in side]).replace("'", "") for side in sizes)
                place = found[1] if known and (found := places[at]) else "an if in forward"
                message = f"{name!r} has the sizes {shapes}, by the values that are given"
                yield Finding(place=place, message=message, remedy="let both sides return the same sizes")


def _export(call: ScriptCall, opset: int) -> onnx.ModelProto:
    axes = {
        name: {axis: size for axis, size in enumerate(shape) if isinstance(size, str)}
        for name, shape in call.inputs.items()
    }
    stream = io.BytesIO()
    try:
        with quiet(), torch.no_grad():
            torch.onnx.export(
                call.module,
                call.arguments,
                stream,
                dynamo=False,
                input_names=list(call.inputs),
                output_names=list(call.outputs),
                dynamic_axes=axes,
                opset_version=min(opset, _NEWEST),
            )
        model = onnx.load_from_string(stream.getvalue())
        return model if opset <= _NEWEST else version_converter.convert_version(model, opset)
    except Exception as error:
        msg = f"torch.onnx cannot translate this module: {type(error).__name__}: {str(error)[:_MAX_REASON]}"
        raise UnsupportedModelError(msg, remedy="keep the torchscript form, or simplify forward") from error
