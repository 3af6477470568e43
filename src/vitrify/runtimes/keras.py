"""Keras on the backend at hand: TensorFlow, JAX or PyTorch. Models are called in inference mode.

bfloat16 comes out as float32, which holds it exactly: NumPy has no bfloat16.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify import containers
from vitrify.core.errors import UnsupportedModelError
from vitrify.core.signature import BATCH, Field, Signature
from vitrify.formats.keras import Keras, require_backend
from vitrify.runtimes.session import BaseSession, signature_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files, Session

    Array = np.ndarray[Any, Any]


class KerasRuntime:
    """The runtime of Keras models."""

    def open(self, files: Files, document: Document, allow: Allow) -> Session:
        """Read a model and open it."""
        return self.wrap(Keras().read(files, document.entry, allow), document)

    def wrap(self, model: Any, document: Document) -> Session:
        """Return a session over a live model."""
        return _KerasSession(model, signature_of(document, "a Keras model"))

    def signature(self, model: Any) -> Signature:
        """Return what a model declares; a first dimension that may change is the batch.

        Raises:
            UnsupportedModelError: It has to be called to know.
        """
        require_backend()
        from vitrify.formats._keras.call import inputs_of, named_outputs, outputs_of

        inputs = inputs_of(model)
        if not inputs:
            msg = f"a {type(model).__name__} does not say what it takes"
            raise UnsupportedModelError(msg, remedy="give an example")
        outputs = named_outputs(outputs_of(model))
        return Signature(
            inputs=tuple(_declared(one.name, one) for one in inputs),
            outputs=tuple(_declared(name, one) for name, one in outputs.items()),
            container="dict",
        )

    def entry(self, model: Any, example: Example) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return nothing: the model and the signature say how it is called."""
        return {}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:  # noqa: ARG002 (the protocol's)
        """Return the output fields: what the model declares may change, may; else the first dimension is the batch."""
        try:
            declared = {field.name: field.shape for field in self.signature(model).outputs}
        except UnsupportedModelError:
            declared = {}
        fields = []
        for field in containers.output_fields(outputs, None):
            shape = declared.get(field.name, (BATCH, *field.shape[1:]) if field.shape else ())
            fields.append(field.replace(shape=shape) if len(shape) == len(field.shape) else field)
        return tuple(fields)


class _KerasSession(BaseSession):
    def __init__(self, model: Any, signature: Signature) -> None:
        super().__init__(signature)
        self._model = model

    def _run(self, inputs: Arrays) -> Arrays:
        from vitrify.formats._keras.call import call, given

        with _no_gradients():
            outputs = call(self._model, given(inputs), self.signature)
            return {name: _array(tensor) for name, tensor in outputs.items()}


def _no_gradients() -> Any:
    import keras

    if keras.backend.backend() != "torch":
        return nullcontext()
    import torch

    return torch.no_grad()


def _array(tensor: Any) -> Array:
    import keras

    from vitrify.formats._keras.call import as_array

    if keras.backend.standardize_dtype(tensor.dtype) == "bfloat16":
        tensor = keras.ops.cast(tensor, "float32")
    array = as_array(tensor)
    if array.dtype.kind not in "SO":
        return array
    values = [value.decode() if isinstance(value, bytes) else value for value in array.flat]
    return np.array(values, object).reshape(array.shape)


def _declared(name: str, one: Any) -> Field:
    sizes = [size if size is not None else f"{name}_{axis}" if axis else BATCH for axis, size in enumerate(one.shape)]
    dtype = "float32" if one.dtype == "bfloat16" else str(one.dtype)
    return Field(name=name, dtype=dtype, shape=tuple(sizes))
