"""What an exported program takes and gives, by name, whatever containers its ``forward`` had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from vitrify.core.errors import MalformedError
from vitrify.core.signature import BATCH
from vitrify.formats._torch.call import outputs_by_name

if TYPE_CHECKING:
    from collections.abc import Mapping

Sizes = list[int | str]


class Caller:
    """The module of a program, called with tensors by the names of its inputs."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        """Read names, types and sizes from the graph.

        Raises:
            MalformedError: It is no program's module.
        """
        try:
            info = module.graph._codegen.pytree_info  # noqa: SLF001 (no public way)
        except AttributeError as error:
            msg = f"a {type(module).__name__} is no exported program"
            raise MalformedError(msg, remedy="export it: torch.export.export(module, args)") from error
        nodes = list(module.graph.nodes)
        values = {str(node.target): node.meta.get("val") for node in nodes if node.op == "placeholder"}
        self._module, self._spec, self._constants = module, info.in_spec, values
        self.inputs = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
        results = pytree.tree_map(lambda node: node.meta.get("val"), nodes[-1].args[0])
        self.outputs = outputs_by_name(pytree.tree_unflatten(list(results), info.out_spec))
        self._names = _dimension_names(self.inputs)

    def __call__(self, feeds: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the outputs by name."""
        args, kwargs = self.arguments(feeds)
        return outputs_by_name(self._module(*args, **kwargs))

    def arguments(self, feeds: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what ``forward`` is called with; what is no tensor has the value it was exported with."""
        leaves = [feeds.get(name, constant) for name, constant in self._constants.items()]
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        return tuple(args), dict(kwargs)

    def sizes(self, value: torch.Tensor) -> Sizes:
        """Return a shape; a size that may change has a name, the first one of the first input is the batch."""
        found: Sizes = []
        for size in value.shape:
            if isinstance(size, torch.SymInt):
                named = {symbol: type(symbol)(text) for symbol, text in self._names.items()}
                found.append(str(size.node.expr.xreplace(named)))
            else:
                found.append(int(size))
        return found


def _dimension_names(inputs: Mapping[str, torch.Tensor]) -> dict[Any, str]:
    """Return a name for each symbol, the same whatever PyTorch called it."""
    names: dict[Any, str] = {}
    for position, (name, value) in enumerate(inputs.items()):
        for axis, size in enumerate(value.shape):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                names.setdefault(size.node.expr, BATCH if (position, axis) == (0, 0) else f"{name}_{axis}")
    return names


def names(entry: Mapping[str, Any], program: torch.export.ExportedProgram) -> tuple[list[str], list[str]]:
    """Return what a program's inputs and outputs are called in what is made of it, in the program's order.

    A module that was saved with an example has the signature's names, any other program its own.
    """
    if isinstance(entry["inputs"], list):
        return list(entry["inputs"]), list(entry["outputs"])
    caller = Caller(program.module(check_guards=False))
    return list(caller.inputs), list(caller.outputs)


def ports(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what has to stay in the entry of what is made of a program: from the signature's names to its own."""
    carried = {key: entry[key] for key in ("casts", "labels", "missing_text") if key in entry}
    for side in ("inputs", "outputs"):
        value = entry[side]
        carried[side] = {name: name for name in value} if isinstance(value, list) else dict(value)
    return carried
