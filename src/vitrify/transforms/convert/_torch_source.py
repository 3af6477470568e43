"""The graph of an exported program as the source of a TorchScript method: nothing is traced, so no size is baked in.

Every operator is called by its name with literals of the types that its schema declares. Arithmetic with sizes is
Python's, a branch is an ``if`` over methods of their own.

Source: ``torch/csrc/jit/docs`` (the language), ``torch/_higher_order_ops/cond.py``.
"""

from __future__ import annotations

import math
import operator
import re
from typing import Any

import torch

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.report import Finding

_BINARY: dict[Any, str] = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.floordiv: "//",
    operator.truediv: "/",
    operator.mod: "%",
    operator.pow: "**",
    operator.eq: "==",
    operator.ne: "!=",
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.and_: "and",
    operator.or_: "or",
}
_CALLS: dict[Any, str] = {
    torch.sym_max: "max",
    torch.sym_min: "min",
    torch.sym_int: "int",
    torch.sym_float: "float",
    torch.sym_not: "not ",
    operator.neg: "-",
    operator.not_: "not ",
    math.ceil: "math.ceil",
    math.floor: "math.floor",
    math.trunc: "int",
    round: "round",
}
_CHECKS = re.compile(r"aten\._assert|aten\.sym_constrain|aten\._sym_constrain|_guards|_assert_")
_SIZES = {
    "aten.sym_size.int": "aten.size",
    "aten.sym_numel.default": "aten.numel",
    "aten.sym_stride.int": "aten.stride",
}


class Source:
    """The methods of a program's module.

    Attributes:
        tensors: By their paths in the source, what the methods read from the module.
    """

    def __init__(self, module: torch.fx.GraphModule) -> None:
        """Take a module of :meth:`torch.export.ExportedProgram.module`."""
        self.tensors: dict[str, torch.Tensor] = {}
        self._module = module
        self._methods: list[str] = []
        self._problems: dict[str, Finding] = {}

    def text(self, parameters: list[str]) -> str:
        """Return the source of ``forward`` and of what it calls.

        Args:
            parameters: What its arguments are called, in the graph's order; other placeholders are constants.

        Raises:
            UnsupportedModelError: It holds what the language has not; all of it is listed.
        """
        forward = self._method("forward", self._module, parameters)
        if self._problems:
            msg = f"{len(self._problems)} operator(s) of this program have no form in TorchScript"
            raise UnsupportedModelError(msg, problems=self._problems.values())
        return "\n".join([*self._methods, forward])

    def _method(self, name: str, module: torch.fx.GraphModule, parameters: list[str]) -> str:
        names: dict[torch.fx.Node, str] = {}
        lines: list[str] = []
        free = iter(parameters)
        declared: list[str] = []
        for node in module.graph.nodes:
            match node.op:
                case "placeholder":
                    value = node.meta.get("val")
                    if name == "forward" and not isinstance(value, torch.Tensor):
                        names[node] = repr(value)
                        continue
                    names[node] = next(free, f"a{len(declared)}")
                    declared.append(f"{names[node]}: {_kind(value)}")
                case "get_attr":
                    names[node] = self._attribute(node, module)
                case "call_function":
                    names[node] = f"v{len(names)}"
                    if (made := self._call(node, names, module)) is None:
                        names[node] = "None"
                    else:
                        lines.append(f"    {names[node]} = {made}")
                case "output":
                    lines.append(f"    return {self._result(node, names)}")
        head = f"def {name}(self, {', '.join(declared)})" if declared else f"def {name}(self)"
        return "\n".join([f"{head}:", *lines, ""])

    def _attribute(self, node: torch.fx.Node, module: torch.fx.GraphModule) -> str:
        target = str(node.target)
        value: Any = module
        for part in target.split("."):
            value = getattr(value, part)
        if isinstance(value, torch.Tensor):
            path = ".".join(_identifier(part) for part in target.split("."))
            if module is not self._module:
                path = f"inner.{path}"
            self.tensors[path] = value.detach()
            return f"self.{path}"
        return target  # a graph; whoever calls it knows

    def _call(  # noqa: PLR0911 (one for each kind of call)
        self, node: torch.fx.Node, names: dict[torch.fx.Node, str], module: torch.fx.GraphModule
    ) -> str | None:
        target: Any = node.target
        if isinstance(target, torch._ops.OpOverload):  # noqa: SLF001 (no public name)
            if _CHECKS.match(str(target)) or (_CHECKS.search(str(target)) and not node.users):
                return None
            return self._operator(node, target, names)
        if target is operator.getitem:
            return f"{names[node.args[0]]}[{node.args[1]}]"
        if target in _BINARY:
            left, right = (_plain(one, names) for one in node.args)
            return f"{left} {_BINARY[target]} {right}"
        if target in _CALLS:
            return f"{_CALLS[target]}({', '.join(_plain(one, names) for one in node.args)})"
        label = str(getattr(target, "__name__", target))
        if label == "cond":
            return self._branch(node, names, module)
        if label == "wrap_with_set_grad_enabled":
            return self._inner(node.args[1], list(node.args[2:]), names, module)
        if _CHECKS.search(label) and not node.users:
            return None
        return self._refuse(label)

    def _operator(self, node: torch.fx.Node, target: Any, names: dict[torch.fx.Node, str]) -> str:
        schema = target._schema  # noqa: SLF001 (no public name)
        name = _SIZES.get(str(target), f"{target.namespace}.{schema.name.partition('::')[2]}")
        parts = []
        for position, argument in enumerate(schema.arguments):
            if argument.kwarg_only or position >= len(node.args):
                continue
            parts.append(_literal(node.args[position], str(argument.type), names))
        given = {argument.name: argument for argument in schema.arguments}
        for key, value in node.kwargs.items():
            if key in given and not (value is None and given[key].default_value is None):
                parts.append(f"{key}={_literal(value, str(given[key].type), names)}")
        return f"torch.ops.{name}({', '.join(parts)})"

    def _branch(self, node: torch.fx.Node, names: dict[torch.fx.Node, str], module: torch.fx.GraphModule) -> str:
        predicate, yes, no, operands = node.args
        first, second = (self._inner(graph, list(operands), names, module) for graph in (yes, no))
        return f"{first} if bool({_plain(predicate, names)}) else {second}"

    def _inner(self, graph: Any, operands: list[Any], names: dict[torch.fx.Node, str], module: Any) -> str:
        target = str(graph.target)
        name = _identifier(f"inner_{len(self._methods)}_{target}")
        self._methods.append("")  # its place comes before what calls it
        place = len(self._methods) - 1
        self._methods[place] = self._method(name, getattr(module, target), [f"a{i}" for i in range(len(operands))])
        return f"self.{name}({', '.join(_plain(one, names) for one in operands)})"

    def _result(self, node: torch.fx.Node, names: dict[torch.fx.Node, str]) -> str:
        values = [names[one] for one in node.args[0] if isinstance(one, torch.fx.Node)]
        is_inner = node.graph is not self._module.graph
        return values[0] if len(values) == 1 and not is_inner else f"({', '.join(values)},)"

    def _refuse(self, label: str) -> str:
        self._problems[label] = Finding(
            place=label,
            message="has no form in TorchScript",
            remedy="keep the torch-export form, or replace it in forward",
        )
        return "None"


def _kind(value: Any) -> str:
    if isinstance(value, (torch.SymInt, int)):
        return "int"
    return "float" if isinstance(value, (torch.SymFloat, float)) else "Tensor"


def _identifier(text: str) -> str:
    plain = re.sub(r"\W", "_", text)
    return plain if plain.isidentifier() else f"_{plain}"


def _plain(value: Any, names: dict[torch.fx.Node, str]) -> str:
    return names[value] if isinstance(value, torch.fx.Node) else _number(value)


def _number(value: Any) -> str:
    return f'float("{value}")' if isinstance(value, float) and not math.isfinite(value) else repr(value)


def _literal(value: Any, kind: str, names: dict[torch.fx.Node, str]) -> str:
    """Return an argument as source, in the type that the schema declares."""
    inner = kind.removeprefix("Optional[").removesuffix("]") if kind.startswith("Optional[") else kind
    if isinstance(value, torch.fx.Node):
        return names[value]
    if isinstance(value, (list, tuple)):
        element = inner.removeprefix("List[").removesuffix("]")
        listed = f"[{', '.join(_literal(one, element, names) for one in value)}]"
        return listed if value and "Optional" not in element else f"torch.jit.annotate(List[{element}], {listed})"
    if isinstance(value, torch.device):
        return 'torch.device("cpu")'
    if isinstance(value, bool) or value is None:
        return repr(value)
    if inner == "float" and isinstance(value, int):
        return _number(float(value))
    return _number(value)
