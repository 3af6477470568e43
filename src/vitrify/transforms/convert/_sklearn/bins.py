"""scikit-learn's pieces of a line: bins, and splines over knots.

Source: ``sklearn/preprocessing/_discretization.py``, ``_polynomial.py``; SciPy's ``interpolate/src/__fitpack.cc``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.data import FLOATS, Data, matrix
from vitrify.transforms.convert._building.graph import BOOL, F64, I64, Array, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts
from vitrify.transforms.convert._numerics.interpolate import count_below, interpolate
from vitrify.transforms.convert._numerics.normal import normal_quantile

if TYPE_CHECKING:
    from vitrify.transforms.convert._building.graph import Operand


@converts("sklearn.KBinsDiscretizer")
def k_bins_discretizer(steps: Steps, step: Any, data: Data) -> Outcome:
    """Count the inner edges at or below a value; one column a bin for the one-hot encodings."""
    graph = steps.graph
    x = matrix(graph, data, FLOATS if step.dtype is None else np.dtype(step.dtype))
    bins = [
        graph.column(graph.cast(count_below(graph, graph.gather(x, np.array(column), axis=1), edges[1:-1]), x.dtype))
        for column, edges in enumerate(step.bin_edges_)
    ]
    if step.encode == "ordinal":
        return Outcome(features=graph.concat(bins))
    hot = [
        graph.cast(graph.compare("Equal", bins[column], np.arange(count, dtype=x.dtype)), x.dtype)
        for column, count in enumerate(step.n_bins_)
    ]
    return Outcome(features=graph.concat(hot))


_BOUND = 1e-7
"""scikit-learn's ``BOUNDS_THRESHOLD``: nothing is mapped nearer to the ends of the normal distribution."""


@converts("sklearn.QuantileTransformer")
def quantile_transformer(steps: Steps, step: Any, data: Data) -> Outcome:
    """Interpolate between the quantiles, from below and from above as some may be equal; then take the normal's."""
    graph, x = steps.graph, matrix(steps.graph, data, FLOATS)
    normal = step.output_distribution == "normal"
    levels = np.asarray(step.references_)
    columns = []
    for place, knots in enumerate(np.asarray(step.quantiles_, np.float64).T):
        value = graph.gather(x, np.array(place), axis=1)
        level = _level(graph, value, knots, levels, normal=normal)
        columns.append(graph.column(_normal(graph, level) if normal else level))
    return Outcome(features=graph.concat(columns))


def _level(graph: Graph, x: Tensor, knots: Array, levels: Array, *, normal: bool) -> Tensor:
    rising = interpolate(graph, x, knots, levels)
    falling = interpolate(graph, graph.unary("Neg", x), -knots[::-1], -levels[::-1])
    level = graph.cast(graph.binary("Mul", graph.binary("Sub", rising, falling), 0.5), x.dtype)
    if normal:
        above = graph.compare("Greater", graph.binary("Add", x, _BOUND), knots[-1])
        below = graph.compare("Less", graph.binary("Sub", x, _BOUND), knots[0])
    else:
        above, below = (graph.compare("Equal", x, knots[end]) for end in (-1, 0))
    level = graph.where(above, np.ones((), x.dtype), level)
    return graph.where(below, np.zeros((), x.dtype), level)


def _normal(graph: Graph, level: Tensor) -> Tensor:
    from scipy.special import ndtri

    ends = [float(ndtri(end)) for end in (_BOUND - np.spacing(1), 1 - (_BOUND - np.spacing(1)))]
    value = graph.cast(normal_quantile(graph, graph.cast(level, F64)), level.dtype)
    low, high = (np.asarray(end, level.dtype) for end in ends)
    lowest = graph.compare("LessOrEqual", level, np.array(_BOUND / 2, level.dtype))
    highest = graph.compare("GreaterOrEqual", level, np.array(1 - _BOUND / 2, level.dtype))
    value = graph.where(lowest, low, graph.where(highest, high, value))
    return graph.op("Min", graph.op("Max", value, low, dtype=value.dtype), high, dtype=value.dtype)


@converts("sklearn.SplineTransformer")
def spline_transformer(steps: Steps, step: Any, data: Data) -> Outcome:
    """Evaluate every basis spline; beyond the knots as ``extrapolation`` says."""
    graph, given = steps.graph, matrix(steps.graph, data, FLOATS)
    x = graph.cast(given, F64)
    splines, mode = step.bsplines_, step.extrapolation
    count = splines[0].c.shape[1]
    before, after = _degrees(splines, mode)
    low = np.array([spline.t[degree] for spline, degree in zip(splines, before, strict=True)])
    high = np.array([spline.t[-degree - 1] for spline, degree in zip(splines, before, strict=True)])
    if mode in {"constant", "linear"}:
        inside = graph.op("Min", graph.op("Max", x, low, dtype=graph.real(F64)), high, dtype=graph.real(F64))
        ends = _Ends(low, high, after, flat=mode == "constant")
        basis = _continued(graph, x, _basis(graph, inside, splines), splines, ends)
    else:
        basis = _basis(graph, _wrapped(graph, x, low, high) if mode == "periodic" else x, splines)
    if step.handle_missing == "zeros":
        basis = graph.where(graph.op("IsNaN", _wide(graph, x), dtype=BOOL), np.zeros(()), basis)
    if not step.include_bias:
        basis, count = graph.gather(basis, np.arange(count - 1), axis=2), count - 1
    wide = graph.reshape(basis, 0, len(splines) * count)
    return Outcome(features=wide if step.sparse_output else graph.cast(wide, given.dtype))


def _wide(graph: Graph, x: Tensor) -> Tensor:
    return graph.op("Unsqueeze", x, np.array([2]), dtype=x.dtype)


def _wrapped(graph: Graph, x: Tensor, low: Array, high: Array) -> Tensor:
    """Return ``low + (x - low) % (high - low)``, with the sign that Python's modulo has; zero for a single value."""
    period = np.where(high > low, high - low, 1.0)
    shifted = graph.binary("Sub", x, low)
    rest = graph.op("Mod", shifted, period, dtype=graph.real(F64), fmod=1)
    rest = graph.where(graph.compare("Less", rest, np.zeros(())), graph.binary("Add", rest, period), rest)
    return graph.where(graph.constant(high > low), graph.binary("Add", rest, low), np.zeros(()))


def _basis(graph: Graph, x: Tensor, splines: list[Any]) -> Tensor:
    """Return (rows, columns, splines) by de Boor's recursion, in SciPy's order."""
    degree, size = splines[0].k, len(splines[0].t)
    knots = np.concatenate([spline.t for spline in splines])
    last = size - degree - 2
    inner = np.array([spline.t[degree + 1 : last + 1] for spline in splines])
    past = graph.cast(graph.compare("GreaterOrEqual", _wide(graph, x), inner), I64) if inner.size else None
    first = np.arange(len(splines)) * size + degree
    # Where each value's interval begins, in the knots of all columns one behind the other.
    if past is None:
        start = graph.binary("Add", graph.cast(graph.compare("Less", x, np.array(-np.inf)), I64), first)
    else:
        start = graph.binary("Add", graph.reduce("ReduceSum", past, 2), first)
    heights = _recursion(graph, x, start, knots, degree)
    coefficients = np.concatenate([np.pad(spline.c, ((0, size - len(spline.c)), (0, 0))) for spline in splines])
    total: Tensor | None = None
    for place, height in enumerate(heights):
        rows = graph.gather(coefficients, graph.binary("Add", start, place - degree))
        part = graph.binary("Mul", rows, _wide(graph, height))
        total = part if total is None else graph.binary("Add", total, part)
    assert total is not None
    return total


def _recursion(graph: Graph, x: Tensor, start: Tensor, knots: Array, degree: int) -> list[Tensor]:
    one = graph.binary("Add", graph.binary("Mul", x, 0.0), 1.0)  # NaN where the value is
    heights: list[Tensor] = [one]
    for order in range(1, degree + 1):
        before, heights = heights, [graph.binary("Mul", one, 0.0)] * (order + 1)
        for place in range(1, order + 1):
            right = graph.gather(knots, graph.binary("Add", start, place))
            left = graph.gather(knots, graph.binary("Add", start, place - order))
            same = graph.compare("Equal", left, right)
            share = graph.binary("Div", before[place - 1], graph.binary("Sub", right, left))
            share = graph.where(same, np.zeros(()), share)
            rise = graph.binary("Mul", share, graph.binary("Sub", right, x))
            heights[place - 1] = graph.binary("Add", heights[place - 1], rise)
            heights[place] = graph.binary("Mul", share, graph.binary("Sub", x, left))
    return heights


def _degrees(splines: list[Any], mode: str) -> tuple[list[int], list[int]]:
    """Return the degree that scikit-learn has for each column, before and after its line is drawn.

    A line takes two splines, so it raises a degree below two; and that raised degree is the next column's.
    """
    before, after = [], []
    degree = splines[0].k
    for _ in splines:
        before.append(degree)
        degree += mode == "linear" and degree <= 1
        after.append(degree)
    return before, after


@dataclass(frozen=True)
class _Ends:
    """Where the splines of each column begin and end, and how many of them go on beyond.

    Attributes:
        low: The first knot, a value a column.
        high: The last one.
        taken: How many splines have a value beyond, at either end.
        flat: Whether that value is constant.
    """

    low: Array
    high: Array
    taken: list[int]
    flat: bool


def _continued(graph: Graph, x: Tensor, basis: Tensor, splines: list[Any], ends: _Ends) -> Tensor:
    """Return the basis with straight lines beyond both ends, for the first and the last splines; else zero."""
    place, taken = np.arange(splines[0].c.shape[1]), np.array(ends.taken)[:, np.newaxis]
    sides = ((ends.low, "Less", place < taken), (ends.high, "Greater", place >= len(place) - taken))
    for end, kind, chosen in sides:
        value = np.array([spline(point) for spline, point in zip(splines, end, strict=True)]) * chosen
        line: Operand = value
        if not ends.flat:
            slope = np.array([spline(point, nu=1) for spline, point in zip(splines, end, strict=True)]) * chosen
            away = _wide(graph, graph.binary("Sub", x, end))
            line = graph.binary("Add", graph.binary("Mul", away, slope), value)
        basis = graph.where(_wide(graph, graph.compare(kind, x, end)), line, basis)
    return basis
