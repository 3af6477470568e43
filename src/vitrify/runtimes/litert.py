"""LiteRT (TensorFlow Lite) on the CPU, on one thread: its sums are added in the same order each time.

The entry is :mod:`._ports`'s, with ``file``. The signature ``serving_default``, or the model's only one, predicts; a
model without any is called by the names of its tensors. Quantised tensors go in and come out as the integers they are.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.signature import BATCH, Field, Signature
from vitrify.formats._tensorflow.quiet import mute
from vitrify.formats.tflite import TFLite
from vitrify.runtimes._ports import Port, Ports
from vitrify.runtimes._sizes import output_fields
from vitrify.runtimes.session import BaseSession, signature_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files, Session

    Array = np.ndarray[Any, Any]

DEFAULT = "serving_default"
_MAX_REASON = 400


class LiteRt:
    """The runtime of TFLite models."""

    def open(self, files: Files, document: Document, allow: Allow) -> Session:
        """Open a model from verified bytes."""
        return self.wrap(TFLite().read(files, document.entry, allow), document)

    def wrap(self, model: Any, document: Document) -> Session:
        """Return a session over a model in memory."""
        return _LiteRtSession(_Engine(model.content), signature_of(document, "a TFLite model"), document.entry)

    def signature(self, model: Any) -> Signature:
        """Return what the model declares; a first dimension that may change is the batch."""
        engine = _Engine(model.content)
        return Signature(
            inputs=tuple(_field(port) for port in engine.inputs),
            outputs=tuple(_field(port) for port in engine.outputs),
            container="dict",
        )

    def entry(self, model: Any, example: Example) -> dict[str, Any]:
        """Return how the signature's names meet the model's: by name where all are the same, else by position.

        Raises:
            UnsupportedModelError: There are more or fewer of them.
        """
        engine = _Engine(model.content)
        takes = [port.name for port in engine.inputs]
        fields = [field.name for field in example.signature.inputs]
        if len(takes) != len(fields):
            msg = f"the model takes {len(takes)} inputs {takes}, the example has {len(fields)}: {fields}"
            raise UnsupportedModelError(msg, remedy="give a dict with the model's own input names as the example")
        inputs = dict(zip(fields, fields if set(fields) == set(takes) else takes, strict=True))
        return {"inputs": inputs, "outputs": {port.name: port.name for port in engine.outputs}}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:  # noqa: ARG002 (the protocol's)
        """Return the output fields; which dimensions may change is what the model says."""
        declared = _Engine(model.content).outputs
        return output_fields(outputs, {port.name: _sizes(port.name, port.shape or ()) for port in declared})


def ports_of(content: bytes) -> tuple[dict[str, str], dict[str, str]]:
    """Return the tensors behind the inputs and the outputs of the signature that predicts: their names, and its own."""
    return _Engine(content).tensors()


class _Engine:
    """An interpreter and the function that it runs: named arrays in, named arrays out."""

    def __init__(self, content: bytes) -> None:
        """Open it.

        Raises:
            UnsupportedModelError: LiteRT cannot run it.
        """
        try:
            self._interpreter = Interpreter(model_content=content, num_threads=1)
            self._runner = self._signature()
            takes, gives = self._details()
        except (ValueError, RuntimeError) as error:
            msg = f"LiteRT cannot run this model: {str(error).strip()[:_MAX_REASON]}"
            raise UnsupportedModelError(msg, remedy="convert it with TFLite's own operators only") from error
        self._takes = takes
        self._gives = gives
        self._ran = False
        self.inputs = [_port(name, one) for name, one in takes.items()]
        self.outputs = [_port(name, one) for name, one in gives.items()]

    def _signature(self) -> Any:
        names = list(self._interpreter.get_signature_list())
        if not names:
            return None
        if DEFAULT not in names and len(names) > 1:
            msg = f"a TFLite model with the signatures {names}; expected one, or one called {DEFAULT!r}"
            raise UnsupportedModelError(msg, remedy="convert it with one signature")
        return self._interpreter.get_signature_runner(DEFAULT if DEFAULT in names else names[0])

    def _details(self) -> tuple[dict[str, Any], dict[str, Any]]:
        if self._runner is not None:
            return self._runner.get_input_details(), self._runner.get_output_details()
        sides = self._interpreter.get_input_details(), self._interpreter.get_output_details()
        return tuple({one["name"]: one for one in side} for side in sides)  # type: ignore[return-value]  # there are two

    def tensors(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the signature's names by the names of the tensors behind them."""
        takes, gives = ({one["name"]: name for name, one in side.items()} for side in (self._takes, self._gives))
        return takes, gives

    def run(self, feeds: Arrays) -> Arrays:
        """Return what the model gives; inputs are resized to what is fed.

        The first time mute: that is when LiteRT says which kernels it took.
        """
        with nullcontext() if self._ran else mute():
            found = self._run(feeds)
        self._ran = True
        return found

    def _run(self, feeds: Arrays) -> Arrays:
        if self._runner is not None:
            found: Arrays = self._runner(**feeds)
            return found
        for name, one in self._takes.items():
            if tuple(one["shape"]) != feeds[name].shape:
                self._interpreter.resize_tensor_input(one["index"], feeds[name].shape)
        self._interpreter.allocate_tensors()
        for name, one in self._takes.items():
            self._interpreter.set_tensor(one["index"], feeds[name])
        self._interpreter.invoke()
        return {name: self._interpreter.get_tensor(one["index"]) for name, one in self._gives.items()}


class _LiteRtSession(BaseSession):
    def __init__(self, engine: _Engine, signature: Signature, entry: Mapping[str, Any]) -> None:
        super().__init__(signature)
        self._engine = engine
        self._ports = Ports(signature, entry, engine.inputs, engine.outputs)
        self._ports.require_free()

    def _run(self, inputs: Arrays) -> Arrays:
        feeds = {name: _encoded(array) for name, array in self._ports.feeds(inputs).items()}
        results = self._engine.run(feeds)
        return self._ports.answers({name: _decoded(array) for name, array in results.items()})


def _port(name: str, one: Mapping[str, Any]) -> Port:
    dtype = np.dtype(one["dtype"])
    shape = tuple(int(size) if size >= 0 else None for size in one["shape_signature"])
    return Port(name, "object" if dtype.kind in "SOU" else dtype.name, shape)


def _field(port: Port) -> Field:
    dtype = "string" if port.dtype == "object" else port.dtype
    return Field(name=port.name, dtype=dtype, shape=_sizes(port.name, port.shape or ()))


def _sizes(name: str, shape: Iterable[Any]) -> tuple[int | str, ...]:
    return tuple(size if size is not None else f"{name}_{axis}" if axis else BATCH for axis, size in enumerate(shape))


def _encoded(array: Array) -> Array:
    """Return text as the interpreter takes it; numbers as they are, each row behind the other."""
    if array.dtype.kind != "O":
        return np.ascontiguousarray(array).reshape(array.shape)
    return np.array([value.encode() for value in array.flat], object).reshape(array.shape)


def _decoded(array: Array) -> Array:
    if array.dtype.kind not in "SO":
        return array
    return np.array([value.decode() for value in array.flat], object).reshape(array.shape)
