"""PyTorch on the CPU: exported programs, and live modules in eval mode.

Nothing is recorded for gradients. A program that a converter wrote, or that was exported elsewhere, is called by the
names of its own inputs, through :mod:`._ports`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from vitrify import containers
from vitrify.core.errors import UnsupportedModelError, UsageError, VitrifyError
from vitrify.core.signature import DTYPES, Field, Signature
from vitrify.formats._torch.call import arguments, evaluated, outputs_by_name
from vitrify.formats._torch.caller import Caller
from vitrify.formats.torch_export import TorchExport
from vitrify.runtimes._ports import Port, Ports
from vitrify.runtimes._sizes import output_fields
from vitrify.runtimes._torch_arrays import array, tensor
from vitrify.runtimes.session import BaseSession, signature_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files, Session


class TorchRuntime:
    """The runtime of PyTorch modules."""

    def open(self, files: Files, document: Document, allow: Allow) -> Session:
        """Open an exported program over its memory-mapped weights."""
        return self.wrap(TorchExport().read(files, document.entry, allow), document)

    def wrap(self, model: Any, document: Document) -> Session:
        """Return a session over a module; each call runs it in eval mode and leaves its own mode as it was."""
        signature = signature_of(document, "a module")
        if isinstance(document.entry.get("inputs"), dict):
            return _ProgramSession(model, signature, document.entry)
        return _TorchSession(model, signature)

    def signature(self, model: Any) -> Signature:
        """Return what an exported program says that it takes and gives.

        Raises:
            UsageError: The module is none.
        """
        try:
            caller = Caller(model)
        except VitrifyError as error:
            msg = "an example is needed: a module does not say what it takes"
            raise UsageError(msg, remedy="pass what it is called with: save(model, name, example=x)") from error
        inputs, outputs = (
            tuple(Field(name=name, dtype=_named(value.dtype), shape=tuple(caller.sizes(value))) for name, value in side)
            for side in (caller.inputs.items(), caller.outputs.items())
        )
        return Signature(inputs=inputs, outputs=outputs, container="dict")

    def entry(self, model: Any, example: Example) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return nothing: the signature says how the module is called."""
        return {}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:  # noqa: ARG002 (the protocol's)
        """Return the output fields; which dimensions may change is what the exported program says."""
        return output_fields(outputs, entry.get("shapes", {}))


class _TorchSession(BaseSession):
    def __init__(self, model: torch.nn.Module, signature: Signature) -> None:
        super().__init__(signature)
        self._model = model

    def _run(self, inputs: Arrays) -> Arrays:
        args, kwargs = arguments(containers.from_arrays(inputs, self.signature), self.signature)
        with evaluated(self._model), torch.inference_mode():
            outputs = outputs_by_name(self._model(*args, **kwargs))
            return {name: array(value) for name, value in outputs.items()}


class _ProgramSession(BaseSession):
    def __init__(self, model: torch.fx.GraphModule, signature: Signature, entry: Mapping[str, Any]) -> None:
        super().__init__(signature)
        self._caller = Caller(model)
        takes, gives = (_ports(self._caller, side) for side in (self._caller.inputs, self._caller.outputs))
        self._ports = Ports(signature, entry, takes, gives)
        self._ports.require_free()

    def _run(self, inputs: Arrays) -> Arrays:
        feeds = self._ports.feeds(inputs)
        with torch.inference_mode():
            answers = self._caller(
                {name: tensor(value).to(self._caller.inputs[name].dtype) for name, value in feeds.items()}
            )
            return self._ports.answers({name: array(value) for name, value in answers.items()})


def _ports(caller: Caller, values: Mapping[str, torch.Tensor]) -> list[Port]:
    return [Port(name, _numpy(value.dtype), tuple(caller.sizes(value))) for name, value in values.items()]


def _numpy(dtype: torch.dtype) -> str:
    return {"bfloat16": "float32"}.get(name := str(dtype).removeprefix("torch."), name)


def _named(dtype: torch.dtype) -> str:
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        msg = f"a tensor of {name}, which no signature has"
        raise UnsupportedModelError(msg, remedy="cast it in forward to a type that NumPy has")
    return name
