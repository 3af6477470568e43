"""The whole map of conversions, to look at: as a grid of sources and targets, and as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.catalog import catalog
from vitrify.core.html import escape
from vitrify.core.plan import FIDELITIES
from vitrify.transforms.planner import reachable

if TYPE_CHECKING:
    from vitrify.core.plan import Fidelity, Plan

_LEFT, _RIGHT, _TOP, _SIDE, _LEGEND = 130, 60, 110, 34, 44
_STYLE = (
    "text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #222; } .row { text-anchor: end; } "
    ".steps { text-anchor: middle; fill: #fff; font-weight: 600; } rect { rx: 4px; } .none { fill: #8882; } "
    ".exact { fill: #1a7f4b; } .numeric { fill: #2f6fd0; } .lossy { fill: #c07a10; } .absent { opacity: 0.45; } "
    "@media (prefers-color-scheme: dark) { text { fill: #ddd; } }"
)


def roads(*, fidelity: Fidelity = "lossy") -> dict[str, dict[str, Plan]]:
    """Return the cheapest plan from every source to every target: source, then target.

    A source is a format that some step starts from; it reaches what any chain of steps leads to.
    """
    sources = sorted({str(row.source) for row in catalog().rows("transform") if row.source != row.destination})
    return {source: reachable(source, fidelity=fidelity) for source in sources}


def targets(found: dict[str, dict[str, Plan]]) -> list[str]:
    """Return the formats that any source reaches, by name."""
    return sorted({target for plans in found.values() for target in plans})


def fidelity_of(plan: Plan) -> Fidelity:
    """Return the least faithful step's fidelity: what the whole road may change."""
    return max((step.fidelity for step in plan.steps), key=FIDELITIES.index, default="exact")


def installed(plan: Plan) -> bool:
    """Say whether the libraries of every step are there."""
    return all(catalog().row("transform", step.transform).installed() for step in plan.steps)


def cell(plan: Plan | None) -> str:
    """Return a road for a table: its fidelity, how many steps if several, in brackets if a library is missing."""
    if plan is None:
        return ""
    steps = len(plan.steps)
    text = fidelity_of(plan) + (f" ({steps})" if steps > 1 else "")
    return text if installed(plan) else f"[{text}]"


def svg() -> str:
    """Return the map as a picture: a row a source, a column a target, a square a road.

    Its colour is what the road may change, its number how many steps it has; it is pale where a library is missing.
    """
    found = roads()
    columns = targets(found)
    width, height = _LEFT + _SIDE * len(columns) + _RIGHT, _TOP + _SIDE * len(found) + _LEGEND
    parts = [
        f'<text class="column" transform="translate({_LEFT + _SIDE * (at + 0.6):.0f} {_TOP - 8}) rotate(-45)">'
        f"{escape(name)}</text>"
        for at, name in enumerate(columns)
    ]
    for line, (source, plans) in enumerate(found.items()):
        y = _TOP + _SIDE * line
        parts.append(f'<text class="row" x="{_LEFT - 10}" y="{y + _SIDE / 2 + 4:.0f}">{escape(source)}</text>')
        parts += [_square(plans.get(name), _LEFT + _SIDE * at, y) for at, name in enumerate(columns)]
    for at, name in enumerate(FIDELITIES):
        x, y = _LEFT + 110 * at, height - _LEGEND + 18
        parts.append(f'<rect class="{name}" x="{x}" y="{y}" width="14" height="14"/>')
        parts.append(f'<text x="{x + 20}" y="{y + 12}">{name}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f"<title>the map of conversions</title><style>{_STYLE}</style>{''.join(parts)}</svg>\n"
    )


def _square(plan: Plan | None, x: int, y: int) -> str:
    place = f'x="{x + 2}" y="{y + 2}" width="{_SIDE - 4}" height="{_SIDE - 4}"'
    if plan is None:
        return f'<rect class="none" {place}/>'
    shown = f"{fidelity_of(plan)}{'' if installed(plan) else ' absent'}"
    return (
        f'<g><title>{escape(str(plan))}</title><rect class="{shown}" {place}/>'
        f'<text class="steps" x="{x + _SIDE / 2:.0f}" y="{y + _SIDE / 2 + 4:.0f}">{len(plan.steps)}</text></g>'
    )
