"""TorchScript's interpreter on the CPU.

A module that was saved is called as its example was: by name, by position, or with one tensor; a number in the
example is an argument of type int, float or bool. A module that a converter wrote is called through :mod:`._ports`.

Some modules remember: they assign to their own attributes while they predict. Such a session works on a copy of its
own, goes on from call to call, and :meth:`TorchScriptSession.reset` brings it back to where the file starts.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from vitrify.core.document import SCHEMA, Document
from vitrify.formats._torch.call import evaluated, outputs_by_name
from vitrify.formats.torchscript import TorchScript
from vitrify.runtimes._ports import Port, Ports
from vitrify.runtimes._sizes import output_fields, shapes
from vitrify.runtimes._torch_arrays import array, called, tensor
from vitrify.runtimes.session import BaseSession, signature_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.protocols import Allow, Arrays, Example, Files, Session
    from vitrify.core.signature import Field, Signature

_NUMBERS = {"int": int, "float": float, "bool": bool, "number": float}
_READS_ATTRIBUTE, _WRITES_ATTRIBUTE = "prim::GetAttr", "prim::SetAttr"


class TorchScriptRuntime:
    """The runtime of scripted and traced modules."""

    def open(self, files: Files, document: Document, allow: Allow) -> Session:
        """Open a module."""
        return TorchScriptSession(TorchScript().read(files, document.entry, allow), document)

    def wrap(self, model: Any, document: Document) -> Session:
        """Return a session over a live module; one that remembers is copied first."""
        return TorchScriptSession(copy.deepcopy(model) if remembers(model) else model, document)

    def entry(self, model: Any, example: Example) -> dict[str, Any]:
        """Return the shapes of the outputs, found by calling the module with every changeable size doubled.

        Raises:
            ModelError: The module rejects the example.
            UnsupportedModelError: It works for the example's own sizes only.
        """
        return {"call_shapes": shapes(partial(_outputs_of, model, example.signature), example)}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:  # noqa: ARG002 (the protocol's)
        """Return the output fields; which dimensions may change was found out by calling the module."""
        return output_fields(outputs, entry.get("call_shapes", {}))


class TorchScriptSession(BaseSession):
    """A session over a module."""

    def __init__(self, model: torch.jit.ScriptModule, document: Document) -> None:
        """Find out how the module is called."""
        super().__init__(signature_of(document, "a module"))
        self._start = copy.deepcopy(model) if remembers(model) else None
        self._model = model
        self._kinds = {argument.name: str(argument.type) for argument in model.forward.schema.arguments[1:]}
        self._ports = script_ports(document)

    @property
    def remembers(self) -> bool:
        """Whether there is anything that :meth:`reset` could forget."""
        return self._start is not None

    def reset(self) -> None:
        """Forget what earlier calls left behind."""
        if self._start is not None:
            self._model = copy.deepcopy(self._start)

    def _run(self, inputs: Arrays) -> Arrays:
        with evaluated(self._model), torch.inference_mode():
            if self._ports:
                feeds = self._ports.feeds(inputs)
                answers = outputs_by_name(self._model(**{name: tensor(value) for name, value in feeds.items()}))
                return self._ports.answers({name: array(value) for name, value in answers.items()})
            args, kwargs = called(inputs, self.signature)
            kinds = list(self._kinds.values())
            args = tuple(_as(kind, value) for kind, value in zip(kinds, args, strict=False))
            kwargs = {name: _as(self._kinds.get(name, ""), value) for name, value in kwargs.items()}
            return {name: array(value) for name, value in outputs_by_name(self._model(*args, **kwargs)).items()}


def remembers(model: torch.jit.ScriptModule) -> bool:
    """Say whether a call may change the module: assign to its attributes, or write into their tensors."""
    graph = _settled(model)
    if graph.findAllNodes(_WRITES_ATTRIBUTE):
        return True
    return any(_is_written(node.output()) for node in graph.findAllNodes(_READS_ATTRIBUTE))


def _settled(model: torch.jit.ScriptModule) -> Any:
    """Return the graph of ``forward`` without the branches of training, which write statistics."""
    try:
        frozen = torch._C._freeze_module(model._c, [], True, True)  # noqa: FBT003, SLF001 (the public one copies weights)
        return frozen._get_method("forward").graph  # noqa: SLF001 (as above)
    except RuntimeError:
        return model.inlined_graph


def _is_written(value: Any) -> bool:
    """Say whether an operator writes into a value: its name ends in an underscore, and the value comes first."""
    users = [use.user for use in value.uses()]
    return any(
        user.kind().endswith("_") and next(iter(user.inputs())).debugName() == value.debugName() for user in users
    )


def script_ports(document: Document) -> Ports | None:
    """Return the ports of a module that a converter wrote; the file itself says no types."""
    if "takes" not in document.entry or document.signature is None:
        return None
    takes = [Port(name, dtype, tuple(shape)) for name, (dtype, shape) in document.entry["takes"].items()]
    gives = [Port(name, "") for name in document.entry["outputs"].values()]
    return Ports(document.signature, document.entry, takes, gives)


def _as(kind: str, value: Any) -> Any:
    """Return an argument as the module wants it: a number where it declares one, else a tensor."""
    if kind in _NUMBERS:
        return _NUMBERS[kind](value)
    return value if isinstance(value, torch.Tensor) else torch.as_tensor(value)


def _outputs_of(model: torch.jit.ScriptModule, signature: Signature, arrays: Arrays) -> Arrays:
    fresh = Document(schema=SCHEMA, format="torchscript", runtime="torchscript", signature=signature)
    return TorchScriptRuntime().wrap(model, fresh).run(arrays)
