"""TensorFlow's graphs on the CPU: the function that a saved model's signature names, and live modules and functions.

A graph runs as it is written: TensorFlow's rewriting, which fuses operators (and loses NaN in a fused Relu) and moves
constants through sums and divisions (and rounds otherwise), is off while a session runs, in the whole process.

The entry is :mod:`._ports`'s, with ``shapes`` of the outputs. Text is UTF-8. bfloat16 goes in and comes out as float32,
which holds it exactly: NumPy has no bfloat16.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.signature import Signature
from vitrify.formats._tensorflow.loaded import tf
from vitrify.formats._tensorflow.serving import declared, field_of, serving
from vitrify.formats.saved_model import SavedModel
from vitrify.runtimes._ports import Port, Ports
from vitrify.runtimes._sizes import output_fields
from vitrify.runtimes.session import BaseSession, signature_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files, Session
    from vitrify.core.signature import Field

    Array = np.ndarray[Any, Any]


_OFF = "disable_meta_optimizer"
_WHAT = "a TensorFlow model"


class TensorFlow:
    """The runtime of saved models."""

    def open(self, files: Files, document: Document, allow: Allow) -> Session:
        """Load a saved model; its default signature predicts."""
        model = SavedModel().read(files, document.entry, allow)
        return _TensorFlowSession(model, declared(model), signature_of(document, _WHAT), document.entry)

    def wrap(self, model: Any, document: Document) -> Session:
        """Return a session over a live model, traced for the signature as it is when it is saved."""
        signature = signature_of(document, _WHAT)
        served = serving(model, signature)
        return _TensorFlowSession(model, served.function, signature, served.entry())

    def signature(self, model: Any) -> Signature:
        """Return what a loaded model's default signature declares; a first dimension that may change is the batch.

        Raises:
            UnsupportedModelError: It has none, or of an input not even the rank is known.
        """
        function = declared(model)
        return Signature(
            inputs=tuple(field_of(name, spec) for name, spec in function.structured_input_signature[1].items()),
            outputs=tuple(field_of(name, spec) for name, spec in function.structured_outputs.items()),
            container="dict",
        )

    def entry(self, model: Any, example: Example) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return nothing: the format has written the names."""
        return {}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:  # noqa: ARG002 (the protocol's)
        """Return the output fields; which dimensions may change is what the function says."""
        return output_fields(outputs, entry.get("shapes", {}))


class _TensorFlowSession(BaseSession):
    def __init__(self, model: Any, function: Any, signature: Signature, entry: Mapping[str, Any]) -> None:
        super().__init__(signature)
        self._model = model  # a function does not keep its variables
        self._function = function
        self._specs = function.structured_input_signature[1]
        inputs = [_port(name, spec) for name, spec in self._specs.items()]
        outputs = [_port(name, spec) for name, spec in function.structured_outputs.items()]
        self._ports = Ports(signature, entry, inputs, outputs)
        self._ports.require_free()

    def _run(self, inputs: Arrays) -> Arrays:
        feeds = self._ports.feeds(inputs)
        given = {name: tf.constant(feeds[name], spec.dtype) for name, spec in self._specs.items()}
        with _as_written():
            results = self._function(**given)
        return self._ports.answers({name: _array(tensor) for name, tensor in results.items()})


@contextmanager
def _as_written() -> Iterator[None]:
    """Switch the rewriting of graphs off while the block runs."""
    before = tf.config.optimizer.get_experimental_options()
    if before.get(_OFF):
        yield
        return
    tf.config.optimizer.set_experimental_options({_OFF: True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({**before, _OFF: False})


def _port(name: str, spec: tf.TensorSpec) -> Port:
    dtype = {tf.string: "object", tf.bfloat16: "float32"}.get(spec.dtype, spec.dtype.name)
    return Port(name, dtype, tuple(spec.shape.as_list()) if spec.shape.rank is not None else None)


def _array(tensor: tf.Tensor) -> Array:
    if tensor.dtype == tf.string:
        found = np.asarray(tensor.numpy(), object)
        return np.array([value.decode() for value in found.flat], object).reshape(found.shape)
    array: Array = np.asarray((tf.cast(tensor, tf.float32) if tensor.dtype == tf.bfloat16 else tensor).numpy())
    return array
