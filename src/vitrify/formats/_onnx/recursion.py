"""Functions of an ONNX model call each other, but never in a circle, and never more often than can be expanded."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from vitrify.core.report import Finding
from vitrify.formats._onnx.model import MAX_DEPTH, Operator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.formats._onnx.model import Model

MAX_EXPANDED = 10_000_000
"""Operators after all functions are expanded; the largest honest graphs have a hundred thousand."""

_Name = tuple[str, str]


def functions(model: Model) -> Iterator[Finding]:
    """Yield a circle of functions, and a tower of them that grows beyond all bounds."""
    calls = {(function.domain, function.name): _calls(model, function) for function in model.functions()}
    order, circle = _sorted(calls)
    if circle is not None:
        yield Finding(
            place=f"{model.where}: function {'.'.join(circle)}",
            rule="recursive-function",
            subject=".".join(circle),
            message="calls itself, at once or through others: a reader that expands functions never ends",
        )
        return
    sizes: dict[_Name, int] = {}
    for name in order:
        sizes[name] = sum(count * sizes.get(called, 1) for called, count in calls[name].items())
        if sizes[name] > MAX_EXPANDED:
            yield Finding(
                place=f"{model.where}: function {'.'.join(name)}",
                rule="function-bomb",
                subject=".".join(name),
                message=f"becomes more than {MAX_EXPANDED} operators where its functions are expanded",
            )
            return


def _calls(model: Model, function: object) -> Counter[_Name]:
    found: Counter[_Name] = Counter()
    for node in model.document.each(function, "node"):
        for one in model.node(node, "", MAX_DEPTH):
            if isinstance(one, Operator):
                found[one.node.domain, one.node.op_type] += 1
    return found


def _sorted(calls: dict[_Name, Counter[_Name]]) -> tuple[list[_Name], _Name | None]:
    """Return the functions, each after those that it calls, or one of a circle."""
    order: list[_Name] = []
    waiting = {name: {called for called in found if called in calls} for name, found in calls.items()}
    callers: dict[_Name, list[_Name]] = {name: [] for name in calls}
    for name, found in waiting.items():
        for called in found:
            callers[called].append(name)
    ready = [name for name, found in waiting.items() if not found]
    while ready:
        name = ready.pop()
        order.append(name)
        for caller in callers[name]:
            waiting[caller].discard(name)
            if not waiting[caller]:
                ready.append(caller)
    return order, next((name for name, found in waiting.items() if found), None)
