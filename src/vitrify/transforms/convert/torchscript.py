"""From an exported PyTorch program to TorchScript: the graph written in TorchScript's own language.

Tensors keep their names. Nothing is traced or folded, so every size that may change still may, and no number is rounded
in another place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats._torch.caller import Caller, ports
from vitrify.formats._torch.quiet import quiet
from vitrify.formats.torch_export import read_program
from vitrify.formats.torchscript import TorchScript
from vitrify.transforms.convert._torch_source import Source

if TYPE_CHECKING:
    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject

_MAX_REASON = 400


class ExportedToTorchScript:
    """The step from ``torch-export`` to ``torchscript``."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:  # noqa: ARG002 (the protocol's)
        """List what the language has not."""
        try:
            script_of(source)
        except UnsupportedModelError as error:
            return error.problems or (Finding(place="program", message=error.message, remedy=error.remedy),)
        return ()

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:  # noqa: ARG002 (the protocol's)
        """Write the module."""
        module, entry = script_of(source)
        written = TorchScript().write(module, sink, None)
        return Written(entry={**written.entry, **entry}, names=written.names, notes=written.notes)


def script_of(source: Subject) -> tuple[torch.jit.ScriptModule, dict[str, Any]]:
    """Return a program as a scripted module, and what its entry has to say.

    Raises:
        UnsupportedModelError: It holds what the language has not; all of it is listed.
    """
    program = read_program(source.files, source.document.entry, source.allow)
    module = program.module(check_guards=False)
    caller = Caller(module)
    names = {name: f"{name}_" if name in _TAKEN else name for name in caller.inputs}
    code = Source(module)
    text = code.text(list(names.values()))
    root = torch.nn.Module()
    for path, value in code.tensors.items():
        _place(root, path, value)
    try:
        with quiet():
            _script(torch.nn.Module())  # takes the plain name of the class, so that ours always is a numbered one
            script = _script(root.eval())
            script.define(text)
    except RuntimeError as error:
        msg = f"PyTorch cannot compile this program as TorchScript: {str(error).strip()[:_MAX_REASON]}"
        raise UnsupportedModelError(msg, remedy="keep the torch-export form, or simplify forward") from error
    return script, _entry(source, caller, names)


_TAKEN = frozenset({"self", "torch", "math", "annotate", "int", "float", "bool", "max", "min", "round"})


def _entry(source: Subject, caller: Caller, names: dict[str, str]) -> dict[str, Any]:
    carried = ports(source.document.entry)
    first = source.document.entry["inputs"]
    order = list(first) if isinstance(first, list) else None
    by_program = dict(zip(order, caller.inputs, strict=True)) if order else carried["inputs"]
    given = list(caller.outputs)
    answers = source.document.entry["outputs"]
    positions = {name: "output" if len(given) == 1 else f"output_{place}" for place, name in enumerate(given)}
    outer = dict(zip(answers, given, strict=True)) if isinstance(answers, list) else carried["outputs"]
    takes = {
        names[name]: [str(value.dtype).removeprefix("torch."), caller.sizes(value)]
        for name, value in caller.inputs.items()
    }
    return {
        **carried,
        "inputs": {name: names[inner] for name, inner in by_program.items()},
        "outputs": {name: positions[inner] for name, inner in outer.items()},
        "takes": takes,
    }


def _script(module: torch.nn.Module) -> torch.jit.ScriptModule:
    """Return a module without methods, of a class of its own: shared ones may have been given other methods."""
    from torch.jit import _recursive

    return _recursive.create_script_module(module, lambda _: [], share_types=False)


def _place(module: torch.nn.Module, path: str, value: torch.Tensor) -> None:
    *parents, last = path.split(".")
    for part in parents:
        if not hasattr(module, part):
            module.add_module(part, torch.nn.Module())
        module = getattr(module, part)
    module.register_buffer(last, value)
