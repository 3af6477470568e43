"""Where the boxes of a picture go: layers from top to bottom, crossings few, long arrows bent around boxes.

The steps are those of Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system
structures" (1981): layers by the longest path, stand-ins where an arrow crosses a layer, order by barycentres, then
positions near the middle of the neighbours. Everything is linear in boxes and arrows but for a few sorted passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.inspection.drawing.plan import Picture

CHARACTER = 7.2
LINE = 16.0
MARGIN = 20.0
GAP_X = 28.0
GAP_Y = 46.0
THIN = 8.0
SWEEPS = 6
MAX_STANDINS = 40_000
"""In a graph whose arrows cross more layers than this, long arrows are straight and may pass behind boxes."""


@dataclass
class Spot:
    """The place of a box, or of a stand-in that bends an arrow: centre, and size."""

    x: float
    y: float
    width: float
    height: float
    layer: int


@dataclass(frozen=True)
class Layout:
    """The places of all boxes, the points that each arrow goes through, and the size of the whole."""

    spots: list[Spot]
    paths: list[list[tuple[float, float]]]
    width: float
    height: float


def layout(picture: Picture) -> Layout:
    """Place everything."""
    count = len(picture.boxes)
    forward = [arrow for arrow in picture.arrows if arrow.source < arrow.target]
    layers = _layers(count, [(arrow.source, arrow.target) for arrow in forward])
    spots = [_spot(box.title, box.lines, layer) for box, layer in zip(picture.boxes, layers, strict=True)]
    chains: list[list[int]] = []
    bend = sum(layers[arrow.target] - layers[arrow.source] - 1 for arrow in forward) <= MAX_STANDINS
    for arrow in forward:
        chain = [arrow.source]
        for layer in range(layers[arrow.source] + 1, layers[arrow.target] if bend else 0):
            chain.append(len(spots))
            spots.append(Spot(0, 0, THIN, LINE, layer))
        chains.append([*chain, arrow.target])
    above: list[list[int]] = [[] for _ in spots]
    below: list[list[int]] = [[] for _ in spots]
    for chain in chains:
        for one, other in pairwise(chain):
            above[other].append(one)
            below[one].append(other)
    rows = _order(spots, above, below)
    _place(spots, rows, above, below)
    height = _heights(spots, rows)
    paths = {id(arrow): _path(chain, spots) for arrow, chain in zip(forward, chains, strict=True)}
    straight = ([arrow.source, arrow.target] for arrow in picture.arrows if id(arrow) not in paths)
    back = iter([_path(chain, spots) for chain in straight])
    width = max((spot.x + spot.width / 2 for spot in spots), default=0) + MARGIN
    return Layout(spots[:count], [paths.get(id(arrow)) or next(back) for arrow in picture.arrows], width, height)


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return each box's layer: below all that it needs, and inputs just above what needs them first."""
    layers = [0] * count
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        layers[target] = max(layers[target], layers[source] + 1)
    first: dict[int, int] = {}
    fed = {target for _, target in edges}
    for source, target in edges:
        first[source] = min(first.get(source, layers[target]), layers[target])
    return [first[box] - 1 if box in first and box not in fed else layer for box, layer in enumerate(layers)]


def _spot(title: str, lines: Sequence[str], layer: int) -> Spot:
    longest = max(len(text) for text in (title, *lines))
    kept = sum(1 for text in lines if text)
    return Spot(0, 0, longest * CHARACTER + 20, 14 + LINE * (1 + kept), layer)


def _order(spots: list[Spot], above: list[list[int]], below: list[list[int]]) -> list[list[int]]:
    """Return the spots of each layer from left to right: near the middle of their neighbours in the layer before."""
    rows: list[list[int]] = [[] for _ in range(max((spot.layer for spot in spots), default=-1) + 1)]
    for index, spot in enumerate(spots):
        rows[spot.layer].append(index)
    rank = [0.0] * len(spots)
    for row in rows:
        _rank(row, rank)
    for sweep in range(SWEEPS):
        near = above if sweep % 2 == 0 else below
        for row in rows if sweep % 2 == 0 else reversed(rows):
            middle = {index: _mean([rank[other] for other in near[index]], rank[index]) for index in row}
            row.sort(key=middle.__getitem__)
            _rank(row, rank)
    return rows


def _rank(row: Sequence[int], rank: list[float]) -> None:
    for place, index in enumerate(row):
        rank[index] = (place + 0.5) / len(row)


def _place(spots: list[Spot], rows: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    """Give every spot an x: near its neighbours, never over another."""
    for row in rows:
        _spread(spots, row, [0.0] * len(row))
    for sweep in range(SWEEPS):
        near = above if sweep % 2 == 0 else below
        for row in rows if sweep % 2 == 0 else reversed(rows):
            _spread(spots, row, [_mean([spots[other].x for other in near[index]], spots[index].x) for index in row])
    left = min((spot.x - spot.width / 2 for spot in spots), default=0)
    for spot in spots:
        spot.x += MARGIN - left


def _spread(spots: list[Spot], row: Sequence[int], wanted: Sequence[float]) -> None:
    """Set a row's places as near to the wanted ones as their widths allow: the mean of pushing right and left."""
    needed = [(spots[a].width + spots[b].width) / 2 + GAP_X for a, b in pairwise(row)]
    right, left = list(wanted), list(wanted)
    for place, gap in enumerate(needed):
        right[place + 1] = max(right[place + 1], right[place] + gap)
    for place in range(len(needed) - 1, -1, -1):
        left[place] = min(left[place], left[place + 1] - needed[place])
    for index, one, other in zip(row, right, left, strict=True):
        spots[index].x = (one + other) / 2


def _heights(spots: list[Spot], rows: list[list[int]]) -> float:
    y = MARGIN
    for row in rows:
        tallest = max((spots[index].height for index in row), default=0)
        for index in row:
            spots[index].y = y + tallest / 2
        y += tallest + GAP_Y
    return max(y - GAP_Y, 0) + MARGIN


def _path(chain: Sequence[int], spots: Sequence[Spot]) -> list[tuple[float, float]]:
    """Return the points of an arrow: out of the bottom of a box, through the stand-ins, into the top of another."""
    first, last = spots[chain[0]], spots[chain[-1]]
    inner = [(spots[index].x, spots[index].y) for index in chain[1:-1]]
    return [(first.x, first.y + first.height / 2), *inner, (last.x, last.y - last.height / 2)]


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default
