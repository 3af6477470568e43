"""Models: regressions, clusters, neighbours, naive Bayes, networks, support vectors.

Source: https://dmg.org/pfa/docs/library/#lib:model.reg and the sections after it
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from vitrify.runtimes._pfa.library.arithmetic import divide
from vitrify.runtimes._pfa.library.base import Library
from vitrify.runtimes._pfa.library.linear import simple_euclidean
from vitrify.runtimes._pfa.library.mathematics import dot, ln
from vitrify.runtimes._pfa.types import PfaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.runtimes._pfa.library.base import Site

LIBRARY = Library()
Vector = list[float]


def _require(holds: bool, message: str, code: int) -> None:  # noqa: FBT001 (it is the point)
    if not holds:
        raise PfaError(message, code)


@LIBRARY.built(
    "model.reg.linear",
    "[double], M{coeff: [double], const: double} -> double",
    "[double], M{coeff: [[double]], const: [double]} -> [double]",
    "{double}, M{coeff: {double}, const: double} -> double",
    "{double}, M{coeff: {{double}}, const: {double}} -> {double}",
)
def _linear(site: Site) -> Callable[..., Any]:
    row = _row if site.params[0].kind == "array" else _sparse_row
    several = site.result.kind

    def call(datum: Any, model: Any) -> Any:
        coeff, const = model["coeff"], model["const"]
        if several == "double":
            return row(datum, coeff) + const
        site.meter.spend(len(coeff) * len(datum) // 8)
        if several == "array":
            _require(bool(coeff), "no rows in coeff", 31000)
            _require(len(coeff) == len(const), "misaligned coeff", 31001)
            return [row(datum, one) + start for one, start in zip(coeff, const, strict=True)]
        keys = dict.fromkeys([*coeff, *const])
        return {key: row(datum, coeff.get(key, {})) + const.get(key, 0.0) for key in keys}

    return call


def _row(datum: Vector, coeff: Vector) -> float:
    _require(len(datum) == len(coeff), "misaligned coeff", 31001)
    return dot(coeff, datum)


def _sparse_row(datum: dict[str, float], coeff: dict[str, float]) -> float:
    keys = [key for key in datum if key in coeff]
    return dot([coeff[key] for key in keys], [datum[key] for key in keys])


# Clusters and neighbours: by a metric, else by the length of the difference.


def _nearest(candidates: list[Any], datum: Any, count: int, of: Callable[[Any], Any], metric: Any) -> list[Any]:
    distances = [metric(datum, of(one)) for one in candidates]
    places = sorted(range(len(candidates)), key=lambda at: (math.isnan(distances[at]), distances[at]))
    return [candidates[at] for at in places[: max(count, 0)]]


def _center(cluster: Any) -> Any:
    return cluster["center"]


_CLUSTERS = ("[double], [C{center: [double]}]", "A, [C{center: B}], <A, B -> double>")


@LIBRARY.plain("model.cluster.closest", *(f"{form} -> C" for form in _CLUSTERS))
def _closest(datum: Any, clusters: list[Any], metric: Any = simple_euclidean) -> Any:
    _require(bool(clusters), "no clusters", 29000)
    return _nearest(clusters, datum, 1, _center, metric)[0]


@LIBRARY.plain("model.cluster.closestN", *(f"int, {form} -> [C]" for form in _CLUSTERS))
def _closest_n(n: int, datum: Any, clusters: list[Any], metric: Any = simple_euclidean) -> list[Any]:
    _require(n >= 0, "n must be nonnegative", 29010)
    return _nearest(clusters, datum, n, _center, metric)


_CODEBOOK = ("[double], [[double]]", "A, [B], <A, B -> double>")


@LIBRARY.plain("model.neighbor.nearestK", f"int, {_CODEBOOK[0]} -> [[double]]", f"int, {_CODEBOOK[1]} -> [B]")
def _nearest_k(k: int, datum: Any, codebook: list[Any], metric: Any = simple_euclidean) -> list[Any]:
    _require(k >= 0, "k must be nonnegative", 30010)
    return _nearest(codebook, datum, k, lambda one: one, metric)


@LIBRARY.plain("model.neighbor.ballR", f"double, {_CODEBOOK[0]} -> [[double]]", f"double, {_CODEBOOK[1]} -> [B]")
def _ball(r: float, datum: Any, codebook: list[Any], metric: Any = simple_euclidean) -> list[Any]:
    return [one for one in codebook if metric(datum, one) < r]


@LIBRARY.plain("model.neighbor.mean", "[[double]] -> [double]", "[[double]], <[double] -> double> -> [double]")
def _mean(points: list[Vector], weight: Any = lambda _: 1.0) -> Vector:
    _require(bool(points), "not enough points", 30000)
    _require(len({len(one) for one in points}) == 1, "inconsistent dimensionality", 30001)
    weights = [weight(one) for one in points]
    whole = dot([1.0] * len(weights), weights)
    return [divide(dot(weights, list(column)), whole) for column in zip(*points, strict=True)]


# Naive Bayes.


@LIBRARY.plain("model.naive.gaussian", "[double], [A{mean: double, variance: double}] -> double")
def _naive_gaussian(datum: Vector, model: list[Any]) -> float:
    _require(len(datum) == len(model), "datum and classModel misaligned", 10000)
    tally = 0.0
    for x, one in zip(datum, model, strict=True):
        mean, variance = one["mean"], one["variance"]
        _require(variance > 0, "variance less than or equal to zero", 10001)
        away = x - mean
        tally += -0.5 * (math.log(2 * math.pi) + math.log(variance) + divide(away * away, variance))
    return tally


@LIBRARY.plain("model.naive.multinomial", "[double], [double] -> double", "[double], C{values: [double]} -> double")
def _naive_multinomial(datum: Vector, model: Any) -> float:
    shares = model["values"] if isinstance(model, dict) else model
    _require(len(datum) == len(shares) and bool(datum), "datum and classModel misaligned", 10000 + 10)
    _require(all(one > 0 for one in shares), "classModel must be non-empty and strictly positive", 10011)
    whole = dot([1.0] * len(shares), shares)
    return dot(datum, [ln(one / whole) for one in shares])


@LIBRARY.plain("model.naive.bernoulli", "[string], {double} -> double", "[string], C{values: {double}} -> double")
def _naive_bernoulli(datum: list[str], model: dict[str, Any]) -> float:
    values = model.get("values")
    shares: dict[str, float] = values if isinstance(values, dict) else model
    _require(
        all(0 < one < 1 for one in shares.values()),
        "probability in classModel cannot be less than 0 or greater than 1",
        10020,
    )
    there = set(datum)
    return math.fsum(math.log(one if key in there else 1 - one) for key, one in shares.items())


# Networks and support vectors.


@LIBRARY.built(
    "model.neural.simpleLayers", "[double], [M{weights: [[double]], bias: [double]}], <double -> double> -> [double]"
)
def _layers(site: Site) -> Callable[..., Vector]:
    def call(datum: Vector, model: list[Any], activation: Any) -> Vector:
        _require(bool(model), "no layers", 11000)
        for place, layer in enumerate(model):
            weights, bias = layer["weights"], layer["bias"]
            site.meter.spend(len(weights) * len(datum) // 8)
            fits = len(weights) == len(bias) and all(len(row) == len(datum) for row in weights)
            _require(fits, "weights, bias, or datum misaligned", 11001)
            datum = [dot(row, datum) + start for row, start in zip(weights, bias, strict=True)]
            if place < len(model) - 1:
                datum = [activation(one) for one in datum]
        return datum

    return call


@LIBRARY.plain(
    "model.svm.score",
    "[double], L{const: double, posClass: [M{supVec: [double], coeff: double}], "
    "negClass: [P{supVec: [double], coeff: double}]}, <[double], [double] -> double> -> double",
)
def _svm(datum: Vector, model: dict[str, Any], kernel: Any) -> float:
    every = [*model["negClass"], *model["posClass"]]
    _require(bool(every), "no support vectors", 12000)
    _require(
        all(len(one["supVec"]) == len(datum) for one in every), "support vectors must have same length as datum", 12001
    )
    tally = 0.0
    for one in every:
        tally += kernel(one["supVec"], datum) * one["coeff"]
    return tally + float(model["const"])
