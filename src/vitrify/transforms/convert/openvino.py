"""From ONNX to OpenVINO's IR, by OpenVINO's own reader, with the weights as they are.

Before it, the graph is made ready: trees are written out (:mod:`._trees.unrolled`), and a whole number that the graph
only ever reads as floating-point becomes a floating-point input, because OpenVINO's processor plugin would cut it to 32
bits first. It computes float64 in float32 as well; parity says whether the model bears that.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import onnx
from onnx import TensorProto

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats import _onnx_external
from vitrify.formats._openvino.silent import openvino
from vitrify.formats.onnx import Onnx, serialise
from vitrify.formats.openvino import OpenVino
from vitrify.transforms.convert._clean.cleaning import clean
from vitrify.transforms.convert._clean.graph import read_by
from vitrify.transforms.convert._onnx_source import ports
from vitrify.transforms.convert._trees.unrolled import compared_in_double, unfit, unrolled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject

_NARROWED = {TensorProto.DOUBLE: "float64 in float32", TensorProto.INT64: "int64 in int32"}
_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE)
_WHOLE = (TensorProto.INT64, TensorProto.INT32, TensorProto.UINT32, TensorProto.UINT64)
_NO_RULE = re.compile(r"No conversion rule found for operations: (.*)")
_REMEDY = "keep the ONNX form, or replace it in the source"


class OnnxToOpenVino:
    """The step from ``onnx`` to ``openvino``."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:  # noqa: ARG002 (the protocol's)
        """List text, operators that OpenVINO does not have, and trees that it would not walk as they are."""
        model = Onnx().read(source.files, source.document.entry, source.allow)
        if (size := _onnx_external.size(model)) > _onnx_external.LIMIT:
            message = f"the weights are {size} bytes, more than OpenVINO reads from one message"
            return (Finding(place="model.onnx", message=message, remedy=_REMEDY),)
        found = (*_texts(model), *unfit(model), *_doubles(model))
        try:
            _read(model)
        except RuntimeError as error:
            unknown = _unknown(str(error))
            return (*found, *unknown) if not found or _NO_RULE.search(str(error)) else found
        return found

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:  # noqa: ARG002 (the protocol's)
        """Write the model as ``model.xml`` and ``model.bin``.

        Raises:
            UnsupportedModelError: OpenVINO cannot read the graph.
        """
        entry = source.document.entry
        model = Onnx().read(source.files, entry, source.allow)
        try:
            read = _read(model)
        except RuntimeError as error:
            msg = f"OpenVINO {openvino.__version__} cannot read this graph"
            raise UnsupportedModelError(msg, problems=_unknown(str(error))) from error
        written = OpenVino().write(read, sink, None)
        return Written(entry={**written.entry, **ports(entry)}, notes=tuple(_notes(model)))


def _read(model: onnx.ModelProto) -> openvino.Model:
    facts = {item.key: item.value for item in model.metadata_props}
    ready = with_floats(clean(unrolled(model), facts), facts)
    result = openvino.Core().read_model(serialise(ready))
    result.set_friendly_name(model.graph.name or "model")
    return result


def with_floats(model: onnx.ModelProto, properties: Mapping[str, str] | None = None) -> onnx.ModelProto:
    """Let the model take floating-point numbers where all that it does with whole ones is to cast them to these.

    Args:
        model: It is changed.
        properties: As for :func:`clean`.
    """
    outputs = {value.name for value in model.graph.output}
    for value in model.graph.input:
        readers = [node for node in model.graph.node if value.name in read_by(node)]
        kinds = {
            next(one.i for one in node.attribute if one.name == "to") if node.op_type == "Cast" else 0
            for node in readers
        }
        kind = next(iter(kinds)) if len(kinds) == 1 else 0
        if value.type.tensor_type.elem_type in _WHOLE and kind in _FLOATS and value.name not in outputs:
            value.type.tensor_type.elem_type = kind
            for node in readers:
                node.op_type = "Identity"
                del node.attribute[:]
    return clean(model, properties)


def _texts(model: onnx.ModelProto) -> tuple[Finding, ...]:
    return tuple(
        Finding(place=value.name, message="text, for which OpenVINO's CPU plugin has no kernels", remedy=_REMEDY)
        for value in (*model.graph.input, *model.graph.output)
        if value.type.tensor_type.elem_type == TensorProto.STRING
    )


def _doubles(model: onnx.ModelProto) -> tuple[Finding, ...]:
    message = (
        "compares with its splits in float64, and OpenVINO's CPU plugin in float32: rows beside a split would move"
    )
    remedy = "keep the ONNX form, or ask for precision float32, which has to prove itself"
    return tuple(Finding(place=name, message=message, remedy=remedy) for name in compared_in_double(model))


def _unknown(message: str) -> tuple[Finding, ...]:
    """Return the operators that OpenVINO's reader names, or what else it says."""
    if found := _NO_RULE.search(message):
        names = [name.strip() for name in found[1].split(",")]
        return tuple(Finding(place=name, message="OpenVINO has no such operator", remedy=_REMEDY) for name in names)
    lines = [line for line in message.splitlines() if line.strip() and not line.startswith(("Exception", "Check"))]
    return (Finding(place="model.onnx", message=" ".join(lines)[:400], remedy=_REMEDY),)


def _notes(model: onnx.ModelProto) -> Iterable[str]:
    """Say where the processor plugin is less precise than the graph."""
    typed = onnx.shape_inference.infer_shapes(model).graph
    held = {value.type.tensor_type.elem_type for value in (*typed.value_info, *typed.input, *typed.output)}
    held |= {tensor.data_type for tensor in typed.initializer}
    if found := [text for kind, text in _NARROWED.items() if kind in held]:
        yield f"OpenVINO's CPU plugin computes {' and '.join(found)}"
