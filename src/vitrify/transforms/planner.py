"""The planner: the cheapest road over the map of transforms."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from vitrify.core.catalog import catalog
from vitrify.core.errors import UnsupportedModelError
from vitrify.core.plan import FIDELITIES, Fidelity, Plan, Step

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.core.row import Row


def plan(
    source: str,
    target: str,
    *,
    fidelity: Fidelity = "numeric",
    options: dict[str, Any] | None = None,
    rows: Iterable[Row] | None = None,
) -> Plan:
    """Return the cheapest plan within the allowed fidelity; between equal costs, the first by name.

    Args:
        source: Format to start from.
        target: Format to reach.
        fidelity: The most that any step may change.
        options: Given to every step.
        rows: The map; by default the catalog's transforms.

    Raises:
        UsageError: ``target`` is no known format.
        UnsupportedModelError: No road leads there; the message lists where roads do lead.
    """
    catalog().row("format", target)
    allowed = FIDELITIES[: FIDELITIES.index(fidelity) + 1]
    edges = [row for row in rows or catalog().rows("transform") if row.fidelity in allowed]
    queue: list[tuple[int, tuple[str, ...], str, tuple[Step, ...]]] = [(0, (), source, ())]
    done: set[str] = set()
    while queue:
        cost, names, here, steps = heapq.heappop(queue)
        if here == target:
            return Plan(source=source, target=target, steps=steps)
        if here in done:
            continue
        done.add(here)
        for row in edges:
            if row.source == here and row.destination not in done:
                step = _step(row, options or {})
                heapq.heappush(queue, (cost + row.cost, (*names, row.name), step.target, (*steps, step)))
    reachable = ", ".join(sorted(done - {source})) or "nowhere"
    msg = (
        f"no road leads from {source} to {target} within fidelity {fidelity!r} (from {source} one gets to: {reachable})"
    )
    raise UnsupportedModelError(
        msg, remedy="allow more with fidelity='lossy', or choose another target: vitrify formats"
    )


def _step(row: Row, options: dict[str, Any]) -> Step:
    assert row.source is not None
    assert row.destination is not None
    return Step(transform=row.name, source=row.source, target=row.destination, fidelity=row.fidelity, options=options)
