"""A TorchScript module made ready for an exporter: called by position, returning tensors, with samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.jit import _recursive

from vitrify.core.report import Finding
from vitrify.formats._torch.call import outputs_by_name
from vitrify.formats.torchscript import TorchScript
from vitrify.runtimes._torch_arrays import called, tensor
from vitrify.runtimes.torchscript import remembers, script_ports

if TYPE_CHECKING:
    from vitrify.core.protocols import Subject

Sizes = tuple[int | str, ...]

_CARRIED = frozenset({"casts", "labels", "missing_text"})


@dataclass(frozen=True)
class ScriptCall:
    """How a module is called.

    Attributes:
        module: Takes its inputs by position, and returns a tensor or a tuple of them.
        arguments: Samples, in that order; empty where there are none.
        inputs: The shape of each input by name, in that order.
        outputs: The shape of each output by name, in the order in which they are returned.
        entry: What the target's entry says about names.
        numbers: Arguments that are no tensors.
        stateful: Whether the module changes when it is called.
    """

    module: torch.jit.ScriptModule
    arguments: tuple[torch.Tensor, ...]
    inputs: dict[str, Sizes]
    outputs: dict[str, Sizes]
    entry: dict[str, Any]
    numbers: tuple[str, ...]
    stateful: bool

    @classmethod
    def of(cls, source: Subject) -> ScriptCall:
        """Read the module and call it once with the golden samples."""
        module = TorchScript().read(source.files, source.document.entry, source.allow)
        parameters = [argument.name for argument in module.forward.schema.arguments[1:]]
        entry, signature = source.document.entry, source.document.signature
        if not source.golden or signature is None:
            return cls(module, (), {}, {}, {}, (), remembers(module))
        values, names = _values(source, parameters)
        numbers = tuple(name for name, value in values.items() if not isinstance(value, torch.Tensor))
        if numbers or remembers(module):
            return cls(module, (), {}, {}, {}, numbers, remembers(module))
        wrapped, answers = _plain(module, values)
        if "takes" in entry:
            inputs = {names[name]: tuple(entry["takes"][name][1]) for name in values}
            outer = {inner: name for name, inner in entry["outputs"].items()}
            carried = {key: value for key, value in entry.items() if key in _CARRIED}
        else:
            inputs = {names[name]: signature.input(names[name]).shape for name in values}
            outer, carried = {name: name for name in answers}, {}
        fields = {field.name: field.shape for field in signature.outputs}
        outputs = {outer.get(name, name): fields.get(outer.get(name, name), ()) for name in answers}
        known = [name for name in outputs if name in fields]
        mapping = {"inputs": {name: name for name in inputs}, "outputs": {name: name for name in known}}
        return cls(wrapped, tuple(values.values()), inputs, outputs, {**carried, **mapping}, (), stateful=False)

    def problems(self, target: str) -> tuple[Finding, ...]:
        """List what no exporter can carry."""
        found = [
            Finding(
                place=name,
                message=f"is a number, not a tensor: {target} would have it frozen",
                remedy="set it inside of the module: script a module that calls this one with the number",
            )
            for name in self.numbers
        ]
        if self.stateful:
            found.append(
                Finding(
                    place="forward",
                    message=f"assigns to the module's own attributes, and a graph of {target} remembers nothing",
                    remedy="pass the state in and return it",
                )
            )
        if not found and not self.arguments:
            remedy = "pack it with an example of what it is called with"
            found.append(Finding(place="forward", message="there are no samples to export it with", remedy=remedy))
        return tuple(found)


def _values(source: Subject, parameters: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the samples by argument, in order, and the signature's name of each argument."""
    document = source.document
    assert document.signature is not None
    if (ported := script_ports(document)) is not None:
        feeds = ported.feeds(source.golden)
        names = {inner: outer for outer, inner in document.entry["inputs"].items()}
        return {name: tensor(feeds[name]) for name in parameters if name in feeds}, names
    args, kwargs = called(source.golden, document.signature)
    fields = [field.name for field in document.signature.inputs]
    if kwargs:
        by_key = dict(zip(kwargs, fields, strict=True))
        return {name: kwargs[name] for name in parameters if name in kwargs}, by_key
    given = dict(zip(parameters, args, strict=False))
    return given, dict(zip(parameters, fields, strict=False))


def _plain(module: torch.jit.ScriptModule, values: dict[str, torch.Tensor]) -> tuple[torch.jit.ScriptModule, list[str]]:
    """Return a module that is called by position and gives a tuple, and the names of what it gives."""
    with torch.no_grad():
        result = module(**{name: value.clone() for name, value in values.items()})
    names = list(outputs_by_name(result))
    outer = torch.nn.Module()
    outer.inner = module
    script = _recursive.create_script_module(outer.eval(), lambda _: [], share_types=False)
    call = f"self.inner({', '.join(f'{name}={name}' for name in values)})"
    answer = f"({', '.join(f'r[{key!r}]' for key in result)},)" if isinstance(result, dict) else "r"
    script.define(f"def forward(self, {', '.join(values)}):\n    r = {call}\n    return {answer}\n")
    if isinstance(result, dict):
        _without_dict(script.graph)
    return script, names


def _without_dict(graph: Any) -> None:
    """Let each reader of a dict that is built in the graph read what was put into it: exporters know no dicts."""
    torch._C._jit_pass_inline(graph)  # noqa: SLF001 (no public way)
    for node in graph.findAllNodes("aten::__getitem__"):
        made, key = (value.node() for value in node.inputs())
        if made.kind() == "prim::DictConstruct":
            parts = list(made.inputs())
            held = {part.toIValue(): value for part, value in zip(parts[::2], parts[1::2], strict=True)}
            node.output().replaceAllUsesWith(held[key.output().toIValue()])
    torch._C._jit_pass_dce(graph)  # noqa: SLF001 (as above)
