"""From ONNX to ONNX Runtime's own format, by ONNX Runtime itself.

It is written with the basic optimisations only: constants are folded and what nobody needs is gone. The others choose
operators and layouts for the processor at hand, so that the file would run on none but its like.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import onnxruntime as ort

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats import _onnx_external
from vitrify.formats.onnx import Onnx, serialise
from vitrify.formats.ort import FILE, Ort, OrtModel
from vitrify.transforms.convert._onnx_source import ports
from vitrify.transforms.convert._ort_kernels import in_order

if TYPE_CHECKING:
    import onnx

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject

_ONLY_ERRORS = 4


class OnnxToOrt:
    """The step from ``onnx`` to ``ort``."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:  # noqa: ARG002 (the protocol's)
        """Say what ONNX Runtime cannot take: a graph of more bytes than one file may have, or without a kernel."""
        model = Onnx().read(source.files, source.document.entry, source.allow)
        if (size := _onnx_external.size(model)) > _onnx_external.LIMIT:
            message = f"the weights are {size} bytes, and an ORT file holds 2 GiB"
            return (Finding(place=FILE, message=message, remedy="keep the ONNX form, whose weights lie beside it"),)
        try:
            _written(model)
        except UnsupportedModelError as error:
            return (Finding(place="model.onnx", message=error.message, remedy=error.remedy),)
        return ()

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:  # noqa: ARG002 (the protocol's)
        """Write the model as ``model.ort``."""
        entry = source.document.entry
        content = _written(Onnx().read(source.files, entry, source.allow))
        written = Ort().write(OrtModel(content), sink, None)
        return Written(entry={**written.entry, **ports(entry)})


def _written(model: onnx.ModelProto) -> bytes:
    """Return the file that ONNX Runtime writes.

    Raises:
        UnsupportedModelError: It cannot open the model.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FILE
        options = ort.SessionOptions()
        options.log_severity_level = _ONLY_ERRORS
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(path)
        options.add_session_config_entry("session.save_model_format", "ORT")
        try:
            ort.InferenceSession(serialise(model), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            msg = f"ONNX Runtime {ort.__version__} cannot open this graph: {error}"
            raise UnsupportedModelError(
                msg, remedy="replace the operators that it lacks, or keep the ONNX form"
            ) from error
        return in_order(path.read_bytes())
