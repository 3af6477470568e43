"""Branches and loops.

Both branches are computed and one is chosen, so that the choice may depend on data; a loop is written out where it is
known how often it runs. What else there is works on live tensors only, and no exporter can follow it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.replay._sizes import Sizes, is_constant
from vitrify.transforms.replay._torch_register import raw
from vitrify.transforms.replay._torch_values import ints, tensor

if TYPE_CHECKING:
    from vitrify.transforms.replay.walk import Body, Node

_MAX_TURNS = 1024


@raw("If")
def _if(node: Node, condition: Any) -> tuple[Any, ...]:
    yes, no = node.get("then_branch"), node.get("else_branch")
    if is_constant(condition):
        return _taken(yes if bool(np.asarray(condition).reshape(())) else no)
    condition = tensor(condition).reshape(())
    if not torch.compiler.is_exporting():
        return _taken(yes if bool(condition) else no)
    pairs = [(tensor(one), tensor(other)) for one, other in zip(yes(), no(), strict=True)]
    if any(one.dtype != other.dtype or one.shape != other.shape for one, other in pairs):
        msg = f"If ({node.name}): its branches give tensors of different types or shapes, by a condition that is data"
        raise UnsupportedModelError(msg, remedy="give both branches' outputs one shape")
    return tuple(torch.where(condition, one, other) for one, other in pairs)


def _taken(body: Body) -> tuple[Any, ...]:
    return body()


@raw("Loop")
def _loop(node: Node, count: Any, condition: Any, *carried: Any) -> tuple[Any, ...]:
    body: Body = node.get("body")
    turns = _turns(node, count)
    state = list(carried)
    scans: list[list[Any]] = [[] for _ in body.outputs[1 + len(carried) :]]
    go: Any = np.array(True) if condition is None else condition  # noqa: FBT003 (NumPy's)
    turn = 0
    while (turns is None or turn < turns) and _goes(node, go):
        go, *values = body(np.array(turn), np.array(True), *state)  # noqa: FBT003 (as above)
        state = values[: len(state)]
        for scan, value in zip(scans, values[len(state) :], strict=True):
            scan.append(value)
        turn += 1
        if turn > _MAX_TURNS:
            msg = f"Loop ({node.name}) runs more than {_MAX_TURNS} times"
            raise UnsupportedModelError(msg, remedy="write the loop as operators over a whole axis")
    return (*state, *(_stacked(node, scan) for scan in scans))


def _turns(node: Node, count: Any) -> int | None:
    if count is None:
        return None
    (turns,) = ints(count) if is_constant(count) or not torch.compiler.is_exporting() else (count,)
    if isinstance(count, Sizes) or not isinstance(turns, int):
        raise _unknown(node)
    return turns


def _goes(node: Node, go: Any) -> bool:
    if is_constant(go):
        return bool(np.asarray(go).reshape(()))
    if torch.compiler.is_exporting():
        raise _unknown(node)
    return bool(tensor(go).reshape(()))


def _unknown(node: Node) -> UnsupportedModelError:
    msg = f"{node.kind} ({node.name}): how often it runs depends on the data or on a size that may change"
    return UnsupportedModelError(msg, remedy="write the loop as operators over a whole axis, or fix that size")


def _stacked(node: Node, values: list[Any]) -> torch.Tensor:
    if not values:
        msg = f"{node.kind} ({node.name}) runs zero times, and what it collects has no shape then"
        raise UnsupportedModelError(msg, remedy="leave that output out")
    return torch.stack([tensor(value) for value in values])


@raw("Scan")
def _scan(node: Node, *given: Any) -> tuple[Any, ...]:
    body: Body = node.get("body")
    columns = node.get("num_scan_inputs")
    state, scanned = list(given[: len(given) - columns]), [tensor(value) for value in given[len(given) - columns :]]
    axes = node.get("scan_input_axes") or [0] * columns
    backward = node.get("scan_input_directions") or [0] * columns
    steps = scanned[0].shape[axes[0]]
    if not isinstance(steps, int) or steps > _MAX_TURNS:
        raise _unknown(node)
    lines = [value.flip(axis) if turned else value for value, axis, turned in zip(scanned, axes, backward, strict=True)]
    outputs: list[list[Any]] = [[] for _ in range(len(body.outputs) - len(state))]
    for step in range(steps):
        parts = [line.select(axis, step) for line, axis in zip(lines, axes, strict=True)]
        values = body(*state, *parts)
        state = list(values[: len(state)])
        for output, value in zip(outputs, values[len(state) :], strict=True):
            output.append(value)
    out_axes = node.get("scan_output_axes") or [0] * len(outputs)
    turned = node.get("scan_output_directions") or [0] * len(outputs)
    stacked = []
    for output, axis, back in zip(outputs, out_axes, turned, strict=True):
        parts = [tensor(value) for value in (reversed(output) if back else output)]
        stacked.append(torch.stack(parts, axis))
    return (*state, *stacked)
