"""From ONNX to an exported function of JAX: the graph replayed on JAX's operators, every size that may change free.

Weights are constants of the module.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import jax
from jax import export

from vitrify.core.errors import UnsupportedModelError, VitrifyError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats._jax.ports import gives
from vitrify.formats._jax.trace import PLATFORMS, stripped, wide_types
from vitrify.formats.jax_export import write_exported
from vitrify.formats.onnx import Onnx, element_type, shape
from vitrify.transforms.convert._onnx_source import ports
from vitrify.transforms.replay._jax_values import dtype_of, tensor
from vitrify.transforms.replay.jax_ops import OPS
from vitrify.transforms.replay.walk import Replay, missing, prepared

if TYPE_CHECKING:
    import numpy as np
    import onnx

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject

_MAX_REASON = 500


class OnnxToJax:
    """The step from ``onnx`` to ``jax-export``."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:
        """List every operator that is not replayed, and every input that JAX cannot take; then try."""
        del step
        model = _model(source)
        try:
            found = list(_lacking(model))
        except UnsupportedModelError as error:
            found = [Finding(place="model", message=error.message, remedy=error.remedy)]
        if not found:
            try:
                replayed(model)
            except UnsupportedModelError as error:
                found = list(error.problems) or [Finding(place="graph", message=error.message, remedy=error.remedy)]
        return tuple(found)

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the exported function."""
        del step
        entry = ports(source.document.entry)
        exported, names = replayed(_model(source))
        written = write_exported(exported, sink, None)
        inputs = entry.get("inputs") or {name: name for name in names}
        outputs = entry.get("outputs") or {name: name for name in gives(exported)}
        found = {**written.entry, **entry, "inputs": inputs, "outputs": outputs}
        return Written(entry=found, names=written.names, notes=written.notes)


def replayed(model: onnx.ModelProto) -> tuple[export.Exported, tuple[str, ...]]:
    """Return the graph as an exported function, which takes its inputs by name and gives a dict, and what it takes.

    Raises:
        UnsupportedModelError: It has operators that are not replayed, or sizes that data decides.
    """
    replay = Replay(model, OPS)
    outputs = [value.name for value in replay.model.graph.output]

    def call(**feeds: Any) -> dict[str, Any]:
        return dict(zip(outputs, map(tensor, replay(feeds)), strict=True))

    call.__name__ = call.__qualname__ = re.sub(r"\W+", "_", model.graph.name) or "model"
    with wide_types():
        try:
            avals = _avals(replay.inputs)
            exported = export.export(jax.jit(call), platforms=PLATFORMS)(**avals)
        except VitrifyError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {str(error).strip()[:_MAX_REASON]}"
            msg = f"JAX cannot follow this graph for every size that may change: {reason}"
            raise UnsupportedModelError(
                msg, remedy="fix the sizes that it computes with, or keep the ONNX form"
            ) from error
    return stripped(exported), tuple(avals)


def _lacking(model: onnx.ModelProto) -> tuple[Finding, ...]:
    try:
        Replay(model, OPS)
    except UnsupportedModelError as error:
        return error.problems or missing(prepared(model), OPS)
    return ()


def _avals(inputs: tuple[onnx.ValueInfoProto, ...]) -> dict[str, jax.ShapeDtypeStruct]:
    """Return the type of each input; sizes that may change are JAX's symbols, equal names one."""
    declared: dict[str, list[int | str]] = {}
    for value in inputs:
        sizes = shape(value)
        if sizes is None:
            msg = f"the input {value.name!r} says nothing of its rank"
            raise UnsupportedModelError(msg, remedy="declare its shape in the graph")
        declared[value.name] = [
            size or f"{value.name}_{axis}" if not isinstance(size, int) else size for axis, size in enumerate(sizes)
        ]
    texts = dict.fromkeys(size for sizes in declared.values() for size in sizes if isinstance(size, str))
    names = {text: f"d{at}_{re.sub(r'[^0-9A-Za-z]', '_', text)}" for at, text in enumerate(texts)}
    symbols = dict(zip(texts, export.symbolic_shape(", ".join(names.values())), strict=True)) if names else {}
    return {
        value.name: jax.ShapeDtypeStruct(
            tuple(symbols[size] if isinstance(size, str) else size for size in declared[value.name]), _dtype(value)
        )
        for value in inputs
    }


def _dtype(value: onnx.ValueInfoProto) -> np.dtype[Any]:
    number = value.type.tensor_type.elem_type
    if element_type(value) == "string":
        msg = f"the input {value.name!r} is text, and JAX has none"
        raise UnsupportedModelError(msg, remedy="keep the ONNX form, or make numbers of it before the model")
    return dtype_of(number)


def _model(source: Subject) -> onnx.ModelProto:
    model: onnx.ModelProto = Onnx().read(source.files, source.document.entry, source.allow)
    return model
