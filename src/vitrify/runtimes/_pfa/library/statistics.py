"""Interpolation, the normal distribution, and updates of samples.

Source: https://dmg.org/pfa/docs/library/#lib:interp, #lib:prob.dist and #lib:stat.sample
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

from vitrify.runtimes._pfa.library.arithmetic import divide
from vitrify.runtimes._pfa.library.base import Library
from vitrify.runtimes._pfa.library.linear import simple_euclidean
from vitrify.runtimes._pfa.types import PfaError, number

if TYPE_CHECKING:
    from collections.abc import Callable

LIBRARY = Library()
_NORMAL = statistics.NormalDist()


def _require(holds: bool, message: str, code: int) -> None:  # noqa: FBT001 (it is the point)
    if not holds:
        raise PfaError(message, code)


@LIBRARY.plain("interp.bin", "double, int, double, double -> int", "double, double, double -> int")
def _bin(x: float, first: float, second: float, third: float | None = None) -> int:
    if third is None:
        _require(
            second > 0 and math.isfinite(first), "bad histogram range" if second > 0 else "bad histogram scale", 22002
        )
        at = divide(x - first, second)
        _require(math.isfinite(at), "x out of range", 22001)
        return int(number(math.floor(at), "int"))
    _require(second < third, "bad histogram range", 22000 + 2)
    _require(first >= 1, "bad histogram scale", 22000)
    _require(second <= x < third, "x out of range", 22001)
    share = (x - second) / (third - second)
    _require(math.isfinite(share), "bad histogram range", 22002)
    return min(math.floor(first * share), int(first) - 1)


@LIBRARY.plain(
    "interp.nearest",
    "double, [R{x: double, to: T}] -> T",
    "[double], [R{x: [double], to: T}] -> T",
    "A, [R{x: B, to: T}], <A, B -> double> -> T",
)
def _nearest(x: Any, table: list[Any], metric: Any = None) -> Any:
    _require(bool(table), "empty table", 22010)
    measure = metric or (simple_euclidean if isinstance(x, list) else lambda one, other: abs(one - other))
    return min(table, key=lambda one: measure(x, one["x"]))["to"]


def _around(x: float, table: list[Any], code: int) -> tuple[Any, Any]:
    """Return the two points of a table that are used for an input: beside it, or the last two."""
    points = sorted({one["x"]: one for one in reversed(table)}.values(), key=lambda one: one["x"])
    _require(len(points) > 1, "table must have at least two distinct x values", code)
    at = next((at for at, one in enumerate(points) if one["x"] > x), len(points) - 1)
    at = min(max(at, 1), len(points) - 1)
    return points[at - 1], points[at]


def _between(x: float, low: Any, high: Any, code: int) -> Any:
    share = divide(x - low["x"], high["x"] - low["x"])
    if not isinstance(low["to"], list):
        return (1.0 - share) * low["to"] + share * high["to"]
    _require(len(low["to"]) == len(high["to"]), "inconsistent dimensionality", code)
    return [(1.0 - share) * one + share * other for one, other in zip(low["to"], high["to"], strict=True)]


def _interpolation(name: str, code: int, outside: Callable[[Any], Any] | None, result: str) -> None:
    table = ("double, [R{x: double, to: double}]", "double, [R{x: double, to: [double]}]")
    results = (result.format("double"), result.format("[double]"))

    @LIBRARY.plain(f"interp.{name}", *(f"{form} -> {gives}" for form, gives in zip(table, results, strict=True)))
    def call(x: float, points: list[Any]) -> Any:
        low, high = _around(x, points, code)
        if outside is not None and not low["x"] <= x <= high["x"]:
            return outside(low if x < low["x"] else high)
        return _between(x, low, high, code + 1)


_interpolation("linear", 22020, None, "{}")
_interpolation("linearFlat", 22030, lambda point: point["to"], "{}")
_interpolation("linearMissing", 22040, lambda _: None, "(null | {})")


def _normal(name: str, code: int, of: Callable[[float, float, float], float]) -> None:
    @LIBRARY.plain(
        f"prob.dist.{name}",
        "double, double, double -> double",
        "double, A{mean: double, variance: double} -> double",
    )
    def call(x: float, mu: Any, sigma: float | None = None) -> float:
        mean, width = (mu["mean"], mu["variance"]) if sigma is None else (mu, sigma)
        _require(math.isfinite(mean) and math.isfinite(width) and width >= 0, "invalid parameterization", code)
        return of(x, mean, math.sqrt(width) if sigma is None else width)


def _log_likelihood(x: float, mu: float, sigma: float) -> float:
    if sigma == 0:
        return math.inf if x == mu else -math.inf
    away = (x - mu) / sigma
    return -0.5 * away * away - math.log(sigma) - 0.5 * math.log(2.0 * math.pi)


def _cumulative(x: float, mu: float, sigma: float) -> float:
    if sigma == 0:
        return float(x >= mu)
    return _NORMAL.cdf((x - mu) / sigma)


def _quantile(p: float, mu: float, sigma: float) -> float:
    _require(0 <= p <= 1, "invalid input", 13021)
    if p in {0, 1}:
        return math.inf if p else -math.inf
    return mu + sigma * _NORMAL.inv_cdf(p)


_normal("gaussianLL", 13000, _log_likelihood)
_normal("gaussianCDF", 13010, _cumulative)
_normal("gaussianQF", 13020, _quantile)


# Samples: the state is a record, and comes back with what was learnt.


@LIBRARY.plain("stat.sample.update", "double, double, A{count: double} -> A")
def _update(x: float, w: float, state: dict[str, Any]) -> dict[str, Any]:
    new = {**state, "count": state["count"] + w}
    if "mean" not in state:
        return new
    shift = divide((x - state["mean"]) * w, new["count"])
    new["mean"] = state["mean"] + shift
    if "variance" in state:
        spread = state["variance"] * state["count"] + w * (x - state["mean"]) * (x - new["mean"])
        new["variance"] = divide(spread, new["count"])
    return new


@LIBRARY.plain("stat.sample.updateEWMA", "double, double, A{mean: double} -> A")
def _update_ewma(x: float, alpha: float, state: dict[str, Any]) -> dict[str, Any]:
    _require(0 <= alpha <= 1, "alpha out of range", 14030)
    difference = x - state["mean"]
    new = {**state, "mean": state["mean"] + alpha * difference}
    if "variance" in state:
        new["variance"] = (1.0 - alpha) * (state["variance"] + alpha * difference * difference)
    return new


@LIBRARY.plain("stat.sample.fillCounter", "string, double, A{values: {double}} -> A")
def _fill_counter(x: str, w: float, state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "values": {**state["values"], x: state["values"].get(x, 0.0) + w}}


def _surprise(name: str, code: int, of: Callable[..., float], params: int) -> None:
    forms = ("double", "[double]", "{double}")

    @LIBRARY.plain(name, *(f"{', '.join([form] * params)} -> {form}" for form in forms))
    def call(*values: Any) -> Any:
        first = values[0]
        if isinstance(first, list):
            _require(len({len(one) for one in values}) == 1, "misaligned vector", code)
            return [of(*ones) for ones in zip(*values, strict=True)]
        if isinstance(first, dict):
            _require(all(one.keys() == first.keys() for one in values), "misaligned vector", code)
            return {key: of(*(one[key] for one in values)) for key in first}
        return of(*values)


for _prefix, _code in (("model.reg", 31020), ("stat.test", 38010)):
    _surprise(f"{_prefix}.residual", _code, lambda one, other: one - other, 2)
    _surprise(f"{_prefix}.pull", _code + 10, lambda one, other, wide: divide(one - other, wide), 3)
