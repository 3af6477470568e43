"""OpenVINO on the CPU, as exact as it can be: float32 all through, one stream, nothing approximated.

The entry is :mod:`._ports`'s. OpenVINO's processor plugin computes float64 in float32 and int64 in int32, whatever the
graph says; values come out in the graph's types. Whole numbers that int32 does not hold would wrap around in silence:
they are refused. Text is refused, for which the plugin has no kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import SignatureError, UnsupportedModelError
from vitrify.core.report import Finding
from vitrify.core.signature import BATCH, Field, Signature
from vitrify.formats._openvino.live import port_name
from vitrify.formats._openvino.silent import openvino
from vitrify.formats.openvino import OpenVino as Format
from vitrify.runtimes._ports import Port, Ports
from vitrify.runtimes._sizes import output_fields
from vitrify.runtimes.session import BaseSession, signature_of
from vitrify.runtimes.threads import wanted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files, Session

    Array = np.ndarray[Any, Any]

_TYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "boolean": "bool"}
_TYPES |= {f"{sign}{bits}": f"{kind}{bits}" for sign, kind in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)}
_EXACT = {
    "PERFORMANCE_HINT": "LATENCY",
    "EXECUTION_MODE_HINT": "ACCURACY",
    "INFERENCE_PRECISION_HINT": "f32",
    "NUM_STREAMS": "1",
}
_INT32 = np.iinfo(np.int32)
_WIDE = ("int64", "uint64", "uint32")


class OpenVino:
    """The runtime of OpenVINO models."""

    def open(self, files: Files, document: Document, allow: Allow) -> Session:
        """Compile a model for this processor."""
        return self.wrap(Format().read(files, document.entry, allow), document)

    def wrap(self, model: Any, document: Document) -> Session:
        """Return a session over a model in memory."""
        return OpenVinoSession(model, signature_of(document, "an OpenVINO model"), document.entry)

    def signature(self, model: Any) -> Signature:
        """Return the inputs and outputs that the model declares; a first dimension that may change is the batch.

        Raises:
            UnsupportedModelError: One of them is of a type that NumPy does not have.
        """
        sides = [[_port(one) for one in side] for side in (model.inputs, model.outputs)]
        inputs, outputs = (tuple(_field(port) for port in side) for side in sides)
        return Signature(inputs=inputs, outputs=outputs, container="dict")

    def entry(self, model: Any, example: Example) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return nothing: the format has written the names."""
        return {}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:  # noqa: ARG002 (the protocol's)
        """Return the output fields; which dimensions may change is what the model says."""
        return output_fields(outputs, {port.name: _field(port).shape for port in map(_port, model.outputs)})


class OpenVinoSession(BaseSession):
    """A session over a compiled model."""

    def __init__(self, model: openvino.Model, signature: Signature, entry: Mapping[str, Any]) -> None:
        """Compile it, and match the names of the signature with those of the graph.

        Raises:
            MalformedError: They do not fit.
            UnsupportedModelError: OpenVINO has no kernel for it, an input or output is of a type that NumPy does not
                have, or a size that the signature lets change is fixed in the graph.
        """
        super().__init__(signature)
        inputs, outputs = ([_port(one, entry.get(key, {}).values()) for one in side] for key, side in _sides(model))
        self._ports = Ports(signature, entry, inputs, outputs)
        self._ports.require_free()
        self._places = {port.name: place for place, port in enumerate(inputs)}
        self._wide = {port.name for port in inputs if port.dtype in _WIDE}
        self._names = [port.name for port in outputs]
        try:
            count = wanted()
            most = {"INFERENCE_NUM_THREADS": str(count)} if count else {}
            compiled = openvino.Core().compile_model(model, "CPU", _EXACT | most)
        except RuntimeError as error:
            msg = f"OpenVINO {openvino.__version__} cannot run this model on the CPU: {str(error).strip()}"
            raise UnsupportedModelError(msg, remedy="use the ONNX form, or replace what it names") from error
        self._request = compiled.create_infer_request()

    def _run(self, inputs: Arrays) -> Arrays:
        feeds = self._ports.feeds(inputs)
        for name in self._wide & feeds.keys():
            _require_int32(feeds[name], name)
        given = {self._places[name]: np.asarray(array, order="C") for name, array in feeds.items()}
        results = self._request.infer(given, share_outputs=False)
        return self._ports.answers({name: np.array(results[place]) for place, name in enumerate(self._names)})


def _sides(model: Any) -> tuple[tuple[str, Any], tuple[str, Any]]:
    return (("inputs", model.inputs), ("outputs", model.outputs))


def _port(port: Any, wanted: Collection[str] = ()) -> Port:
    """Return an input or output, by the one of its names that is wanted.

    Raises:
        UnsupportedModelError: It is of a type that NumPy does not have.
    """
    name = next((name for name in wanted if name in port.names), port_name(port))
    kind = port.element_type.get_type_name()
    if kind not in _TYPES:
        finding = Finding(place=name, message=f"{kind}, expected numbers or booleans", remedy="cast it in the graph")
        raise UnsupportedModelError("an input or output of this model is not what NumPy has", problems=(finding,))
    shape = port.partial_shape
    if shape.rank.is_dynamic:
        return Port(name, _TYPES[kind])
    return Port(name, _TYPES[kind], tuple(size.get_length() if size.is_static else None for size in shape))


def _field(port: Port) -> Field:
    sizes = (None,) if port.shape is None else port.shape
    shape = tuple(
        size if isinstance(size, int) else BATCH if axis == 0 else f"{port.name}_{axis}"
        for axis, size in enumerate(sizes)
    )
    return Field(name=port.name, dtype=port.dtype, shape=shape)


def _require_int32(array: Array, name: str) -> None:
    wrong = (array > _INT32.max) | (array < _INT32.min) if array.dtype.kind == "i" else array > _INT32.max
    if wrong.any():
        msg = f"{name}: {array[wrong].flat[0]} given, and OpenVINO's CPU plugin computes whole numbers in 32 bits"
        raise SignatureError(msg, remedy="use the ONNX form where numbers are as large as that")
