"""The planner: the cheapest road over the map of transforms."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from vitrify.core.catalog import catalog
from vitrify.core.errors import UnsupportedModelError
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
        options: Given to every step. ``opset`` and ``ir_version`` are reason enough for a step from ONNX to ONNX.
        rows: The map; by default the catalog's transforms.

    Raises:
        UsageError: ``target``, or a format of ``via``, is no known format.
        UnsupportedModelError: No road leads there; the message lists where roads do lead.
    """
    for name in (*via, target):
        catalog().row("format", name)
    edges, given = _edges(fidelity, rows), dict(options or {})
    steps: tuple[Step, ...] = ()
    here = source
    for stop in (*via, target):
        steps += _leg(here, stop, fidelity, edges, given)
        here = stop
    if not steps and given.keys() & _VERSIONS:
        same = (row for row in edges if row.source == row.destination == target and row.name == f"{target}-opset")
        steps = tuple(_step(row, given) for row in same)
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
