"""The planner: the cheapest road over the map of transforms."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from vitrify.core.catalog import catalog
from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.core.plan import FIDELITIES, Fidelity, Plan, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vitrify.core.row import Row


_VERSIONS = frozenset({"opset", "ir_version"})


def plan(
    source: str,
    target: str,
    *,
    fidelity: Fidelity = "numeric",
    via: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    rows: Iterable[Row] | None = None,
) -> Plan:
    """Return the cheapest plan within the allowed fidelity; between equal costs, the first by name.

    Args:
        source: Format to start from.
        target: Format to reach.
        fidelity: The most that any step may change.
        via: Formats that the road must pass, in this order.
        options: Given to every step. ``opset`` and ``ir_version`` get a step of their own, from ONNX to ONNX.
        rows: The map; by default the catalog's transforms.

    Raises:
        UsageError: ``target``, or a format of ``via``, is no known format; or a version is asked for, and the road
            does not pass ONNX.
        UnsupportedModelError: No road leads there; the message lists where roads do lead.
    """
    for name in (*via, target):
        catalog().row("format", name)
    edges, asked = _edges(fidelity, rows), dict(options or {})
    given = {name: value for name, value in asked.items() if name not in _VERSIONS}
    steps: tuple[Step, ...] = ()
    here = source
    for stop in (*via, target):
        steps += _leg(here, stop, fidelity, edges, given)
        here = stop
    if asked != given:
        steps = _versioned(source, target, steps, asked)
    return Plan(source=source, target=target, steps=steps)


def reachable(
    source: str,
    *,
    fidelity: Fidelity = "numeric",
    options: Mapping[str, Any] | None = None,
    rows: Iterable[Row] | None = None,
) -> dict[str, Plan]:
    """Return the plan to every format that a road leads to, by the format's name; ``options`` go to every step."""
    roads = _roads(source, _edges(fidelity, rows), dict(options or {}))
    return {
        name: Plan(source=source, target=name, steps=steps) for name, steps in sorted(roads.items()) if name != source
    }


def _versioned(source: str, target: str, steps: tuple[Step, ...], asked: dict[str, Any]) -> tuple[Step, ...]:
    """Put the step to the versions that are asked for behind the last ONNX of the road.

    What leads to ONNX writes some operator sets, or one. It is told of one that it may know, since what is written in
    a set needs no translation; that it *is* that set, and the file's version, is the work of the step behind it.
    """
    from vitrify.transforms.convert._building.model import OPSETS
    from vitrify.transforms.convert.onnx_opset import require_known

    require_known(asked)
    places = [number for number, step in enumerate(steps, start=1) if step.target == "onnx"]
    if not places and source != "onnx":
        names = " and ".join(sorted(asked.keys() & _VERSIONS))
        msg = f"{names} asked for, but the road from {source} to {target} does not pass ONNX"
        raise UsageError(msg, remedy="leave that out, or let the road pass ONNX: --via onnx")
    place = places[-1] if places else 0
    before, after = steps[:place], steps[place:]
    opset = asked.get("opset")
    if before and opset is not None and opset in OPSETS:
        before = (*before[:-1], before[-1].replace(options={**before[-1].options, "opset": opset}))
    return (*before, _step(catalog().row("transform", "onnx-opset"), asked), *after)


def _leg(source: str, target: str, fidelity: Fidelity, edges: list[Row], options: dict[str, Any]) -> tuple[Step, ...]:
    roads = _roads(source, edges, options)
    if target in roads:
        return roads[target]
    known = ", ".join(sorted(roads.keys() - {source})) or "nowhere"
    msg = f"no road leads from {source} to {target} within fidelity {fidelity!r} (from {source} one gets to: {known})"
    if fidelity != "lossy" and target in reachable(source, fidelity="lossy"):
        remedy = "allow steps that lose something: fidelity='lossy' (--allow lossy)"
    else:
        remedy = "choose another target, or save the model in another format: vitrify formats"
    raise UnsupportedModelError(msg, remedy=remedy)


def _edges(fidelity: Fidelity, rows: Iterable[Row] | None) -> list[Row]:
    allowed = FIDELITIES[: FIDELITIES.index(fidelity) + 1]
    return [row for row in rows or catalog().rows("transform") if row.fidelity in allowed]


def _roads(source: str, edges: list[Row], options: dict[str, Any]) -> dict[str, tuple[Step, ...]]:
    """Return the cheapest road to every format (Dijkstra)."""
    queue: list[tuple[int, tuple[str, ...], str, tuple[Step, ...]]] = [(0, (), source, ())]
    roads: dict[str, tuple[Step, ...]] = {}
    while queue:
        cost, names, here, steps = heapq.heappop(queue)
        if here in roads:
            continue
        roads[here] = steps
        for row in edges:
            if row.source == here and row.destination not in roads:
                step = _step(row, options)
                heapq.heappush(queue, (cost + row.cost, (*names, row.name), step.target, (*steps, step)))
    return roads


def _step(row: Row, options: dict[str, Any]) -> Step:
    assert row.source is not None
    assert row.destination is not None
    return Step(transform=row.name, source=row.source, target=row.destination, fidelity=row.fidelity, options=options)
