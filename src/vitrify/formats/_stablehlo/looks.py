"""What is said about a module, whoever holds it: facts, hazards, a graph to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.graph import Graph, Node, Tensor
from vitrify.core.report import Finding
from vitrify.formats import _facts
from vitrify.formats._stablehlo.module import is_custom_call
from vitrify.formats._stablehlo.targets import INERT, PYTHON
from vitrify.reading.mlir import MAGIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.formats._stablehlo.module import Body, Module, Op, Type

DIALECTS = frozenset(
    {"builtin", "func", "stablehlo", "vhlo", "chlo", "mhlo", "sdy", "quant", "shape", "tensor", "arith", "math"}
)
"""Dialects whose operations compute, say what runs where, or call what is in the module."""
_READ = "find out what is registered under that name; allow it by its exact name if it is yours"


def read(view: memoryview, *, where: str) -> Module:
    """Return the module in bytes that are bytecode or text.

    Raises:
        MalformedError: They are neither, or cut off.
        LimitExceededError: They are larger or deeper than is read.
    """
    if bytes(view[: len(MAGIC)]) == MAGIC:
        from vitrify.formats._stablehlo import bytecode

        return bytecode.read(view, where=where)
    from vitrify.formats._stablehlo import text

    return text.read(view, where=where)


def facts(module: Module) -> dict[str, Any]:
    """Return what the module says about itself."""
    main = module.main
    found: dict[str, Any] = {
        "producer": module.producer,
        "versions": {"stablehlo": module.version} if module.version else {},
        "inputs": [_port(one.name, one.type) for one in main.body.arguments] if main else [],
        "outputs": [_port(f"result {at}", one) for at, one in enumerate(main.outputs)] if main else [],
        "operators": _facts.counts(one.name for one in module.walk()),
        "module": module.name,
        "dialects": sorted(set(module.dialects)),
        "functions": {one.name: sum(1 for _ in one.body.walk()) for one in module.functions},
    }
    targets = _facts.counts(one.target or "?" for one in module.walk() if is_custom_call(one.name))
    needs = [f"the custom call {one}" for one in targets if one not in INERT]
    found |= {"custom_calls": targets} if targets else {}
    return {**found, "needs": needs} if needs else found


def hazards(module: Module, place: str) -> Iterator[Finding]:
    """Yield what it calls that is not in it, and operations of dialects that are not known to compute only."""
    calls = {one.target for one in module.walk() if is_custom_call(one.name)}
    for target in sorted(one for one in calls if one is not None and one not in INERT):
        if target in PYTHON:
            message = f"the custom call {target} runs a function of the Python process, by its address or number"
            yield Finding(place=place, message=message, rule="python-callback", subject=target, remedy=_READ)
        else:
            message = f"the custom call {target} runs code that is not in this file: whatever has that name"
            yield Finding(place=place, message=message, rule="custom-call", subject=target, remedy=_READ)
    if None in calls:
        message = "a custom call whose target is not told, or told twice"
        yield Finding(place=place, message=message, rule="custom-call", verdict="not checked")
    dialects = {one.name.split(".")[0] for one in module.walk() if "." in one.name}
    for dialect in sorted(dialects - DIALECTS):
        message = f"operations of {dialect!r:.100}, a dialect that is not known here and may do anything"
        yield Finding(place=place, message=message, rule="unknown-dialect", subject=dialect, verdict="not checked")


def graph(module: Module) -> Graph:
    """Return the main function as a graph; each function that is called is drawn where it is called first."""
    main = module.main
    if main is None:
        return Graph(name=module.name, nodes=tuple(_Pen(module).node(one) for one in module.others))
    return _Pen(module).graph(main.body, main.name)


class _Pen:
    def __init__(self, module: Module) -> None:
        self.functions = {one.name: one for one in module.functions}
        self.drawn = set[str]()

    def graph(self, body: Body, name: str) -> Graph:
        self.drawn.add(name)
        ends = body.operations[-1:] if body.operations and body.operations[-1].name.endswith(".return") else []
        ports = [*body.arguments, *(port for one in body.operations for port in one.results)]
        return Graph(
            name=name,
            inputs=tuple(one.name for one in body.arguments),
            outputs=tuple(ends[0].operands) if ends else (),
            nodes=tuple(self.node(one) for one in body.operations[: len(body.operations) - len(ends)]),
            tensors={one.name: Tensor(type=one.type.name, shape=one.type.shape) for one in ports},
        )

    def node(self, one: Op) -> Node:
        graphs = {str(at): self.graph(body, f"region {at}") for at, body in enumerate(one.regions)}
        if one.call in self.functions and one.call not in self.drawn and len(self.drawn) < _DEEPEST:
            graphs[one.call] = self.graph(self.functions[one.call].body, one.call)
        notes = {key: value for key, value in (("target", one.target), ("calls", one.call)) if value}
        results = tuple(port.name for port in one.results)
        return Node(operator=one.name, inputs=tuple(one.operands), outputs=results, attributes=notes, graphs=graphs)


_DEEPEST = 100


def _port(name: str, kind: Type) -> dict[str, Any]:
    return _facts.port(name, kind.name, kind.shape)
